// An SDR SDRAM chip of 16 bits and four banks, which stops the simulation when a rule of its data sheet is
// broken. Times are in cycles of its clock, with which all rules are checked; REFRESH_CYCLES is the average
// interval of refreshes. Contents begin with noise. Bursts of 1, 2, 4 or 8 words in sequence; no
// auto-precharge, no burst stop, no suspended clock.
module t3_sdram_model #(
    parameter ROW_BITS = 13,
    parameter COLUMN_BITS = 9,
    // Rows of each bank that are kept; an access beyond them is an error of the bench.
    parameter STORED_ROW_BITS = 13,
    parameter T_RCD = 2, T_RP = 2, T_RAS = 5, T_RC = 7, T_RRD = 2, T_WR = 2, T_RFC = 7, T_MRD = 2,
    parameter T_INIT = 10000,
    parameter REFRESH_CYCLES = 781
) (
    input wire clk, clk_en, cs, ras, cas, we,
    input wire [1:0] ba,
    input wire [ROW_BITS-1:0] a,
    input wire [1:0] dqm,
    input wire [15:0] dq_i,     // from the controller
    input wire dq_driven,       // the controller drives the bus
    output wire [15:0] dq_o,    // from the chip
    output wire [31:0] refreshes
);
    localparam WORD_BITS = STORED_ROW_BITS + 2 + COLUMN_BITS;
    reg [15:0] storage [0:(1 << WORD_BITS)-1];

    integer now = 0, index;
    integer activated [0:3], precharged [0:3], written [0:3];
    integer any_activated = -1000, refreshed = -1000, mode_set = -1000, count = 0, first_refresh = 0;
    reg [3:0] open = 4'd0;
    reg [ROW_BITS-1:0] row [0:3];
    reg initialized = 1'b0, precharged_once = 1'b0;
    integer cas_latency = 0, length = 0;
    // A burst that goes on: words still to come, and where the next one is.
    integer writing = 0;
    reg [WORD_BITS-1:0] write_at;
    // What the bus shows in the coming cycles, and the last cycle's mask.
    reg [15:0] show [0:15];
    reg shows [0:15];
    reg [1:0] masked = 2'd0;
    integer reading = 0;
    reg [WORD_BITS-1:0] read_at;
    integer write_bank = 0;
    reg [15:0] out = 16'd0;
    reg drives = 1'b0;
    assign dq_o = out;
    assign refreshes = count;

    initial begin
        for (index = 0; index < 1 << WORD_BITS; index = index + 1) storage[index] = 16'hBEEF ^ index * 40503;
        for (index = 0; index < 4; index = index + 1) begin
            activated[index] = -1000; precharged[index] = -1000; written[index] = -1000;
            row[index] = 0;
        end
        for (index = 0; index < 16; index = index + 1) begin
            show[index] = 0; shows[index] = 0;
        end
    end

    task fail(input [8*40-1:0] rule);
        begin
            $display("SDRAM: cycle %0d: %0s", now, rule);
            $display("FAILED");
            $finish;
        end
    endtask

    function [WORD_BITS-1:0] place(input [1:0] bank, input [COLUMN_BITS-1:0] column);
        place = {row[bank][STORED_ROW_BITS-1:0], bank, column};
    endfunction

    // The next word of a burst stays within its aligned block.
    function [WORD_BITS-1:0] next(input [WORD_BITS-1:0] at, input integer words);
        next = (at & ~(words - 1)) | (at + 1 & words - 1);
    endfunction

    task store(input [WORD_BITS-1:0] at);
        begin
            if (!dq_driven) fail("a word to write, and nobody drives the bus");
            if (!dqm[0]) storage[at][7:0] = dq_i[7:0];
            if (!dqm[1]) storage[at][15:8] = dq_i[15:8];
        end
    endtask

    task close(input integer bank);
        begin
            if (open[bank]) begin
                if (now - activated[bank] < T_RAS) fail("tRAS: precharge too early");
                if (now - written[bank] < T_WR) fail("tWR: precharge too early after a write");
                if (writing > 0 && write_bank == bank) fail("precharge within a write burst");
                precharged[bank] = now;
            end
            open[bank] = 1'b0;
        end
    endtask

    always @(posedge clk) begin
        now = now + 1;
        // The bus.
        if (shows[0] && masked != 2'd0) fail("a word that is read is masked");
        masked = dqm;
        out <= show[0];
        drives <= shows[0];
        for (index = 0; index < 15; index = index + 1) begin
            show[index] = show[index + 1];
            shows[index] = shows[index + 1];
        end
        shows[15] = 1'b0;
        if (drives && dq_driven) fail("two drive the bus");

        if (writing > 0) begin
            store(write_at);
            written[write_bank] = now;
            write_at = next(write_at, length);
            writing = writing - 1;
        end
        if (clk_en && cs && {ras, cas, we} != 3'b000) begin
            if (now < T_INIT) fail("a command before the chip is ready");
            if (now - refreshed < T_RFC) fail("tRFC: a command too early");
            if (now - mode_set < T_MRD) fail("tMRD: a command too early");
            case ({ras, cas, we})
                3'b101: begin  // precharge
                    precharged_once = 1'b1;
                    if (a[10]) for (index = 0; index < 4; index = index + 1) close(index);
                    else close(ba);
                end
                3'b110: begin  // refresh
                    if (open != 0) fail("refresh with an open row");
                    if (!precharged_once) fail("refresh before the first precharge");
                    for (index = 0; index < 4; index = index + 1)
                        if (now - precharged[index] < T_RP) fail("tRP: refresh too early");
                    refreshed = now;
                    count = count + 1;
                end
                3'b111: begin  // mode
                    if (open != 0) fail("mode with an open row");
                    if (count < 2) fail("mode before two refreshes");
                    for (index = 0; index < 4; index = index + 1)
                        if (now - precharged[index] < T_RP) fail("tRP: mode too early");
                    cas_latency = a[6:4];
                    length = 1 << a[2:0];
                    if (cas_latency < 2 || cas_latency > 3 || a[2:0] > 3 || a[3] || a[ROW_BITS-1:7] != 0)
                        fail("a mode that there is not");
                    mode_set = now;
                    initialized = 1'b1;
                    first_refresh = now;
                    count = 0;
                end
                3'b100: begin  // activate
                    if (!initialized) fail("activate before the mode is set");
                    if (open[ba]) fail("activate of a bank with an open row");
                    if (now - precharged[ba] < T_RP) fail("tRP: activate too early");
                    if (now - activated[ba] < T_RC) fail("tRC: activate too early");
                    if (now - any_activated < T_RRD) fail("tRRD: activate too early");
                    if (a >> STORED_ROW_BITS != 0) fail("a row that is not kept here");
                    activated[ba] = now;
                    any_activated = now;
                    open[ba] = 1'b1;
                    row[ba] = a;
                end
                3'b010, 3'b011: begin  // read, write
                    if (!open[ba]) fail("a column of a bank without an open row");
                    if (now - activated[ba] < T_RCD) fail("tRCD: column too early");
                    if (a[10]) fail("auto-precharge is not modelled");
                    if (writing > 0) fail("a column within a write burst");
                    if (reading > 0) fail("a column within a read burst");
                    if (we) begin
                        for (index = 0; index < 15; index = index + 1)
                            if (shows[index]) fail("a write while read data are to come");
                        write_bank = ba;
                        write_at = place(ba, a[COLUMN_BITS-1:0]);
                        store(write_at);
                        written[ba] = now;
                        write_at = next(write_at, length);
                        writing = length - 1;
                    end else begin
                        read_at = place(ba, a[COLUMN_BITS-1:0]);
                        // Counted down below in this cycle too.
                        reading = length;
                        for (index = 0; index < length; index = index + 1) begin
                            show[cas_latency - 2 + index] = storage[read_at];
                            shows[cas_latency - 2 + index] = 1'b1;
                            read_at = next(read_at, length);
                        end
                    end
                end
                default: fail("a command that is not modelled");
            endcase
        end
        if (reading > 0) reading = reading - 1;
        // Up to eight refreshes may be late, none may be missing in the long run.
        if (initialized && now - first_refresh > (count + 9) * REFRESH_CYCLES) fail("tREFI: refreshes are missing");
    end
endmodule
