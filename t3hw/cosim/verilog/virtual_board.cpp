// Runs a board's top level. What is at its UART pins goes to and from a pseudo-terminal, whose path is the first line
// on stdout. Ends when stdin does, and on SIGTERM; the last line on stdout tells how many cycles were simulated.

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fcntl.h>
#include <poll.h>
#include <random>
#include <string>
#include <termios.h>
#include <unistd.h>

#include "Vtop.h"
#include "verilated.h"

namespace {

// Cycles between looks at the terminal: a system call costs as much as a few cycles of a small design.
constexpr uint64_t LOOK = 256;
constexpr uint64_t RESET = 16;

volatile std::sig_atomic_t stopped = 0;

void stop(int) { stopped = 1; }

[[noreturn]] void fail(const std::string& what) {
    std::fprintf(stderr, "%s: %s\n", what.c_str(), std::strerror(errno));
    std::exit(1);
}

struct Options {
    double bit_cycles = 0;
    long drop_after = -1;
    long garbage = 0;
    long flip_to_board = -1;
    long flip_to_host = -1;
    bool mute = false;

    Options(int argc, char** argv) {
        for (int index = 1; index < argc; ++index) {
            const std::string name = argv[index];
            if (name == "--mute") {
                mute = true;
                continue;
            }
            if (++index == argc) usage(name);
            const char* value = argv[index];
            if (name == "--bit-cycles") bit_cycles = std::atof(value);
            else if (name == "--drop-after") drop_after = std::atol(value);
            else if (name == "--garbage") garbage = std::atol(value);
            else if (name == "--flip-to-board") flip_to_board = std::atol(value);
            else if (name == "--flip-to-host") flip_to_host = std::atol(value);
            else usage(name);
        }
        if (bit_cycles < 4) usage("--bit-cycles");
    }

    [[noreturn]] static void usage(const std::string& name) {
        std::fprintf(stderr, "wrong or missing: %s\n", name.c_str());
        std::exit(2);
    }
};

// Both ends of a pseudo-terminal in raw mode. The end of the host stays open here too, so that hosts may come and go.
class Terminal {
public:
    Terminal() {
        board = posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK);
        if (board < 0 || grantpt(board) || unlockpt(board)) fail("no pseudo-terminal");
        path = ptsname(board);
        host = open(path.c_str(), O_RDWR | O_NOCTTY);
        termios settings;
        if (host < 0 || tcgetattr(host, &settings)) fail(path);
        cfmakeraw(&settings);
        if (tcsetattr(host, TCSANOW, &settings)) fail(path);
    }

    void unplug() {
        if (board < 0) return;
        close(host);
        close(board);
        board = host = -1;
    }

    bool plugged() const { return board >= 0; }

    // What the host has sent, up to ``most`` bytes.
    std::string take(size_t most) {
        char bytes[4096];
        if (board < 0) return {};
        const ssize_t count = read(board, bytes, most < sizeof bytes ? most : sizeof bytes);
        return count > 0 ? std::string(bytes, count) : std::string();
    }

    // Gives the host what it takes now, and removes that.
    void give(std::string& bytes) {
        if (board < 0) {
            bytes.clear();
            return;
        }
        if (bytes.empty()) return;
        const ssize_t count = write(board, bytes.data(), bytes.size());
        if (count > 0) bytes.erase(0, count);
    }

    std::string path;

private:
    int board = -1, host = -1;
};

// Drives a line: start bit, eight bits, stop bit.
class Sender {
public:
    explicit Sender(double bit_cycles) : bit_cycles(bit_cycles) {}

    bool level(uint64_t cycle) {
        if (left && cycle >= next) {
            bits >>= 1;
            // The end of the last bit may be the beginning of the next byte.
            if (--left) next += bit_cycles;
        }
        if (!left) {
            if (bytes.empty()) return true;
            bits = static_cast<unsigned char>(bytes.front()) << 1 | 0x200;
            bytes.pop_front();
            left = 10;
            // When a byte ends within a cycle, so does the bit behind it.
            next = (cycle < next + 1 ? next : cycle) + bit_cycles;
        }
        return bits & 1;
    }

    std::deque<char> bytes;

private:
    double bit_cycles, next = 0;
    unsigned bits = 0;
    int left = 0;
};

// Listens to a line in the middle of each bit.
class Listener {
public:
    explicit Listener(double bit_cycles) : bit_cycles(bit_cycles) {}

    bool byte(uint64_t cycle, bool level, unsigned char& result) {
        if (!left) {
            if (!level) {
                left = 10;
                next = cycle + bit_cycles / 2;
            }
            return false;
        }
        if (cycle < next) return false;
        next += bit_cycles;
        --left;
        bits = bits >> 1 | level << 9;
        if (left) return false;
        if (!(bits & 0x200) || bits & 1) {
            std::fprintf(stderr, "the board sent a byte without start or stop bit\n");
            std::exit(1);
        }
        result = bits >> 1;
        return true;
    }

private:
    double bit_cycles, next = 0;
    unsigned bits = 0;
    int left = 0;
};

bool ended() {
    pollfd input{STDIN_FILENO, POLLIN, 0};
    if (poll(&input, 1, 0) <= 0) return false;
    char byte;
    return read(STDIN_FILENO, &byte, 1) <= 0;
}

}  // namespace

int main(int argc, char** argv) {
    const Options options(argc, argv);
    std::signal(SIGTERM, stop);
    std::signal(SIGINT, stop);
    Terminal terminal;
    std::printf("%s\n", terminal.path.c_str());
    std::fflush(stdout);

    VerilatedContext context;
    Vtop top(&context);
    Sender to_board(options.bit_cycles);
    Listener from_board(options.bit_cycles);
    std::mt19937 random(1);
    std::string to_host;
    for (long count = 0; count < options.garbage; ++count) to_host += static_cast<char>(random());
    long taken = 0, given = 0;
    uint64_t cycle = 0;
    for (; !stopped; ++cycle) {
        if (cycle > RESET && cycle % LOOK == 0) {
            if (ended()) break;
            // What does not fit stays in the terminal, so that a host that sends too much has to wait.
            const size_t room = to_board.bytes.size() < 1024 ? 1024 - to_board.bytes.size() : 0;
            for (char byte : terminal.take(room)) {
                if (taken++ == options.flip_to_board) byte ^= 0x10;
                to_board.bytes.push_back(byte);
                if (taken == options.drop_after) {
                    terminal.unplug();
                    break;
                }
            }
            terminal.give(to_host);
        }
        top.rst = cycle < RESET;
        top.rx = to_board.level(cycle);
        top.clk = 0;
        top.eval();
        top.clk = 1;
        top.eval();
        if (context.gotFinish()) {
            // A memory has seen a rule broken; it has said on stdout which.
            std::fprintf(stderr, "the model of the memory ended the simulation\n");
            return 1;
        }
        unsigned char byte;
        if (from_board.byte(cycle, top.tx, byte) && terminal.plugged() && !options.mute) {
            if (given++ == options.flip_to_host) byte ^= 0x10;
            to_host += static_cast<char>(byte);
        }
    }
    std::printf("%llu\n", static_cast<unsigned long long>(cycle));
    return 0;
}
