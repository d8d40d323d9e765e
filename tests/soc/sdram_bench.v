// Random accesses to the SDRAM controller in front of the chip's model, checked against an array of words.
// As the node does, no access to a beat begins while a write to it is under way, nor a write while a read
// is. Prints the number of accesses and cycles, and "ok".
module bench;
    parameter SEED = 1;
    parameter ACCESSES = 2000;
    parameter BEAT_BITS = 64;
    parameter ADDRESS_BITS = 32;
    // 0: random accesses with random stalls; 1: reads of beats that follow each other; 2: writes; 3: in turn.
    parameter MODE = 0;
    parameter T_RCD = 2, T_RP = 2, T_RAS = 5, T_RC = 7, T_RRD = 2, T_WR = 2, T_RFC = 7, T_INIT = 100;
    parameter REFRESH_CYCLES = 781;
    parameter ROW_BITS = 13, COLUMN_BITS = 9;
    localparam BYTES = BEAT_BITS / 8;
    // Beats that are used: a few rows of each bank.
    localparam PLACES = 512;

    reg clk = 0, rst = 1;
    always #5 clk = ~clk;

    reg aw_valid = 0, w_valid = 0, ar_valid = 0, b_ready = 0, r_ready = 0;
    reg [ADDRESS_BITS-1:0] aw_addr = 0, ar_addr = 0;
    reg [BEAT_BITS-1:0] w_data = 0;
    reg [BYTES-1:0] w_strb = 0;
    wire aw_ready, w_ready, ar_ready, b_valid, r_valid, ready;
    wire [1:0] b_resp, r_resp;
    wire [BEAT_BITS-1:0] r_data;
    wire clk_en, cs, ras, cas, we, dq_oe;
    wire [1:0] ba, dqm;
    wire [ROW_BITS-1:0] a;
    wire [15:0] dq_o, dq_i;
    wire [31:0] refreshes;

    sdram_controller controller (
        .clk(clk), .rst(rst), .ready(ready),
        .aw_valid(aw_valid), .aw_ready(aw_ready), .aw_addr(aw_addr),
        .w_valid(w_valid), .w_ready(w_ready), .w_data(w_data), .w_strb(w_strb),
        .b_valid(b_valid), .b_ready(b_ready), .b_resp(b_resp),
        .ar_valid(ar_valid), .ar_ready(ar_ready), .ar_addr(ar_addr),
        .r_valid(r_valid), .r_ready(r_ready), .r_data(r_data), .r_resp(r_resp),
        .clk_en(clk_en), .cs(cs), .ras(ras), .cas(cas), .we(we), .ba(ba), .a(a), .dqm(dqm),
        .dq_o(dq_o), .dq_oe(dq_oe), .dq_i(dq_i));

    t3_sdram_model #(
        .T_RCD(T_RCD), .T_RP(T_RP), .T_RAS(T_RAS), .T_RC(T_RC), .T_RRD(T_RRD), .T_WR(T_WR),
        .T_RFC(T_RFC), .T_INIT(T_INIT), .REFRESH_CYCLES(REFRESH_CYCLES), .STORED_ROW_BITS(3),
        .ROW_BITS(ROW_BITS), .COLUMN_BITS(COLUMN_BITS)
    ) chip (
        .clk(clk), .clk_en(clk_en), .cs(cs), .ras(ras), .cas(cas), .we(we), .ba(ba), .a(a), .dqm(dqm),
        .dq_i(dq_o), .dq_driven(dq_oe), .dq_o(dq_i), .refreshes(refreshes));

    reg [BEAT_BITS-1:0] content [0:PLACES-1];
    reg known [0:PLACES-1];
    integer reads_on [0:PLACES-1];
    reg writes_on [0:PLACES-1];
    integer read_place [0:63], write_place [0:63];
    integer read_head = 0, read_tail = 0, write_head = 0, write_tail = 0;
    integer seed, index, place, begun = 0, ended = 0, cycles = 0, started = 0, idle = 0, hits = 0;
    integer writing = 0, stall = 0;
    reg [BEAT_BITS-1:0] data;
    reg [BYTES-1:0] strobe;

    // Beats near each other, and in another row.
    function [ADDRESS_BITS-1:0] address(input integer at);
        address = MODE != 0 ? at * BYTES
            : (at[2:0] * BYTES) | (at[4:3] << COLUMN_BITS + 1) | (at[7:5] << COLUMN_BITS + 3)
              | (at[8] << COLUMN_BITS);
    endfunction

    task fail(input [8*30-1:0] what);
        begin
            $display("%0s in cycle %0d", what, cycles);
            $finish;
        end
    endtask

    initial begin
        seed = SEED;
        for (index = 0; index < PLACES; index = index + 1) begin
            known[index] = 0; reads_on[index] = 0; writes_on[index] = 0; content[index] = 0;
        end
        repeat (4) @(posedge clk);
        #1 rst = 0;
    end

    always @(posedge clk) if (!rst) begin
        cycles = cycles + 1;
        idle = idle + 1;
        if (begun == 1 && started == 0) started = cycles;
        if (idle > 2000 + T_INIT) fail("nothing happens");
        if (aw_valid && aw_ready) aw_valid <= #1 0;
        if (w_valid && w_ready) w_valid <= #1 0;
        if (ar_valid && ar_ready) ar_valid <= #1 0;
        if (b_valid && b_ready) begin
            if (b_resp != 0) fail("a write is refused");
            writes_on[write_place[write_head % 64]] = 0;
            write_head = write_head + 1;
            ended = ended + 1;
            idle = 0;
        end
        if (r_valid && r_ready) begin
            place = read_place[read_head % 64];
            if (r_resp != 0) fail("a read is refused");
            if (known[place] && r_data !== content[place]) begin
                $display("beat %0d: %h instead of %h", place, r_data, content[place]);
                fail("wrong data");
            end
            if (known[place]) hits = hits + 1;
            // From here on it is known, wherever it came from.
            content[place] = r_data;
            known[place] = 1;
            reads_on[place] = reads_on[place] - 1;
            read_head = read_head + 1;
            ended = ended + 1;
            idle = 0;
        end
        if (ended == ACCESSES) begin
            $display("%0d accesses in %0d cycles, %0d refreshes, %0d reads compared", ended,
                     cycles - started, refreshes, hits);
            $display("ok");
            $finish;
        end
        stall = MODE == 0 ? $urandom(seed) % 4 : 0;
        b_ready <= #1 MODE != 0 || $urandom(seed) % 4 > stall;
        r_ready <= #1 MODE != 0 || $urandom(seed) % 4 > stall;
        if (begun < ACCESSES && stall == 0) begin
            place = MODE == 0 ? $urandom(seed) % PLACES : begun % PLACES;
            writing = MODE == 0 ? $urandom(seed) % 2 : MODE == 3 ? begun % 2 : MODE - 1;
            if (writing && !writes_on[place] && reads_on[place] == 0 && write_tail - write_head < 8
                && (!aw_valid || aw_ready) && (!w_valid || w_ready)) begin
                aw_valid <= #1 1;
                w_valid <= #1 1;
                aw_addr <= #1 address(place);
                strobe = MODE == 0 && known[place] ? $urandom(seed) : {BYTES{1'b1}};
                data = {$urandom(seed), $urandom(seed)};
                w_strb <= #1 strobe;
                w_data <= #1 data;
                for (index = 0; index < BYTES; index = index + 1)
                    if (strobe[index]) content[place][8*index +: 8] = data[8*index +: 8];
                known[place] = 1;
                writes_on[place] = 1;
                write_place[write_tail % 64] = place;
                write_tail = write_tail + 1;
                begun = begun + 1;
            end else if (!writing && !writes_on[place] && read_tail - read_head < 8
                         && (!ar_valid || ar_ready)) begin
                ar_valid <= #1 1;
                ar_addr <= #1 address(place);
                reads_on[place] = reads_on[place] + 1;
                read_place[read_tail % 64] = place;
                read_tail = read_tail + 1;
                begun = begun + 1;
            end
        end
    end
endmodule
