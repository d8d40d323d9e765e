"""Host's end of a board's serial link: words at byte addresses, many commands under way, checked.

The bridge on the board takes commands of LiteX's uartbone: a byte of what to do, a byte of how many
words, four bytes of the word's address, most significant first, and a write's words; a read is
answered by its words and nothing else. Nothing in this marks where a command begins. So whatever
goes wrong, `SerialLink.resynchronise` brings both ends together again: silence for longer than the
bridge waits within a command makes it forget a half one, all that still comes is thrown away, and a
read of MAGIC shows that the next answer belongs to the next question.
"""

import collections
import errno
import os
import stat
import time
import zlib

import numpy as np

from t3hw.registers.board import MAGIC, REFUSED, register_address

from .transport import BusError

__all__ = ["LinkError", "SerialLink"]

_WRITE, _READ = 1, 2
#: Words of a command at most.
_LONGEST = 255
#: Bytes of commands that may wait in the bridge while it answers a read; it has room for 512.
_WINDOW = 384
#: Words from which on a transfer is a block, whose checksum is compared.
_BLOCK = 4
#: Words of a block that are sent, checked and, if need be, sent again together.
_PART = 4096
#: Bytes that are handed to the port in one call.
_BATCH = 2048
#: Bits of a byte on the line.
_BYTE_BITS = 10
#: Silence that brings the bridge back, in its time-outs: clocks differ, and systems are late.
_MARGIN = 1.5
#: Attempts to find the board's MAGIC, and bytes of an answer that an error quotes.
_ATTEMPTS, _QUOTED = 3, 16


class LinkError(OSError):
    """The link to a board failed; the message says how, and what to do.

    Parameters
    ----------
    message : str
        What is wrong.
    port : str
        Where.
    """

    def __init__(self, message, port):
        super().__init__(errno.EIO, message, port)

    def __str__(self):
        return f"{self.filename}: {self.strerror}"


class _Silence(Exception):
    """An answer did not come in time; ``data`` is what came of it."""

    def __init__(self, data, count):
        super().__init__()
        self.data = data
        self.count = count


class _Corrupted(Exception):
    """A checksum does not fit; the message says which."""


