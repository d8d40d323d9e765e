// AXI4 RAM that takes its time. A write changes the memory only in the cycle in which its response
// is taken, and a read is looked up only when its beat is offered: whoever takes acceptance for
// visibility reads stale data here.
//
// Bursts are answered in order, reads and writes apart, each at least `latency` cycles after its
// address (a write: after its last beat) and up to `jitter` more, by chance. Beats beyond the
// memory's end answer DECERR, and change nothing. The memory starts full of POISON bytes.
module t3_axi_memory_model #(
    parameter INDEX = 0,
    parameter ADDR_WIDTH = 32,
    parameter DATA_WIDTH = 64,
    parameter ID_WIDTH = 1,
    parameter BEATS_LOG2 = 16,       // size of the memory
    parameter OUTSTANDING_LOG2 = 6,  // bursts under way, reads and writes each
    parameter [7:0] POISON = 8'hFF
) (
    input  wire                    clk,
    input  wire                    rst,
    input  wire [31:0]             seed,
    input  wire [15:0]             latency,
    input  wire [15:0]             jitter,

    input  wire [ID_WIDTH-1:0]     s_axi_awid,
    input  wire [ADDR_WIDTH-1:0]   s_axi_awaddr,
    input  wire [7:0]              s_axi_awlen,
    input  wire                    s_axi_awvalid,
    output wire                    s_axi_awready,
    input  wire [DATA_WIDTH-1:0]   s_axi_wdata,
    input  wire [DATA_WIDTH/8-1:0] s_axi_wstrb,
    input  wire                    s_axi_wlast,
    input  wire                    s_axi_wvalid,
    output wire                    s_axi_wready,
    output wire [ID_WIDTH-1:0]     s_axi_bid,
    output wire [1:0]              s_axi_bresp,
    output wire                    s_axi_bvalid,
    input  wire                    s_axi_bready,
    input  wire [ID_WIDTH-1:0]     s_axi_arid,
    input  wire [ADDR_WIDTH-1:0]   s_axi_araddr,
    input  wire [7:0]              s_axi_arlen,
    input  wire                    s_axi_arvalid,
    output wire                    s_axi_arready,
    output wire [ID_WIDTH-1:0]     s_axi_rid,
    output wire [DATA_WIDTH-1:0]   s_axi_rdata,
    output wire [1:0]              s_axi_rresp,
    output wire                    s_axi_rlast,
    output wire                    s_axi_rvalid,
    input  wire                    s_axi_rready
);
    localparam BYTES = DATA_WIDTH / 8;
    localparam SHIFT = $clog2(BYTES);
    localparam BURSTS = 1 << OUTSTANDING_LOG2;
    localparam DATA_LOG2 = OUTSTANDING_LOG2 + 4;  // beats of write data that wait: 16 a burst

    reg [DATA_WIDTH-1:0] memory [0:(1 << BEATS_LOG2)-1];
    integer i;
    initial for (i = 0; i < (1 << BEATS_LOG2); i = i + 1) memory[i] = {BYTES{POISON}};

    wire [31:0] random;
    t3_random #(.INDEX(INDEX + 2000)) generator (.clk(clk), .rst(rst), .seed(seed), .value(random));
    // A fraction of `jitter`, without a division.
    wire [31:0] scaled = jitter * {16'd0, random[15:0]};
    reg [31:0] now;
    wire [31:0] due = now + {16'd0, latency} + {16'd0, scaled[31:16]};

    // Writes: addresses, beats and due times of whole bursts wait in three queues.
    reg [ID_WIDTH-1:0]          aw_id [0:BURSTS-1];
    reg [ADDR_WIDTH-SHIFT-1:0]  aw_beat [0:BURSTS-1];
    reg [7:0]                   aw_len [0:BURSTS-1];
    reg [31:0]                  w_due [0:BURSTS-1];
    reg [DATA_WIDTH-1:0]        w_data [0:(1 << DATA_LOG2)-1];
    reg [BYTES-1:0]             w_strb [0:(1 << DATA_LOG2)-1];
    reg [OUTSTANDING_LOG2:0]    aw_put, w_put, b_get;
    reg [DATA_LOG2:0]           beat_put, beat_get;

    wire [OUTSTANDING_LOG2-1:0] b_at = b_get[OUTSTANDING_LOG2-1:0];
    wire [OUTSTANDING_LOG2:0]   aw_level = aw_put - b_get;
    wire [OUTSTANDING_LOG2:0]   w_level = w_put - b_get;
    wire [DATA_LOG2:0]          beat_level = beat_put - beat_get;
    wire [31:0]                 b_age = now - w_due[b_at];
    wire [ADDR_WIDTH-SHIFT-1:0] b_last =
        aw_beat[b_at] + {{(ADDR_WIDTH-SHIFT-8){1'b0}}, aw_len[b_at]};
    reg                         b_held;

    assign s_axi_awready = !aw_level[OUTSTANDING_LOG2];
    assign s_axi_wready = !beat_level[DATA_LOG2] && !w_level[OUTSTANDING_LOG2];
    assign s_axi_bvalid = aw_level != 0 && w_level != 0 && (b_held || !b_age[31]);
    assign s_axi_bid = aw_id[b_at];
    assign s_axi_bresp = ((b_last >> BEATS_LOG2) != 0) ? 2'b11 : 2'b00;

    // Reads.
    reg [ID_WIDTH-1:0]          ar_id [0:BURSTS-1];
    reg [ADDR_WIDTH-SHIFT-1:0]  ar_beat [0:BURSTS-1];
    reg [7:0]                   ar_len [0:BURSTS-1];
    reg [31:0]                  ar_due [0:BURSTS-1];
    reg [OUTSTANDING_LOG2:0]    ar_put, r_get;
    reg [7:0]                   r_done;

    wire [OUTSTANDING_LOG2-1:0] r_at = r_get[OUTSTANDING_LOG2-1:0];
    wire [OUTSTANDING_LOG2:0]   ar_level = ar_put - r_get;
    wire [31:0]                 r_age = now - ar_due[r_at];
    wire [ADDR_WIDTH-SHIFT-1:0] r_beat = ar_beat[r_at] + {{(ADDR_WIDTH-SHIFT-8){1'b0}}, r_done};
    // What a beat shows must not change while it waits for RREADY.
    reg                         r_held;
    reg [DATA_WIDTH-1:0]        r_kept;

    assign s_axi_arready = !ar_level[OUTSTANDING_LOG2];
    assign s_axi_rvalid = ar_level != 0 && (r_held || r_done != 0 || !r_age[31]);
    assign s_axi_rid = ar_id[r_at];
    assign s_axi_rdata = r_held ? r_kept : memory[r_beat[BEATS_LOG2-1:0]];
    assign s_axi_rresp = ((r_beat >> BEATS_LOG2) != 0) ? 2'b11 : 2'b00;
    assign s_axi_rlast = r_done == ar_len[r_at];

    // A whole burst is applied in the cycle of its response.
    // verilator lint_off BLKSEQ
    integer beat, lane;
    reg [ADDR_WIDTH-SHIFT-1:0] target;
    reg [DATA_LOG2-1:0] source;
    always @(posedge clk) begin
        if (!rst && s_axi_bvalid && s_axi_bready)
            for (beat = 0; beat <= {24'd0, aw_len[b_at]}; beat = beat + 1) begin
                target = aw_beat[b_at] + beat[ADDR_WIDTH-SHIFT-1:0];
                source = beat_get[DATA_LOG2-1:0] + beat[DATA_LOG2-1:0];
                for (lane = 0; lane < BYTES; lane = lane + 1)
                    if (w_strb[source][lane] && (target >> BEATS_LOG2) == 0)
                        memory[target[BEATS_LOG2-1:0]][8*lane +: 8] <= w_data[source][8*lane +: 8];
            end
    end
    // verilator lint_on BLKSEQ

    always @(posedge clk) begin
        if (rst) begin
            now <= 0;
            aw_put <= 0;
            w_put <= 0;
            b_get <= 0;
            b_held <= 1'b0;
            beat_put <= 0;
            beat_get <= 0;
            ar_put <= 0;
            r_get <= 0;
            r_done <= 0;
            r_held <= 1'b0;
        end else begin
            now <= now + 1;
            if (s_axi_awvalid && s_axi_awready) begin
                aw_id[aw_put[OUTSTANDING_LOG2-1:0]] <= s_axi_awid;
                aw_beat[aw_put[OUTSTANDING_LOG2-1:0]] <= s_axi_awaddr[ADDR_WIDTH-1:SHIFT];
                aw_len[aw_put[OUTSTANDING_LOG2-1:0]] <= s_axi_awlen;
                aw_put <= aw_put + 1;
            end
            if (s_axi_wvalid && s_axi_wready) begin
                w_data[beat_put[DATA_LOG2-1:0]] <= s_axi_wdata;
                w_strb[beat_put[DATA_LOG2-1:0]] <= s_axi_wstrb;
                beat_put <= beat_put + 1;
                if (s_axi_wlast) begin
                    w_due[w_put[OUTSTANDING_LOG2-1:0]] <= due;
                    w_put <= w_put + 1;
                end
            end
            b_held <= s_axi_bvalid && !s_axi_bready;
            if (s_axi_bvalid && s_axi_bready) begin
                b_get <= b_get + 1;
                beat_get <= beat_get + {{(DATA_LOG2-7){1'b0}}, aw_len[b_at]} + 1;
            end
            if (s_axi_arvalid && s_axi_arready) begin
                ar_id[ar_put[OUTSTANDING_LOG2-1:0]] <= s_axi_arid;
                ar_beat[ar_put[OUTSTANDING_LOG2-1:0]] <= s_axi_araddr[ADDR_WIDTH-1:SHIFT];
                ar_len[ar_put[OUTSTANDING_LOG2-1:0]] <= s_axi_arlen;
                ar_due[ar_put[OUTSTANDING_LOG2-1:0]] <= due;
                ar_put <= ar_put + 1;
            end
            r_held <= s_axi_rvalid && !s_axi_rready;
            r_kept <= s_axi_rdata;
            if (s_axi_rvalid && s_axi_rready) begin
                r_done <= s_axi_rlast ? 8'd0 : r_done + 1;
                if (s_axi_rlast) r_get <= r_get + 1;
            end
        end
    end

    wire unused = &{1'b0, random, scaled, b_age, r_age, s_axi_awaddr, s_axi_araddr};
endmodule
