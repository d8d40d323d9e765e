// The stock node t3_node_small in plain Verilog, without a processor: identify it, take it over, program a
// plan (the words of plan.hex), arm it, store tiles and compare the sums that come over the link and by DMA.
module node_tb;
    // A plan of three chunks of 256 bytes from 0x1000 on, see make_plan.py.
    parameter PLAN = "plan.hex";
    localparam CHUNKS = 3, WORDS = 64, BASE = 32'h1000, POLLS = 10000;
    // From t3_registers.h.
    localparam PRODUCT_ID = 20'h00000, CAP_TABLES1 = 20'h00014, CONTROL = 20'h00040,
               ERROR_STATUS = 20'h00070, PLAN_STATE = 20'h00100, PLAN_TABLE = 20'h40000,
               REGION_TABLE = 20'h41000;

    reg clk = 1'b0, rst = 1'b1;
    always #5 clk = ~clk;

    reg valid = 1'b0, memory = 1'b0, write = 1'b0;
    reg [31:0] address = 32'd0, wdata = 32'd0;
    wire ready, refused, irq;
    wire [31:0] rdata;
    t3_word_bus bus (
        .clk(clk), .rst(rst), .valid(valid & ~ready), .memory(memory), .write(write), .address(address),
        .wdata(wdata), .strobe(4'hF), .ready(ready), .refused(refused), .rdata(rdata), .irq(irq));

    task fail(input [8*40-1:0] what);
        begin
            $display("FAILED: %0s", what);
            $finish;
        end
    endtask

    // Signals change behind the clock's edge, as they would in a real design.
    task access(input memory_, input write_, input [31:0] address_, input [31:0] wdata_);
        begin
            @(posedge clk) #1;
            valid = 1'b1; memory = memory_; write = write_; address = address_; wdata = wdata_;
            @(posedge clk) #1;
            while (!ready) @(posedge clk) #1;
            valid = 1'b0;
            if (refused) fail("an access was refused");
        end
    endtask

    function [31:0] partial(input integer position, input integer word);
        partial = position * 32'h01000193 ^ word * 32'h9e3779b9;
    endfunction

    task wait_cleared(input integer plan);
        integer poll;
        begin
            rdata_bits = 32'h8;
            for (poll = 0; poll < POLLS && rdata_bits[3]; poll = poll + 1) begin
                access(1'b0, 1'b0, PLAN_STATE + 16 * plan, 32'd0);
                rdata_bits = rdata;
            end
            if (rdata_bits[3]) fail("a clear does not end");
        end
    endtask

    reg [31:0] rdata_bits, table_address, table_value;
    integer file, index, word, position, plans, regions;
    reg [31:0] wanted;

    initial begin
        repeat (8) @(posedge clk);
        #1 rst = 1'b0;
        access(1'b0, 1'b0, PRODUCT_ID, 32'd0);
        if (rdata != 32'h54334857) fail("no node");
        access(1'b0, 1'b0, CAP_TABLES1, 32'd0);
        regions = rdata[7:0];
        plans = rdata[23:16];
        access(1'b0, 1'b1, CONTROL, 32'd0);
        for (index = 0; index < plans; index = index + 1) begin
            for (word = 1; word < 8; word = word + 1)
                access(1'b0, 1'b1, PLAN_TABLE + 32 * index + 4 * word, 32'd0);
            access(1'b0, 1'b1, PLAN_TABLE + 32 * index, 32'h2);
            wait_cleared(index);
        end
        for (index = 0; index < regions; index = index + 1)
            access(1'b0, 1'b1, REGION_TABLE + 64 * index, 32'd0);
        access(1'b0, 1'b1, ERROR_STATUS, 32'hFFFFFFFF);

        file = $fopen(PLAN, "r");
        if (file == 0) fail("there is no plan.hex");
        index = 0;
        while ($fscanf(file, "%h %h", table_address, table_value) == 2) begin
            access(1'b0, 1'b1, table_address, table_value);
            index = index + 1;
        end
        if (index == 0) fail("plan.hex is empty");
        $fclose(file);
        wait_cleared(0);

        access(1'b0, 1'b1, PLAN_TABLE, 32'h1);
        for (position = 1; position <= CHUNKS; position = position + 1)
            for (word = 0; word < WORDS; word = word + 1)
                access(1'b1, 1'b1, BASE + (position - 1) * 4 * WORDS + 4 * word, partial(position, word));
        rdata_bits = 32'd0;
        for (index = 0; index < POLLS && !rdata_bits[1]; index = index + 1) begin
            access(1'b0, 1'b0, PLAN_STATE, 32'd0);
            rdata_bits = rdata;
        end
        if (!rdata_bits[1]) fail("the plan is not done");
        for (word = 0; word < WORDS; word = word + 1) begin
            wanted = partial(1, word) + partial(2, word) + partial(3, word);
            access(1'b1, 1'b0, BASE + (CHUNKS - 1) * 4 * WORDS + 4 * word, 32'd0);
            if (rdata != wanted) begin
                $display("word %0d: %h instead of %h", word, rdata, wanted);
                fail("a wrong sum");
            end
        end
        access(1'b0, 1'b0, ERROR_STATUS, 32'd0);
        if (rdata != 32'd0) fail("the node reports an error");
        $display("node_tb: %0d sums are right", WORDS);
        $finish;
    end

    initial begin
        #20000000 fail("it takes too long");
    end
endmodule
