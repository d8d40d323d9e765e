// A PicoRV32 with 16 KiB of RAM at 0, a console at 0x10000000 and t3_node_small: its registers at 0x40000000,
// its memory at 0x80000000. The program is read from a file at start, for simulation.
module soc #(
    parameter PROGRAM = "program.hex"
) (
    input wire clk, rst,
    output reg console_valid,
    output reg [7:0] console,
    output reg exit_valid,
    output reg [31:0] exit_code
);
    wire valid;
    wire [31:0] address, wdata;
    wire [3:0] strobe;
    wire trap, node_ready, node_refused, irq;
    wire [31:0] node_rdata;
    wire write = |strobe;
    wire at_ram = address[31:28] == 4'h0, at_console = address[31:28] == 4'h1;
    wire at_node = address[31:28] == 4'h4 | address[31];

    reg [31:0] ram [0:4095];
    initial $readmemh(PROGRAM, ram);
    reg [31:0] ram_rdata;
    reg local_ready;

    picorv32 #(
        .ENABLE_COUNTERS(0), .CATCH_MISALIGN(1), .CATCH_ILLINSN(1), .PROGADDR_RESET(32'd0)
    ) cpu (
        .clk(clk), .resetn(~rst), .trap(trap),
        .mem_valid(valid), .mem_instr(), .mem_ready(local_ready | node_ready), .mem_addr(address),
        .mem_wdata(wdata), .mem_wstrb(strobe), .mem_rdata(node_ready ? node_rdata : ram_rdata),
        .mem_la_read(), .mem_la_write(), .mem_la_addr(), .mem_la_wdata(), .mem_la_wstrb(),
        .pcpi_valid(), .pcpi_insn(), .pcpi_rs1(), .pcpi_rs2(), .pcpi_wr(1'b0), .pcpi_rd(32'd0),
        .pcpi_wait(1'b0), .pcpi_ready(1'b0), .irq(32'd0), .eoi(), .trace_valid(), .trace_data());

    t3_word_bus bus (
        .clk(clk), .rst(rst), .valid(valid & at_node & ~node_ready), .memory(address[31]), .write(write),
        .address(address), .wdata(wdata), .strobe(strobe), .ready(node_ready), .refused(node_refused),
        .rdata(node_rdata), .irq(irq));

    integer lane;
    always @(posedge clk)
        if (rst) begin
            local_ready <= 1'b0;
            console_valid <= 1'b0;
            exit_valid <= 1'b0;
        end else begin
            local_ready <= valid & ~at_node & ~local_ready;
            ram_rdata <= at_ram ? ram[address[13:2]] : 32'd0;
            if (valid & at_ram & ~local_ready)
                for (lane = 0; lane < 4; lane = lane + 1)
                    if (strobe[lane]) ram[address[13:2]][8*lane +: 8] <= wdata[8*lane +: 8];
            console_valid <= valid & at_console & write & ~address[2] & ~local_ready;
            console <= wdata[7:0];
            if (valid & at_console & write & address[2] & ~exit_valid) begin
                exit_valid <= 1'b1;
                exit_code <= wdata;
            end
            // A program that the CPU cannot go on with, or an access that the node refuses.
            if (trap | (node_ready & node_refused) && !exit_valid) begin
                exit_valid <= 1'b1;
                exit_code <= trap ? 32'd100 : 32'd101;
            end
        end
endmodule
