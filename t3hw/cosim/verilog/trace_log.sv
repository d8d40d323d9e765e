// Writes what a node does, cycle by cycle, to the text file trace<INDEX>.txt;
// t3hw/cosim/timeline.py reads it. `bin` = 0 writes nothing. A line is a letter and decimal
// numbers:
//
// T bin            the first line
// A cycle producer remote local incoming memory dma tx rx
//                  beats in the `bin` cycles from `cycle` on; a bin without any has no line
// O cycle sum      the memory's occupancy, summed over the same cycles; none where it is 0
// F cycle slot     a tile is full
// X cycle first    a command fired; its first tile
// B cycle wg       the DMA engine begins a block; its workgroup
// R cycle          the first read of a command was asked for
// C cycle          a command is done
// P cycle plans    plans that are done, a bit each
// S, E cycle       the producer starts and ends a script
module t3_trace_log #(
    parameter INDEX = 0,
    parameter PLANS = 4
) (
    input wire             clk,
    input wire             rst,
    input wire [63:0]      cycle,
    input wire [15:0]      bin,
    input wire             playing,
    input wire             producer_beat,
    input wire             remote_beat,
    input wire             commit_local,
    input wire             commit_incoming,
    input wire             memory,
    input wire             dma_beat,
    input wire             tx,
    input wire             rx,
    input wire             full,
    input wire [15:0]      full_slot,
    input wire             fire,
    input wire [15:0]      fire_first,
    input wire             block,
    input wire [15:0]      block_wg,
    input wire             first_read,
    input wire             command_done,
    input wire [PLANS-1:0] done,
    input wire [15:0]      occupancy
);
    // Counters are assigned in program order.
    // verilator lint_off BLKSEQ
    integer file;
    reg opened, played;
    reg [63:0] first;
    reg [15:0] producer_beats, remote_beats, local_commits, incoming_commits;
    reg [15:0] accesses, dma_beats, tx_words, rx_words;
    reg [31:0] waiting;

    initial opened = 1'b0;

    always @(posedge clk) begin
        if (rst) begin
            played = 1'b0;
            first = 0;
            {producer_beats, remote_beats, local_commits, incoming_commits} = 0;
            {accesses, dma_beats, tx_words, rx_words} = 0;
            waiting = 0;
        end else if (bin != 0) begin
            if (!opened) begin
                file = $fopen($sformatf("trace%0d.txt", INDEX), "w");
                opened = 1'b1;
                $fwrite(file, "T %0d\n", bin);
            end
            if (playing != played) $fwrite(file, "%s %0d\n", playing ? "S" : "E", cycle);
            played = playing;
            if (full) $fwrite(file, "F %0d %0d\n", cycle, full_slot);
            if (fire) $fwrite(file, "X %0d %0d\n", cycle, fire_first);
            if (block) $fwrite(file, "B %0d %0d\n", cycle, block_wg);
            if (first_read) $fwrite(file, "R %0d\n", cycle);
            if (command_done) $fwrite(file, "C %0d\n", cycle);
            if (done != 0) $fwrite(file, "P %0d %0d\n", cycle, done);

            producer_beats = producer_beats + {15'd0, producer_beat};
            remote_beats = remote_beats + {15'd0, remote_beat};
            local_commits = local_commits + {15'd0, commit_local};
            incoming_commits = incoming_commits + {15'd0, commit_incoming};
            accesses = accesses + {15'd0, memory};
            dma_beats = dma_beats + {15'd0, dma_beat};
            tx_words = tx_words + {15'd0, tx};
            rx_words = rx_words + {15'd0, rx};
            waiting = waiting + {16'd0, occupancy};
            if (cycle - first == {48'd0, bin} - 1) begin
                if ((producer_beats | remote_beats | local_commits | incoming_commits
                        | accesses | dma_beats | tx_words | rx_words) != 0)
                    $fwrite(file, "A %0d %0d %0d %0d %0d %0d %0d %0d %0d\n", first,
                            producer_beats, remote_beats, local_commits, incoming_commits,
                            accesses, dma_beats, tx_words, rx_words);
                if (waiting != 0) $fwrite(file, "O %0d %0d\n", first, waiting);
                first = cycle + 1;
                {producer_beats, remote_beats, local_commits, incoming_commits} = 0;
                {accesses, dma_beats, tx_words, rx_words} = 0;
                waiting = 0;
                // A run that is killed leaves whole lines.
                $fflush(file);
            end
        end
    end
    // verilator lint_on BLKSEQ
endmodule
