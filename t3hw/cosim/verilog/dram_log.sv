// Writes the commands on a DRAM's command bus to the text file <name><INDEX>.txt, where <name> is
// the plusarg +t3_dram_trace=<name>; without it nothing is written. t3hw/cosim/dram_checker.py
// reads the file, and says what its lines mean.
//
// A bank's number has the group's in its low bits, as on the node's ports. Column commands are
// written with the row that is open in their bank.
module t3_dram_log #(
    parameter INDEX = 0,
    parameter MEMORY = "dram",  // the memory's name and the clock's period, for the file's head
    parameter CLOCK_PS = 1000,
    parameter BANK_GROUPS = 4,
    parameter BANK_WIDTH = 4,
    parameter ROW_WIDTH = 14,
    parameter COLUMN_WIDTH = 5
) (
    input wire                    clk,
    input wire                    rst,
    input wire [63:0]             cycle,
    input wire                    row_valid,
    input wire [1:0]              row_op,
    input wire [BANK_WIDTH-1:0]   row_bank,
    input wire [ROW_WIDTH-1:0]    row,
    input wire                    column_valid,
    input wire [1:0]              column_op,
    input wire [BANK_WIDTH-1:0]   column_bank,
    input wire [COLUMN_WIDTH-1:0] column
);
    // t3hw/hdl/seams.py: RowCommand, ColumnCommand.
    localparam [1:0] ACTIVATE = 0, PRECHARGE = 1, PRECHARGE_ALL = 2;
    localparam [1:0] READ = 0, WRITE = 1;

    integer file;
    reg [8*256-1:0] name;
    reg enabled;
    reg [ROW_WIDTH-1:0] open_row [0:(1 << BANK_WIDTH)-1];

    initial begin
        enabled = $value$plusargs("t3_dram_trace=%s", name) != 0;
        if (enabled) begin
            file = $fopen($sformatf("%0s%0d.txt", name, INDEX), "w");
            $fwrite(file, "# memory %0s, clock %0d ps\n", MEMORY, CLOCK_PS);
        end
    end

    wire [31:0] row_group = {{(32-BANK_WIDTH){1'b0}}, row_bank} % BANK_GROUPS;
    wire [31:0] row_index = {{(32-BANK_WIDTH){1'b0}}, row_bank} / BANK_GROUPS;
    wire [31:0] column_group = {{(32-BANK_WIDTH){1'b0}}, column_bank} % BANK_GROUPS;
    wire [31:0] column_index = {{(32-BANK_WIDTH){1'b0}}, column_bank} / BANK_GROUPS;

    // A row is open for a column command of the same cycle, whose line comes second.
    // verilator lint_off BLKSEQ
    always @(posedge clk)
        if (enabled && !rst) begin
            if (row_valid)
                case (row_op)
                    ACTIVATE: begin
                        open_row[row_bank] = row;
                        $fwrite(file, "%0d ACT %0d %0d %0d -\n", cycle, row_group, row_index, row);
                    end
                    PRECHARGE: $fwrite(file, "%0d PRE %0d %0d - -\n", cycle, row_group, row_index);
                    PRECHARGE_ALL: $fwrite(file, "%0d PREA - - - -\n", cycle);
                    default: $fwrite(file, "%0d REF - - - -\n", cycle);
                endcase
            if (column_valid)
                $fwrite(file, "%0d %0s %0d %0d %0d %0d\n", cycle,
                        column_op == READ ? "RD" : column_op == WRITE ? "WR" : "UPD",
                        column_group, column_index, open_row[column_bank], column);
        end
    // verilator lint_on BLKSEQ
endmodule
