// AXI4-Lite master that a test bench drives by one port: it writes `command` (a new value of bit 63
// makes it a new command) and waits until bit 63 of `response` is equal to that of the command.
//
// command[61:60]  0 read, 1 write, 2 write the records of the file axil<INDEX>.bin
// command[51:32]  address
// command[31:0]   data to write
// response[33:32] BRESP or RRESP; of a file, the first that is not OKAY
// response[31:0]  data read; of a file, the number of responses before that first one
//
// A record of the file is 8 bytes: address and data, most significant byte first. One is sent each
// cycle in which the slave is ready, up to 16 without response.
module t3_axil_mailbox #(
    parameter INDEX = 0
) (
    input  wire        clk,
    input  wire        rst,
    input  wire [63:0] command,
    output wire [63:0] response,

    output reg  [19:0] m_axil_awaddr,
    output reg         m_axil_awvalid,
    input  wire        m_axil_awready,
    output reg  [31:0] m_axil_wdata,
    output reg         m_axil_wvalid,
    input  wire        m_axil_wready,
    input  wire [1:0]  m_axil_bresp,
    input  wire        m_axil_bvalid,
    output wire        m_axil_bready,
    output reg  [19:0] m_axil_araddr,
    output reg         m_axil_arvalid,
    input  wire        m_axil_arready,
    input  wire [31:0] m_axil_rdata,
    input  wire [1:0]  m_axil_rresp,
    input  wire        m_axil_rvalid,
    output wire        m_axil_rready
);
    localparam [1:0] READ = 0, WRITE = 1, FILE = 2;

    // The state is assigned in program order; the ports change at the clock's edge.
    // verilator lint_off BLKSEQ
    integer file, got;
    reg [63:0] record;
    reg        done;             // equal to command[63] when there is nothing to do
    reg        busy, more;
    reg        aw_busy, w_busy, ar_busy;
    reg [4:0]  outstanding;
    reg [1:0]  resp;
    reg [31:0] result;

    reg        done_port;
    reg [1:0]  resp_port;
    reg [31:0] result_port;
    assign response = {done_port, 29'd0, resp_port, result_port};
    assign m_axil_bready = 1'b1;
    assign m_axil_rready = 1'b1;

    always @(posedge clk) begin
        if (rst) begin
            done = 1'b0;
            busy = 1'b0;
            more = 1'b0;
            aw_busy = 1'b0;
            w_busy = 1'b0;
            ar_busy = 1'b0;
            outstanding = 0;
            resp = 0;
            result = 0;
        end else begin
            if (m_axil_awready) aw_busy = 1'b0;
            if (m_axil_wready) w_busy = 1'b0;
            if (m_axil_arready) ar_busy = 1'b0;
            if (m_axil_bvalid) begin
                outstanding = outstanding - 1;
                if (resp == 0) begin
                    resp = m_axil_bresp;
                    if (m_axil_bresp == 0) result = result + 1;
                end
            end
            if (m_axil_rvalid) begin
                outstanding = outstanding - 1;
                resp = m_axil_rresp;
                result = m_axil_rdata;
            end

            if (!busy && command[63] != done) begin
                busy = 1'b1;
                resp = 0;
                result = 0;
                if (command[61:60] == READ) begin
                    ar_busy = 1'b1;
                    outstanding = 1;
                    m_axil_araddr <= command[51:32];
                end else if (command[61:60] == WRITE) begin
                    aw_busy = 1'b1;
                    w_busy = 1'b1;
                    outstanding = 1;
                    m_axil_awaddr <= command[51:32];
                    m_axil_wdata <= command[31:0];
                end else begin
                    file = $fopen($sformatf("axil%0d.bin", INDEX), "rb");
                    more = 1'b1;
                end
            end
            if (more && !aw_busy && !w_busy && outstanding != 16) begin
                got = $fread(record, file);
                if (got == 8) begin
                    aw_busy = 1'b1;
                    w_busy = 1'b1;
                    outstanding = outstanding + 1;
                    m_axil_awaddr <= record[51:32];
                    m_axil_wdata <= record[31:0];
                end else begin
                    more = 1'b0;
                    $fclose(file);
                end
            end
            if (busy && !more && outstanding == 0) begin
                busy = 1'b0;
                done = command[63];
            end
        end
        m_axil_awvalid <= aw_busy;
        m_axil_wvalid <= w_busy;
        m_axil_arvalid <= ar_busy;
        done_port <= done;
        resp_port <= resp;
        result_port <= result;
    end
    // verilator lint_on BLKSEQ

    wire unused = &{1'b0, command, record, FILE};
endmodule
