// Runs the program of soc.v to its end; prints its console, and its exit code.
module soc_tb;
    parameter CYCLES = 1000000;
    reg clk = 1'b0, rst = 1'b1;
    always #5 clk = ~clk;
    wire console_valid, exit_valid;
    wire [7:0] console;
    wire [31:0] exit_code;
    soc soc (
        .clk(clk), .rst(rst), .console_valid(console_valid), .console(console),
        .exit_valid(exit_valid), .exit_code(exit_code));

    integer cycle = 0;
    always @(posedge clk) begin
        cycle <= cycle + 1;
        rst <= cycle < 8;
        if (!rst && console_valid) $write("%c", console);
        if (!rst && exit_valid) begin
            $display("exit code %0d after %0d cycles", exit_code, cycle);
            $finish;
        end
        if (cycle == CYCLES) begin
            $display("no end after %0d cycles", CYCLES);
            $finish;
        end
    end
endmodule
