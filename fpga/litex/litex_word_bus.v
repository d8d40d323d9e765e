// The bus of the LiteX SoC around t3_node_axi, with the ports that t3_word_bus has around the stock node: the
// bench fpga/soc/node_tb.v runs on either. Here the sums are in LiteDRAM's memory.
module t3_word_bus (
    input wire clk, rst,
    // An access: held until ready; memory: 1 memory, 0 registers of the node.
    input wire valid, memory, write,
    input wire [31:0] address, wdata,
    input wire [3:0] strobe,
    // High for one cycle, with the answer.
    output reg ready, refused,
    output reg [31:0] rdata,
    output wire irq
);
    wire [31:0] byte_address = (memory ? 32'h80000000 : 32'h40000000) | address;
    wire [31:0] dat_r;
    wire ack, err;
    t3_litedram soc (
        .clk(clk), .rst(rst), .host_adr(byte_address[31:2]), .host_dat_w(wdata), .host_dat_r(dat_r),
        .host_sel(strobe), .host_cyc(valid), .host_stb(valid), .host_ack(ack), .host_we(write),
        .host_cti(3'd0), .host_bte(2'd0), .host_err(err));
    assign irq = 1'b0;

    always @(posedge clk) begin
        ready <= valid & ~rst & (ack | err);
        refused <= err;
        rdata <= dat_r;
    end
endmodule
