// AXI4 master that plays a script: write and read bursts, at a pace, from the file
// player<INDEX>_<run>.bin of the working directory; `run` counts the rises of `start`. The format
// is described and written by t3hw/cosim/script.py. The file is read as it is played, so it has no
// size limit.
//
// Bursts start in the script's order, as AXI allows: the next address goes out when the last beat
// of the burst before has been put on W; a full pace without random stalls leaves W never idle.
// Read beats whose RID[0] is set are written to player<INDEX>_<run>.out, first byte first.
// `errors` counts the responses other than OKAY, and read bursts of a wrong length.
module t3_producer_player #(
    parameter INDEX = 0,
    parameter ADDR_WIDTH = 32,
    parameter DATA_WIDTH = 64,
    parameter ID_WIDTH = 4,
    parameter WG_WIDTH = 16,
    parameter USER_WIDTH = 19
) (
    input  wire                    clk,
    input  wire                    rst,

    input  wire                    start,
    output reg                     busy,
    output reg  [31:0]             errors,

    output reg  [ID_WIDTH-1:0]     m_axi_awid,
    output reg  [ADDR_WIDTH-1:0]   m_axi_awaddr,
    output reg  [7:0]              m_axi_awlen,
    output wire [2:0]              m_axi_awsize,
    output wire [1:0]              m_axi_awburst,
    output reg  [USER_WIDTH-1:0]   m_axi_awuser,
    output reg                     m_axi_awvalid,
    input  wire                    m_axi_awready,
    output reg  [DATA_WIDTH-1:0]   m_axi_wdata,
    output reg  [DATA_WIDTH/8-1:0] m_axi_wstrb,
    output reg                     m_axi_wlast,
    output reg                     m_axi_wvalid,
    input  wire                    m_axi_wready,
    input  wire [ID_WIDTH-1:0]     m_axi_bid,
    input  wire [1:0]              m_axi_bresp,
    input  wire                    m_axi_bvalid,
    output reg                     m_axi_bready,
    output reg  [ID_WIDTH-1:0]     m_axi_arid,
    output reg  [ADDR_WIDTH-1:0]   m_axi_araddr,
    output reg  [7:0]              m_axi_arlen,
    output wire [2:0]              m_axi_arsize,
    output wire [1:0]              m_axi_arburst,
    output reg                     m_axi_arvalid,
    input  wire                    m_axi_arready,
    input  wire [ID_WIDTH-1:0]     m_axi_rid,
    input  wire [DATA_WIDTH-1:0]   m_axi_rdata,
    input  wire [1:0]              m_axi_rresp,
    input  wire                    m_axi_rlast,
    input  wire                    m_axi_rvalid,
    output reg                     m_axi_rready
);
    localparam BYTES = DATA_WIDTH / 8;
    localparam SIZE = $clog2(BYTES);
    localparam STROBE_BITS = (BYTES < 8) ? 8 : BYTES;

    localparam [3:0] END = 0, WRITE = 1, READ = 2;

    assign m_axi_awsize = SIZE[2:0];
    assign m_axi_awburst = 2'b01;
    assign m_axi_arsize = SIZE[2:0];
    assign m_axi_arburst = 2'b01;

    // The script's records, see script.py; the first byte of the file is the highest here. Their
    // fields are assigned together with them, since a wire would still show the record before.
    reg [127:0] header;
    reg [31:0]  magic, seed;
    reg [15:0]  beat_bytes, header_rest;
    reg [7:0]   write_limit, read_limit, stall, response_stall;

    reg [191:0] burst;
    reg         fence, keep;
    reg [3:0]   op;
    reg [15:0]  wg, id, next_beat_gap;
    reg [7:0]   len, wf;
    reg [31:0]  gap;          // idle cycles left before `burst`
    reg [63:0]  address;
    reg [25:0]  burst_rest;
    reg [31:0]  user;
    reg [15:0]  read_id;

    reg [DATA_WIDTH+STROBE_BITS-1:0] beat;

    wire [31:0] random;
    t3_random #(.INDEX(INDEX + 1000)) generator (
        .clk(clk), .rst(rst | starting[0]), .seed(seed), .value(random));

    // All the state of the sequencer is assigned in program order; the ports change at the clock's
    // edge.
    // verilator lint_off BLKSEQ
    integer file, kept, run, got;
    reg        start_seen;
    reg [1:0]  starting;      // the header has been read one, two cycles ago
    reg        playing;       // the script's end has not been reached
    reg        pending;       // `burst` has been read and not yet started
    reg        aw_busy, w_busy, ar_busy;
    reg [8:0]  beats;         // of the burst under way, not yet on W
    reg [15:0] beat_gap;      // of the burst under way
    reg [15:0] beat_wait;     // idle cycles left before the next beat
    reg [8:0]  writes, reads; // bursts without their response
    reg [16:0] read_beats;
    reg [31:0] faults;

    wire go = start & ~start_seen;
    initial run = 0;

    always @(posedge clk) begin
        if (rst) begin
            start_seen <= 1'b0;
            starting <= 2'b00;
            playing = 1'b0;
            pending = 1'b0;
            aw_busy = 1'b0;
            w_busy = 1'b0;
            ar_busy = 1'b0;
            beats = 0;
            gap = 0;
            beat_wait = 0;
            writes = 0;
            reads = 0;
            read_beats = 0;
            faults = 0;
            busy <= 1'b0;
        end else begin
            if (m_axi_awready) aw_busy = 1'b0;
            if (m_axi_wready) w_busy = 1'b0;
            if (m_axi_arready) ar_busy = 1'b0;
            if (m_axi_bvalid && m_axi_bready) begin
                writes = writes - 1;
                if (m_axi_bresp != 2'b00) faults = faults + 1;
            end
            if (m_axi_rvalid && m_axi_rready) begin
                if (m_axi_rid[0]) $fwrite(kept, "%u", m_axi_rdata);
                if (m_axi_rresp != 2'b00) faults = faults + 1;
                if (m_axi_rlast) reads = reads - 1;
                read_beats = read_beats - 1;
                // The last beat of all must end the last burst, and no beat before it.
                if ((reads == 0) != (read_beats == 0)) faults = faults + 1;
                if (read_beats == 0) reads = 0;
            end

            start_seen <= start;
            if (go) begin
                run = run + 1;
                file = $fopen($sformatf("player%0d_%0d.bin", INDEX, run), "rb");
                kept = $fopen($sformatf("player%0d_%0d.out", INDEX, run), "wb");
                got = $fread(header, file);
                {magic, beat_bytes, write_limit, read_limit, seed, stall, response_stall,
                    header_rest} = header;
                if (got != 16 || magic != "T3S1" || beat_bytes != BYTES) begin
                    $display("player%0d_%0d.bin is missing, or no script for beats of %0d bytes",
                             INDEX, run, BYTES);
                    $finish;
                end
                faults = 0;
                busy <= 1'b1;
            end
            starting <= {starting[0], go};
            if (starting[1]) playing = 1'b1;

            if (playing && !pending && beats == 0) begin
                got = $fread(burst, file);
                if (got != 24) begin
                    $display("player%0d_%0d.bin ends in the middle of a script", INDEX, run);
                    $finish;
                end
                {fence, keep, burst_rest[1:0], op, len, wf, burst_rest[9:2], wg, id, gap,
                    next_beat_gap, burst_rest[25:10], address} = burst;
                user = ({24'd0, wf} << WG_WIDTH) | {16'd0, wg};
                read_id = {id[15:1], keep};
                pending = op != END;
                playing = op != END;
            end
            if (pending && beats == 0) begin
                if (fence && (writes != 0 || reads != 0)) begin
                    // Not yet, and the idle cycles have not begun.
                end else if (gap != 0) begin
                    if (!aw_busy && !w_busy && !ar_busy) gap = gap - 1;
                end else if (random[7:0] < stall) begin
                    // Not in this cycle.
                end else if (op == WRITE && !aw_busy && writes < {1'b0, write_limit}) begin
                    aw_busy = 1'b1;
                    m_axi_awid <= id[ID_WIDTH-1:0];
                    m_axi_awaddr <= address[ADDR_WIDTH-1:0];
                    m_axi_awlen <= len;
                    m_axi_awuser <= user[USER_WIDTH-1:0];
                    writes = writes + 1;
                    beats = {1'b0, len} + 1;
                    beat_gap = next_beat_gap;
                    beat_wait = 0;
                    pending = 1'b0;
                end else if (op == READ && !ar_busy && reads < {1'b0, read_limit}) begin
                    ar_busy = 1'b1;
                    m_axi_arid <= read_id[ID_WIDTH-1:0];
                    m_axi_araddr <= address[ADDR_WIDTH-1:0];
                    m_axi_arlen <= len;
                    reads = reads + 1;
                    read_beats = read_beats + {9'd0, len} + 1;
                    pending = 1'b0;
                end
            end

            if (beats != 0 && !w_busy) begin
                if (beat_wait != 0) beat_wait = beat_wait - 1;
                else if (random[15:8] >= stall) begin
                    got = $fread(beat, file);
                    w_busy = 1'b1;
                    beats = beats - 1;
                    beat_wait = beat_gap;
                    m_axi_wdata <= beat[DATA_WIDTH+STROBE_BITS-1:STROBE_BITS];
                    m_axi_wstrb <= beat[BYTES-1:0];
                    m_axi_wlast <= beats == 0;
                end
            end

            if (busy && starting == 2'b00 && !go && !playing && !w_busy && !aw_busy && !ar_busy
                    && beats == 0 && writes == 0 && read_beats == 0) begin
                $fclose(file);
                $fclose(kept);
                busy <= 1'b0;
            end
        end
        m_axi_awvalid <= aw_busy;
        m_axi_wvalid <= w_busy;
        m_axi_arvalid <= ar_busy;
        m_axi_bready <= random[23:16] >= response_stall;
        m_axi_rready <= random[31:24] >= response_stall;
        errors <= faults;
    end
    // verilator lint_on BLKSEQ

    wire unused = &{1'b0, header_rest, burst_rest, id, read_id, user, address, beat, m_axi_bid,
                    m_axi_rid};
endmodule
