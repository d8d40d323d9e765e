// Random back-pressure on a stream, in place of a wire: in a cycle with probability
// `probability`/256 nothing passes. Once `out_valid` is seen it stays until taken, with the same
// payload, so the stream's rules hold on both sides. With probability 0 it is a wire.
module t3_stall_injector #(
    parameter WIDTH = 8,
    parameter INDEX = 0
) (
    input  wire             clk,
    input  wire             rst,
    input  wire [31:0]      seed,
    input  wire [7:0]       probability,
    input  wire [WIDTH-1:0] in_payload,
    input  wire             in_valid,
    output wire             in_ready,
    output wire [WIDTH-1:0] out_payload,
    output wire             out_valid,
    input  wire             out_ready
);
    wire [31:0] random;
    t3_random #(.INDEX(INDEX)) generator (.clk(clk), .rst(rst), .seed(seed), .value(random));

    reg held;
    wire pass = held | (random[31:24] >= probability);

    assign out_payload = in_payload;
    assign out_valid = in_valid & pass;
    assign in_ready = out_ready & pass;

    always @(posedge clk)
        if (rst) held <= 1'b0;
        else held <= out_valid & ~out_ready;

    wire unused = &{1'b0, random[23:0]};
endmodule
