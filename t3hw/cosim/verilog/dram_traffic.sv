// A source of memory accesses, one a cycle where it can. `kind` is what it does:
//
// 0, 1, 2  reads, stores, updates of one beat after the other, around the memory
// 3, 4, 5  reads, stores, updates of any beat, at random
// 6        all at random: runs of up to 1, 4, 16 or 64 beats (which changes now and then) from
//          anywhere, or back to where a run has been; of one operation or each beat of another;
//          some with pauses
//
// `op`: 0 read, 1 store, 2 update. Once `stop` is set nothing new is offered.
module t3_dram_traffic #(
    parameter BEATS_LOG2 = 16  // size of the memory
) (
    input  wire                  clk,
    input  wire                  rst,
    input  wire [31:0]           seed,
    input  wire [2:0]            kind,
    input  wire                  stop,
    output wire                  valid,
    input  wire                  ready,
    output wire [1:0]            op,
    output wire [1:0]            source,
    output wire [BEATS_LOG2-1:0] beat,
    output wire [63:0]           data
);
    wire [31:0] random, run_random, other;
    t3_random #(.INDEX(0)) generator0 (.clk(clk), .rst(rst), .seed(seed), .value(random));
    t3_random #(.INDEX(1)) generator1 (.clk(clk), .rst(rst), .seed(seed), .value(run_random));
    t3_random #(.INDEX(2)) generator2 (.clk(clk), .rst(rst), .seed(seed), .value(other));

    localparam [2:0] RANDOM = 3, MIX = 6;
    wire random_beat = kind >= RANDOM;

    // What is offered.
    reg                  offered;
    reg [1:0]            offered_op, offered_source;
    reg [BEATS_LOG2-1:0] offered_beat;
    reg [63:0]           offered_data;

    // The run of the mix that is under way.
    reg [6:0]            left;
    reg [5:0]            longest;
    reg [BEATS_LOG2-1:0] next_beat, earlier;
    reg                  mixed, paused;
    reg [1:0]            run_op;
    // Long pauses let the memory run empty; short ones shift commands against each other.
    reg [9:0]            pause;

    function [1:0] any_op(input [7:0] number);
        any_op = number < 100 ? 2'd0 : number < 178 ? 2'd1 : 2'd2;
    endfunction

    assign valid = offered;
    assign op = offered_op;
    assign source = offered_source;
    assign beat = offered_beat;
    assign data = offered_data;

    always @(posedge clk) begin
        if (rst) begin
            offered <= 1'b0;
            left <= 0;
            longest <= 6'd3;
            next_beat <= 0;
            earlier <= 0;
            mixed <= 1'b0;
            paused <= 1'b0;
            run_op <= 0;
            pause <= 0;
        end else if (!offered || ready) begin
            offered <= !stop && (kind != MIX || pause == 0 && left != 0);
            if (kind != MIX) begin
                offered_op <= random_beat ? kind[1:0] - 2'd3 : kind[1:0];
                offered_source <= 2'd0;
                offered_beat <= random_beat ? random[31 -: BEATS_LOG2] : next_beat;
                offered_data <= {other, random};
                next_beat <= next_beat + 1;
            end else if (pause != 0) begin
                pause <= pause - 1;
            end else if (left == 0) begin
                left <= {1'b0, run_random[6:1] & longest} + 7'd1;
                if (other[31:26] == 0)
                    case (other[25:24])
                        0: longest <= 6'd0;
                        1: longest <= 6'd3;
                        2: longest <= 6'd15;
                        default: longest <= 6'd63;
                    endcase
                next_beat <= run_random[8:7] == 0 ? earlier : random[31 -: BEATS_LOG2];
                if (run_random[10:9] == 0) earlier <= next_beat;
                mixed <= run_random[12:11] == 0;
                paused <= run_random[16:13] == 0;
                run_op <= any_op(run_random[24:17]);
                if (run_random[30:25] == 0) pause <= other[9:0];
            end else begin
                offered_op <= mixed ? any_op(random[7:0]) : run_op;
                offered_source <= other[9:8] == 2'd3 ? 2'd0 : other[9:8];
                offered_beat <= next_beat;
                offered_data <= {other, random};
                next_beat <= next_beat + 1;
                left <= left - 1;
                if (paused) pause <= {6'd0, other[13:10]};
            end
        end
    end

    wire unused = &{1'b0, run_random[31], run_random[0]};
endmodule
