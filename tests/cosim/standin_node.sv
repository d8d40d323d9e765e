// Stands in for a node in tests of the bench: the same ports, and simple, known behaviour behind
// them. s_axi is a RAM; s_axil has 16 registers at 0 to 0x3C and answers SLVERR elsewhere; register
// 15 is the interrupt; register 14 words are sent on the link, numbered; register 13 counts the
// words received, and register 12 is 1 if one of them was out of order.
module t3_node #(
    parameter DATA_WIDTH = 64
) (
    input  wire        clk,
    input  wire        rst,
    input  wire [19:0] s_axil_awaddr,
    input  wire        s_axil_awvalid,
    output wire        s_axil_awready,
    input  wire [31:0] s_axil_wdata,
    input  wire [3:0]  s_axil_wstrb,
    input  wire        s_axil_wvalid,
    output wire        s_axil_wready,
    output reg  [1:0]  s_axil_bresp,
    output reg         s_axil_bvalid,
    input  wire        s_axil_bready,
    input  wire [19:0] s_axil_araddr,
    input  wire        s_axil_arvalid,
    output wire        s_axil_arready,
    output reg  [31:0] s_axil_rdata,
    output reg  [1:0]  s_axil_rresp,
    output reg         s_axil_rvalid,
    input  wire        s_axil_rready,
    input  wire [3:0]  s_axi_awid,
    input  wire [31:0] s_axi_awaddr,
    input  wire [7:0]  s_axi_awlen,
    input  wire [2:0]  s_axi_awsize,
    input  wire [1:0]  s_axi_awburst,
    input  wire [18:0] s_axi_awuser,
    input  wire        s_axi_awvalid,
    output wire        s_axi_awready,
    input  wire [DATA_WIDTH-1:0] s_axi_wdata,
    input  wire [DATA_WIDTH/8-1:0] s_axi_wstrb,
    input  wire        s_axi_wlast,
    input  wire        s_axi_wvalid,
    output wire        s_axi_wready,
    output wire [3:0]  s_axi_bid,
    output wire [1:0]  s_axi_bresp,
    output wire        s_axi_bvalid,
    input  wire        s_axi_bready,
    input  wire [3:0]  s_axi_arid,
    input  wire [31:0] s_axi_araddr,
    input  wire [7:0]  s_axi_arlen,
    input  wire [2:0]  s_axi_arsize,
    input  wire [1:0]  s_axi_arburst,
    input  wire        s_axi_arvalid,
    output wire        s_axi_arready,
    output wire [3:0]  s_axi_rid,
    output wire [DATA_WIDTH-1:0] s_axi_rdata,
    output wire [1:0]  s_axi_rresp,
    output wire        s_axi_rlast,
    output wire        s_axi_rvalid,
    input  wire        s_axi_rready,
    output wire [DATA_WIDTH-1:0] link_tx_tdata,
    output wire [DATA_WIDTH/8-1:0] link_tx_tkeep,
    output wire        link_tx_tlast,
    output reg         link_tx_tvalid,
    input  wire        link_tx_tready,
    input  wire        link_tx_credit,
    input  wire [DATA_WIDTH-1:0] link_rx_tdata,
    input  wire [DATA_WIDTH/8-1:0] link_rx_tkeep,
    input  wire        link_rx_tlast,
    input  wire        link_rx_tvalid,
    output wire        link_rx_tready,
    output reg         link_rx_credit,
    output wire        irq,
    output wire        trace_producer_beat,
    output wire        trace_remote_beat,
    output wire        trace_commit_local,
    output wire        trace_commit_incoming,
    output wire        trace_memory,
    output wire        trace_dma_beat,
    output wire        trace_tx,
    output wire        trace_rx,
    output wire        trace_full,
    output wire [15:0] trace_full_slot,
    output wire        trace_fire,
    output wire [15:0] trace_fire_first,
    output wire        trace_block,
    output wire [15:0] trace_block_wg,
    output wire        trace_first_read,
    output wire        trace_command_done,
    output wire [3:0]  trace_done
);
    t3_axi_memory_model #(
        .DATA_WIDTH(DATA_WIDTH), .ID_WIDTH(4), .BEATS_LOG2(15 - $clog2(DATA_WIDTH / 8))
    ) ram (
        .clk(clk), .rst(rst), .seed(32'd1), .latency(16'd5), .jitter(16'd20),
        .s_axi_awid(s_axi_awid), .s_axi_awaddr(s_axi_awaddr), .s_axi_awlen(s_axi_awlen),
        .s_axi_awvalid(s_axi_awvalid), .s_axi_awready(s_axi_awready),
        .s_axi_wdata(s_axi_wdata), .s_axi_wstrb(s_axi_wstrb), .s_axi_wlast(s_axi_wlast),
        .s_axi_wvalid(s_axi_wvalid), .s_axi_wready(s_axi_wready),
        .s_axi_bid(s_axi_bid), .s_axi_bresp(s_axi_bresp), .s_axi_bvalid(s_axi_bvalid),
        .s_axi_bready(s_axi_bready),
        .s_axi_arid(s_axi_arid), .s_axi_araddr(s_axi_araddr), .s_axi_arlen(s_axi_arlen),
        .s_axi_arvalid(s_axi_arvalid), .s_axi_arready(s_axi_arready),
        .s_axi_rid(s_axi_rid), .s_axi_rdata(s_axi_rdata), .s_axi_rresp(s_axi_rresp),
        .s_axi_rlast(s_axi_rlast), .s_axi_rvalid(s_axi_rvalid), .s_axi_rready(s_axi_rready));

    // Registers: a write takes address and data when both are there.
    reg [31:0] registers [0:15];
    wire write = s_axil_awvalid & s_axil_wvalid & (~s_axil_bvalid | s_axil_bready);
    wire read = s_axil_arvalid & (~s_axil_rvalid | s_axil_rready);
    wire take = link_rx_tvalid;
    assign s_axil_awready = write;
    assign s_axil_wready = write;
    assign s_axil_arready = read;
    assign irq = registers[15][0];

    reg [31:0] sent;
    assign link_tx_tdata = {DATA_WIDTH/32{sent}};
    assign link_tx_tkeep = {DATA_WIDTH/8{sent[0]}};
    assign link_tx_tlast = sent[1];
    assign link_rx_tready = 1'b1;

    integer i;
    always @(posedge clk) begin
        link_rx_credit <= take;
        if (rst) begin
            for (i = 0; i < 16; i = i + 1) registers[i] <= 0;
            s_axil_bvalid <= 0;
            s_axil_rvalid <= 0;
            link_tx_tvalid <= 0;
            sent <= 0;
        end else begin
            if (s_axil_bready) s_axil_bvalid <= 0;
            if (s_axil_rready) s_axil_rvalid <= 0;
            if (write) begin
                s_axil_bvalid <= 1;
                s_axil_bresp <= (s_axil_awaddr[19:6] == 0 && s_axil_wstrb == 4'hF) ? 2'b00 : 2'b10;
                if (s_axil_awaddr[19:6] == 0) registers[s_axil_awaddr[5:2]] <= s_axil_wdata;
            end
            if (read) begin
                s_axil_rvalid <= 1;
                s_axil_rresp <= (s_axil_araddr[19:6] == 0) ? 2'b00 : 2'b10;
                s_axil_rdata <= registers[s_axil_araddr[5:2]];
            end
            if (link_tx_tvalid & link_tx_tready) begin
                sent <= sent + 1;
                link_tx_tvalid <= sent + 1 != registers[14];
            end else link_tx_tvalid <= sent != registers[14];
            if (take) begin
                registers[13] <= registers[13] + 1;
                if (link_rx_tdata != {DATA_WIDTH/32{registers[13]}}
                        || link_rx_tkeep != {DATA_WIDTH/8{registers[13][0]}}
                        || link_rx_tlast != registers[13][1])
                    registers[12] <= 1;
            end
        end
    end

    assign trace_producer_beat = s_axi_wvalid & s_axi_wready;
    assign trace_remote_beat = 1'b0;
    assign trace_commit_local = s_axi_bvalid & s_axi_bready;
    assign trace_commit_incoming = 1'b0;
    assign trace_memory = s_axi_rvalid & s_axi_rready;
    assign trace_dma_beat = 1'b0;
    assign trace_tx = link_tx_tvalid & link_tx_tready;
    assign trace_rx = take;
    assign trace_full = write;
    assign trace_full_slot = s_axil_wdata[15:0];
    assign trace_fire = 1'b0;
    assign trace_fire_first = 16'd0;
    assign trace_block = 1'b0;
    assign trace_block_wg = 16'd0;
    assign trace_first_read = 1'b0;
    assign trace_command_done = 1'b0;
    assign trace_done = {3'd0, irq};
endmodule