class SerialLink:
    """A board's bus behind a serial port, in 32-bit words at byte addresses.

    One program at a time has the port. After an error the link can be used on, unless it was the
    port itself that failed.

    Parameters
    ----------
    port : str
        The port's device file.
    baud : int
        Bits a second, as in the board's design.
    timeout : float
        Seconds without a byte after which an answer is given up, apart from the time that bytes
        take on the line.
    silence : float
        Seconds of silence after which the bridge forgets half a command.

    Raises
    ------
    LinkError
        If the port is not there, busy or no port; if nobody answers, or no t3hw board.
    """

    def __init__(self, port, *, baud, timeout=2.0, silence=0.1):
        self.port = str(port)
        self.baud = baud
        self.timeout = timeout
        self.silence = silence
        #: Bytes sent since an answer was last complete: they may still be on their way.
        self._backlog = 0
        #: Something ended a transfer in the middle: nobody knows where the bridge is.
        self._is_lost = False
        self._serial = None
        self._serial = _open(self.port, baud)
        try:
            self.resynchronise()
            self.write32(register_address("LINE_ERRORS"), 0)
        except BaseException:
            self.close()
            raise

    def close(self):
        """Give the port back."""
        if self._serial is not None:
            serial, self._serial = self._serial, None
            try:
                serial.close()
            except OSError:
                # A port that is gone cannot be closed either.
                pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    @property
    def byte_seconds(self):
        """Time of a byte on the line."""
        return _BYTE_BITS / self.baud

    # Words.

    def read32(self, address):
        """Read a word; raises `BusError` if the board refuses."""
        return self.read_block(address, 1)[0]

    def write32(self, address, value):
        """Write a word; raises `BusError` if the board refuses."""
        self.write_words([(address, value)])

    def read_block(self, address, count, *, retry=False):
        """Read ``count`` words that follow each other.

        ``retry``: reading twice does no harm, so a block that was damaged is read again, once.
        """
        return self.read_array(address, count, retry=retry).tolist()

    def write_block(self, address, words, *, retry=False):
        """Write words that follow each other. ``retry``: writing twice does no harm."""
        words = np.asarray(words, np.uint32)
        for start in range(0, len(words), _PART):
            part = words[start:start + _PART].astype(">u4").tobytes()
            self._guarded(lambda: self._write_runs([(address + 4 * start, part)]), retry)

    def read_array(self, address, count, *, retry=False):
        """`read_block` as an array of uint32."""
        parts = [self._guarded(lambda: self._read_part(address + 4 * start,
                                                       min(_PART, count - start)), retry)
                 for start in range(0, count, _PART)]
        return np.concatenate(parts) if parts else np.empty(0, np.uint32)

    def write_words(self, writes):
        """Write words anywhere, in order: pairs of address and value.

        All of them are under way before the first is known to be good: one that is refused raises
        `BusError` with its address, and those behind it have taken effect.
        """
        runs, size = [], 0
        for run in _runs(writes):
            runs.append(run)
            size += len(run[1]) // 4
            if size >= _PART:
                self._guarded(lambda: self._write_runs(runs), False)
                runs, size = [], 0
        if runs:
            self._guarded(lambda: self._write_runs(runs), False)

    def read_many(self, addresses, count=1):
        """Read ``count`` words at each of some addresses, without waiting for answers in between.

        Returns
        -------
        list of list of int
        """
        reads = [_read_command(address, count) for address in addresses]

        def attempt():
            answers = self._exchange(reads)
            if any((answer == REFUSED).any() for answer in answers):
                self._raise_refused("read", self._exchange([_STATUS])[0])
            return [answer.tolist() for answer in answers]

        return self._guarded(attempt, False)

    def mixed(self, operations):
        """Reads and writes of single words anywhere, in order and without waiting in between.

        Parameters
        ----------
        operations : iterable of (int, int or None)
            Address, and a word to write; None reads.

        Returns
        -------
        list of int
            What was read.
        """
        commands = [_read_command(address, 1) if word is None else
                    (_command(_WRITE, address, 1) + int(word).to_bytes(4, "big"), 0)
                    for address, word in operations]

        def attempt():
            *answers, status = self._exchange([*commands, _STATUS])
            self._raise_refused("access", status)
            return [int(answer[0]) for answer in answers]

        return self._guarded(attempt, False)

    # Synchronisation.

    def resynchronise(self):
        """Bring both ends together, whatever state they are in; forgets refused accesses.

        Raises
        ------
        LinkError
            If nobody answers after this, or no t3hw board.
        """
        answer = b""
        for _attempt in range(_ATTEMPTS):
            # What is on the way out takes its time; then the bridge must see silence.
            time.sleep(self._backlog * self.byte_seconds + _MARGIN * self.silence)
            self._backlog = 0
            self._drain()
            self._send(_command(_READ, register_address("MAGIC"), 1))
            try:
                answer = self._receive(4)
            except _Silence as error:
                answer = error.data
                continue
            if int.from_bytes(answer, "big") == MAGIC:
                self._send(_clear_refused())
                self._is_lost = False
                return
        if not answer:
            raise LinkError(
                f"nobody answers, {_ATTEMPTS} times {self.timeout:g} s: is the board on, is it "
                f"programmed, is this its port, and is its speed {self.baud} baud?", self.port)
        raise LinkError(
            f"this is no t3hw board, or not at {self.baud} baud: asked for the board's magic "
            f"number, {MAGIC:#010x}, it says {_quote(answer)}", self.port)

    def _drain(self):
        """Throw away all that comes, until nothing comes for as long as
        the bridge may be silent."""
        wait = _MARGIN * self.silence
        # As much as the bridge can have been asked for.
        end = time.monotonic() + self.timeout + wait + (
            _WINDOW // 6 * 4 * _LONGEST * self.byte_seconds)
        last = b""
        while True:
            data = self._port_call(self._read_port, 1 << 16, wait)
            if not data:
                return
            last = data
            if time.monotonic() > end:
                raise LinkError(f"it does not stop sending; last came {_quote(last)}: this is no "
                                "t3hw board, or its speed is another", self.port)

    # Transfers.

    def _guarded(self, attempt, retry):
        """``attempt()``, with errors of the line turned into one kind,
        and both ends in step again."""
        for is_last in (not retry, True):
            if self._serial is None:
                raise LinkError("the link is closed: open the port again", self.port)
            try:
                if self._is_lost:
                    self.resynchronise()
                self._expect_nothing()
                result = attempt()
                self._expect_nothing()
                return result
            except BusError:
                raise
            except _Silence as error:
                message = (f"the board does not answer: {len(error.data)} of {error.count} bytes "
                           f"came within {self.timeout:g} s")
                if error.data:
                    message += f", {_quote(error.data)}"
            except _Corrupted as error:
                message = str(error)
            except BaseException:
                self._is_lost = True
                raise
            self.resynchronise()
            if is_last:
                raise LinkError(message, self.port)

    def _expect_nothing(self):
        """All that was asked for has come: an answer that is longer belongs to another question."""
        stray = self._port_call(self._stray)
        if stray:
            raise _Corrupted(f"bytes came that nobody asked for: {_quote(stray)}; what was read "
                             "last may be wrong")

    def _read_part(self, address, count):
        """Words from ``address`` on, checked."""
        reads = [_read_command(address + 4 * start, min(_LONGEST, count - start))
                 for start in range(0, count, _LONGEST)]
        if count < _BLOCK:
            answer = np.concatenate(self._exchange(reads))
            # A word of ones may be the word that is there, or a refusal.
            if (answer == REFUSED).any():
                self._raise_refused("read", self._exchange([_STATUS])[0])
            return answer
        *answers, status, sums = self._exchange([*_CLEAR_SUMS, *reads, _STATUS, _SUMS])
        answer = np.concatenate(answers)
        sent, got = int(sums[1]), zlib.crc32(answer.astype(">u4").tobytes())
        if sent != got:
            raise _Corrupted(f"{count} words from {address:#x} came damaged: checksum {got:#010x}, "
                             f"the board's {sent:#010x}")
        self._raise_refused("read", status)
        return answer

    def _write_runs(self, runs):
        """Write runs of words, pairs of address and bytes of the line; checked."""
        commands = []
        expected = 0
        for address, data in runs:
            for start in range(0, len(data), 4 * _LONGEST):
                part = data[start:start + 4 * _LONGEST]
                commands.append((_command(_WRITE, address + start, len(part) // 4) + part, 0))
            expected = zlib.crc32(data, expected)
        total = sum(len(data) for _, data in runs) // 4
        if total < _BLOCK:
            status, = self._exchange([*commands, _STATUS])
        else:
            status, sums = self._exchange([*_CLEAR_SUMS, *commands, _STATUS, _SUMS])
            if int(sums[0]) != expected:
                raise _Corrupted(f"{total} words to {runs[0][0]:#x} arrived damaged: checksum "
                                 f"{int(sums[0]):#010x} at the board, sent {expected:#010x}")
        self._raise_refused("write", status)

    def _raise_refused(self, kind, status):
        if status[0]:
            address = self._exchange([_FIRST_REFUSED])[0]
            self._send(_clear_refused())
            raise BusError(kind, int(address[0]))

    def _exchange(self, commands):
        """Send commands, pairs of bytes and number of words of the answer; the answers, as arrays.

        Writes are taken as fast as the line brings them. Behind a read all waits until it is
        answered: never more than the bridge has room for.
        """
        answers = []
        batch = bytearray()
        # Words, and bytes of commands from this read to the next one.
        open_reads = collections.deque()
        waiting = 0

        def flush():
            if batch:
                self._send(bytes(batch))
                batch.clear()

        def answer():
            nonlocal waiting
            flush()
            words, size = open_reads.popleft()
            data = self._receive(4 * words)
            waiting -= size
            answers.append(np.frombuffer(data, ">u4").astype(np.uint32))

        for data, words in commands:
            while open_reads and waiting + len(data) > _WINDOW:
                answer()
            batch += data
            if words:
                open_reads.append([words, len(data)])
                waiting += len(data)
            elif open_reads:
                open_reads[-1][1] += len(data)
                waiting += len(data)
            if len(batch) >= _BATCH:
                flush()
        flush()
        while open_reads:
            answer()
        self._backlog = 0
        return answers

    # Bytes.

    def _send(self, data):
        self._backlog += len(data)
        self._port_call(self._write_port, data)

    def _receive(self, count):
        data = b""
        deadline = time.monotonic() + self.timeout + self._backlog * self.byte_seconds
        while len(data) < count:
            left = deadline - time.monotonic()
            if left <= 0:
                raise _Silence(data, count)
            more = self._port_call(self._read_port, count - len(data), min(left, self.timeout))
            if more:
                data += more
                deadline = max(deadline, time.monotonic() + self.timeout)
        return data

    def _write_port(self, data):
        self._serial.write_timeout = self.timeout + len(data) * self.byte_seconds
        self._serial.write(data)

    def _read_port(self, count, seconds):
        """What comes within some seconds, and no longer than it takes to come;
        at most ``count``."""
        self._serial.timeout = seconds
        first = self._serial.read(1)
        return first + self._serial.read(min(count - 1, self._serial.in_waiting)) if first else b""

    def _stray(self):
        waiting = self._serial.in_waiting
        return self._serial.read(waiting) if waiting else b""

    def _port_call(self, function, *arguments):
        """A call of the port; whatever it raises means that the port is gone."""
        if self._serial is None:
            raise LinkError("the link is closed: open the port again", self.port)
        try:
            return function(*arguments)
        except Exception as error:
            # pyserial lets through errors of its own, of the system and of its terminal interface.
            self.close()
            raise LinkError(f"the port failed, as if it was unplugged ({error}): check the cable, "
                            "and open the port again", self.port) from None


def _command(what, address, count):
    """First bytes of a command."""
    if address % 4 or not 0 <= address < 1 << 32:
        raise ValueError(f"address must be a multiple of 4 of 32 bits, not {address:#x}")
    return bytes((what, count)) + (address // 4).to_bytes(4, "big")


def _read_command(address, count):
    return _command(_READ, address, count), count


def _write_command(name):
    return _command(_WRITE, register_address(name), 1) + bytes(4), 0


def _clear_refused():
    return _write_command("ACCESS_ERRORS")[0]


#: Commands that frame others: number of refused accesses, and where the first was; both checksums.
#: The one of what came is cleared last, since clearing the other is a write, too.
_STATUS = _read_command(register_address("ACCESS_ERRORS"), 1)
_FIRST_REFUSED = _read_command(register_address("ACCESS_ERROR_ADDRESS"), 1)
_SUMS = _read_command(register_address("RX_CRC"), 2)
_CLEAR_SUMS = _write_command("TX_CRC"), _write_command("RX_CRC")


def _runs(writes):
    """Writes to addresses that follow each other, joined: first address, and bytes of the line."""
    first, data = None, bytearray()
    for address, value in writes:
        if first is not None and address == first + len(data):
            data += int(value).to_bytes(4, "big")
            continue
        if first is not None:
            yield first, bytes(data)
        first, data = address, bytearray(int(value).to_bytes(4, "big"))
    if first is not None:
        yield first, bytes(data)


def _quote(data):
    text = data[:_QUOTED].hex(" ")
    return f"{text} …" if len(data) > _QUOTED else text


def _open(port, baud):
    """The port, ours alone."""
    try:
        import serial
    except ImportError:
        raise LinkError("a serial port needs pyserial: pip install 't3hw[fpga]'", port) from None
    try:
        return serial.Serial(port, baud, exclusive=True, timeout=0)
    except (OSError, ValueError) as error:
        raise LinkError(_why_not(port, baud, error), port) from None


def _why_not(port, baud, error):
    """What an error at opening a port means."""
    number = getattr(error, "errno", None)
    if number in (errno.ENOENT, errno.ENODEV, errno.ENXIO):
        from serial.tools.list_ports import comports

        there = ", ".join(sorted(one.device for one in comports())) or "none"
        return f"there is no such port (ports that are there: {there}): is the board plugged in?"
    if number in (errno.EACCES, errno.EPERM):
        return f"no permission: {_owner(port)}"
    if number in (errno.EAGAIN, errno.EBUSY):
        return "the port is busy: another program uses it; end that one first"
    if not _is_terminal(port):
        return "this is no serial port"
    return f"the port cannot be opened at {baud} baud: {error}"


def _owner(port):
    try:
        import grp

        group = grp.getgrgid(os.stat(port).st_gid).gr_name
    except (ImportError, KeyError, OSError):
        return "ask who looks after this machine"
    return (f"the port is for the group {group}; join it (sudo usermod -aG {group} $USER), "
            "and log in again")


def _is_terminal(port):
    try:
        if not stat.S_ISCHR(os.stat(port).st_mode):
            return False
        file = os.open(port, os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK)
    except OSError:
        return True
    try:
        return os.isatty(file)
    finally:
        os.close(file)
