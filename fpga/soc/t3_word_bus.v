// A node on a bus of single 32-bit words: its registers by s_axil, its memory by s_axi in single beats.
// A request holds until ready, which is high for a cycle; refused is valid with it.
module t3_word_bus (
    input wire clk, rst,
    input wire valid, memory, write,
    input wire [31:0] address, wdata,
    input wire [3:0] strobe,
    output reg ready, refused,
    output reg [31:0] rdata,
    output wire irq
);
    // Address and data of a write are offered at the same time; each is taken on its own.
    reg busy, address_done, data_done;
    wire begins = valid & ~busy & ~ready;
    wire half = address[2];
    wire registers_on = busy & ~memory, memory_on = busy & memory;

    wire l_awready, l_wready, l_bvalid, l_arready, l_rvalid;
    wire m_awready, m_wready, m_bvalid, m_arready, m_rvalid;
    wire [1:0] l_bresp, l_rresp, m_bresp, m_rresp;
    wire [31:0] l_rdata;
    wire [63:0] m_rdata;
    wire [63:0] link_data;
    wire [7:0] link_keep;
    wire link_last, link_valid, link_ready, link_credit;

    wire address_taken = memory ? (write ? m_awready : m_arready) : (write ? l_awready : l_arready);
    wire data_taken = memory ? m_wready : l_wready;
    wire ends = memory ? (write ? m_bvalid : m_rvalid) : (write ? l_bvalid : l_rvalid);

    always @(posedge clk)
        if (rst) begin
            busy <= 1'b0;
            ready <= 1'b0;
            refused <= 1'b0;
            address_done <= 1'b0;
            data_done <= 1'b0;
            rdata <= 32'd0;
        end else begin
            ready <= busy & ends;
            if (begins) begin
                busy <= 1'b1;
                address_done <= 1'b0;
                data_done <= ~write;
            end
            if (busy & address_taken) address_done <= 1'b1;
            if (busy & data_taken) data_done <= 1'b1;
            if (busy & ends) begin
                busy <= 1'b0;
                refused <= memory ? (write ? m_bresp[1] : m_rresp[1]) : (write ? l_bresp[1] : l_rresp[1]);
                rdata <= ~memory ? l_rdata : half ? m_rdata[63:32] : m_rdata[31:0];
            end
        end

    t3_node_small node (
        .clk(clk), .rst(rst), .irq(irq),
        .s_axil_awaddr(address[19:0]), .s_axil_awvalid(registers_on & write & ~address_done),
        .s_axil_awready(l_awready), .s_axil_wdata(wdata), .s_axil_wstrb(strobe),
        .s_axil_wvalid(registers_on & ~data_done), .s_axil_wready(l_wready),
        .s_axil_bresp(l_bresp), .s_axil_bvalid(l_bvalid), .s_axil_bready(1'b1),
        .s_axil_araddr(address[19:0]), .s_axil_arvalid(registers_on & ~write & ~address_done),
        .s_axil_arready(l_arready), .s_axil_rdata(l_rdata), .s_axil_rresp(l_rresp),
        .s_axil_rvalid(l_rvalid), .s_axil_rready(1'b1),
        .s_axi_awid(4'd0), .s_axi_awaddr({1'b0, address[30:3], 3'd0}), .s_axi_awlen(8'd0),
        .s_axi_awsize(3'd3), .s_axi_awburst(2'b01), .s_axi_awuser(19'd0),
        .s_axi_awvalid(memory_on & write & ~address_done), .s_axi_awready(m_awready),
        .s_axi_wdata({wdata, wdata}), .s_axi_wstrb(half ? {strobe, 4'd0} : {4'd0, strobe}),
        .s_axi_wlast(1'b1), .s_axi_wvalid(memory_on & ~data_done), .s_axi_wready(m_wready),
        .s_axi_bid(), .s_axi_bresp(m_bresp), .s_axi_bvalid(m_bvalid), .s_axi_bready(1'b1),
        .s_axi_arid(4'd0), .s_axi_araddr({1'b0, address[30:3], 3'd0}), .s_axi_arlen(8'd0),
        .s_axi_arsize(3'd3), .s_axi_arburst(2'b01),
        .s_axi_arvalid(memory_on & ~write & ~address_done), .s_axi_arready(m_arready),
        .s_axi_rid(), .s_axi_rdata(m_rdata), .s_axi_rresp(m_rresp), .s_axi_rlast(),
        .s_axi_rvalid(m_rvalid), .s_axi_rready(1'b1),
        // The link comes back.
        .link_tx_tdata(link_data), .link_tx_tkeep(link_keep), .link_tx_tlast(link_last),
        .link_tx_tvalid(link_valid), .link_tx_tready(link_ready), .link_tx_credit(link_credit),
        .link_rx_tdata(link_data), .link_rx_tkeep(link_keep), .link_rx_tlast(link_last),
        .link_rx_tvalid(link_valid), .link_rx_tready(link_ready), .link_rx_credit(link_credit),
        .trace_producer_beat(), .trace_remote_beat(), .trace_commit_local(), .trace_commit_incoming(),
        .trace_memory(), .trace_full(), .trace_full_slot(), .trace_fire(), .trace_fire_first(),
        .trace_block(), .trace_block_wg(), .trace_first_read(), .trace_dma_beat(),
        .trace_command_done(), .trace_tx(), .trace_rx(), .trace_done(), .trace_occupancy());
endmodule
