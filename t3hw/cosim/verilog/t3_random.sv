// Pseudo-random number of 32 bits, a new one each cycle (xorshift). Instances with the same seed
// and different INDEX run apart, so one seed fixes a whole bench.
module t3_random #(
    parameter INDEX = 0
) (
    input  wire        clk,
    input  wire        rst,
    input  wire [31:0] seed,
    output reg  [31:0] value
);
    function [31:0] next(input [31:0] x);
        reg [31:0] y;
        begin
            y = x ^ (x << 13);
            y = y ^ (y >> 17);
            next = y ^ (y << 5);
        end
    endfunction

    // The generator's only fixed point is 0.
    wire [31:0] first = (seed ^ (32'h9E3779B9 * (INDEX + 1)));

    always @(posedge clk)
        if (rst) value <= (first == 32'd0) ? 32'd1 : next(next(first));
        else value <= next(value);
endmodule
