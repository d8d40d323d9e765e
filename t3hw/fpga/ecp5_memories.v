// Memories of the ECP5 for gate-level simulation: the cells that Yosys' library has no model of, or only
// one that begins with zeros. Here they begin with noise, as software may not count on anything.

// 1024 x 18 bits with two ports, or 512 x 36 with one port to write and one to read (DATA_WIDTH_A 36).
// Of its ways of working those that Yosys uses: no output registers, no decoded chip select.
module DP16KD (
    input wire CLKA, CEA, OCEA, WEA, RSTA, CSA0, CSA1, CSA2,
    input wire CLKB, CEB, OCEB, WEB, RSTB, CSB0, CSB1, CSB2,
    input wire ADA0, ADA1, ADA2, ADA3, ADA4, ADA5, ADA6, ADA7, ADA8, ADA9, ADA10, ADA11, ADA12, ADA13,
    input wire ADB0, ADB1, ADB2, ADB3, ADB4, ADB5, ADB6, ADB7, ADB8, ADB9, ADB10, ADB11, ADB12, ADB13,
    input wire DIA0, DIA1, DIA2, DIA3, DIA4, DIA5, DIA6, DIA7, DIA8,
    input wire DIA9, DIA10, DIA11, DIA12, DIA13, DIA14, DIA15, DIA16, DIA17,
    input wire DIB0, DIB1, DIB2, DIB3, DIB4, DIB5, DIB6, DIB7, DIB8,
    input wire DIB9, DIB10, DIB11, DIB12, DIB13, DIB14, DIB15, DIB16, DIB17,
    output wire DOA0, DOA1, DOA2, DOA3, DOA4, DOA5, DOA6, DOA7, DOA8,
    output wire DOA9, DOA10, DOA11, DOA12, DOA13, DOA14, DOA15, DOA16, DOA17,
    output wire DOB0, DOB1, DOB2, DOB3, DOB4, DOB5, DOB6, DOB7, DOB8,
    output wire DOB9, DOB10, DOB11, DOB12, DOB13, DOB14, DOB15, DOB16, DOB17
);
    parameter DATA_WIDTH_A = 18;
    parameter DATA_WIDTH_B = 18;
    parameter REGMODE_A = "NOREG";
    parameter REGMODE_B = "NOREG";
    parameter RESETMODE = "SYNC";
    parameter ASYNC_RESET_RELEASE = "SYNC";
    parameter CSDECODE_A = "0b000";
    parameter CSDECODE_B = "0b000";
    parameter WRITEMODE_A = "NORMAL";
    parameter WRITEMODE_B = "NORMAL";
    parameter CLKAMUX = "CLKA";
    parameter CLKBMUX = "CLKB";
    parameter GSR = "ENABLED";
    // Contents as configured, which are not looked at.
    parameter [319:0] INITVAL_00 = 0, INITVAL_01 = 0, INITVAL_02 = 0, INITVAL_03 = 0;
    parameter [319:0] INITVAL_04 = 0, INITVAL_05 = 0, INITVAL_06 = 0, INITVAL_07 = 0;
    parameter [319:0] INITVAL_08 = 0, INITVAL_09 = 0, INITVAL_0A = 0, INITVAL_0B = 0;
    parameter [319:0] INITVAL_0C = 0, INITVAL_0D = 0, INITVAL_0E = 0, INITVAL_0F = 0;
    parameter [319:0] INITVAL_10 = 0, INITVAL_11 = 0, INITVAL_12 = 0, INITVAL_13 = 0;
    parameter [319:0] INITVAL_14 = 0, INITVAL_15 = 0, INITVAL_16 = 0, INITVAL_17 = 0;
    parameter [319:0] INITVAL_18 = 0, INITVAL_19 = 0, INITVAL_1A = 0, INITVAL_1B = 0;
    parameter [319:0] INITVAL_1C = 0, INITVAL_1D = 0, INITVAL_1E = 0, INITVAL_1F = 0;
    parameter [319:0] INITVAL_20 = 0, INITVAL_21 = 0, INITVAL_22 = 0, INITVAL_23 = 0;
    parameter [319:0] INITVAL_24 = 0, INITVAL_25 = 0, INITVAL_26 = 0, INITVAL_27 = 0;
    parameter [319:0] INITVAL_28 = 0, INITVAL_29 = 0, INITVAL_2A = 0, INITVAL_2B = 0;
    parameter [319:0] INITVAL_2C = 0, INITVAL_2D = 0, INITVAL_2E = 0, INITVAL_2F = 0;
    parameter [319:0] INITVAL_30 = 0, INITVAL_31 = 0, INITVAL_32 = 0, INITVAL_33 = 0;
    parameter [319:0] INITVAL_34 = 0, INITVAL_35 = 0, INITVAL_36 = 0, INITVAL_37 = 0;
    parameter [319:0] INITVAL_38 = 0, INITVAL_39 = 0, INITVAL_3A = 0, INITVAL_3B = 0;
    parameter [319:0] INITVAL_3C = 0, INITVAL_3D = 0, INITVAL_3E = 0, INITVAL_3F = 0;

    wire [13:0] address_a = {ADA13, ADA12, ADA11, ADA10, ADA9, ADA8, ADA7,
                             ADA6, ADA5, ADA4, ADA3, ADA2, ADA1, ADA0};
    wire [13:0] address_b = {ADB13, ADB12, ADB11, ADB10, ADB9, ADB8, ADB7,
                             ADB6, ADB5, ADB4, ADB3, ADB2, ADB1, ADB0};
    wire [17:0] in_a = {DIA17, DIA16, DIA15, DIA14, DIA13, DIA12, DIA11, DIA10, DIA9,
                        DIA8, DIA7, DIA6, DIA5, DIA4, DIA3, DIA2, DIA1, DIA0};
    wire [17:0] in_b = {DIB17, DIB16, DIB15, DIB14, DIB13, DIB12, DIB11, DIB10, DIB9,
                        DIB8, DIB7, DIB6, DIB5, DIB4, DIB3, DIB2, DIB1, DIB0};
    reg [35:0] out_a, out_b;
    assign {DOA17, DOA16, DOA15, DOA14, DOA13, DOA12, DOA11, DOA10, DOA9,
            DOA8, DOA7, DOA6, DOA5, DOA4, DOA3, DOA2, DOA1, DOA0} =
        DATA_WIDTH_B == 36 ? out_b[17:0] : out_a[17:0];
    assign {DOB17, DOB16, DOB15, DOB14, DOB13, DOB12, DOB11, DOB10, DOB9,
            DOB8, DOB7, DOB6, DOB5, DOB4, DOB3, DOB2, DOB1, DOB0} =
        DATA_WIDTH_B == 36 ? out_b[35:18] : out_b[17:0];

    // Bytes of 9 bits; narrower ports use the lower 8 of each.
    reg [8:0] storage [0:2047];

    function [35:0] look(input [13:0] address, input integer width);
        look = width == 36 ? {storage[{address[13:5], 2'd3}], storage[{address[13:5], 2'd2}],
                              storage[{address[13:5], 2'd1}], storage[{address[13:5], 2'd0}]}
             : width == 18 ? {18'd0, storage[{address[13:4], 1'b1}], storage[{address[13:4], 1'b0}]}
             : width == 9 ? {27'd0, storage[address[13:3]]}
             : {27'd0, storage[address[13:3]]} >> address[2:0]
               & (36'd1 << width) - 36'd1;
    endfunction

    task put(input [13:0] address, input [35:0] value, input integer width);
        integer bit_;
        if (width >= 18) begin
            if (address[0]) storage[{address[13:5], width == 18 & address[4] ? 2'd2 : 2'd0}] <= value[8:0];
            if (address[1]) storage[{address[13:5], width == 18 & address[4] ? 2'd3 : 2'd1}] <= value[17:9];
            if (address[2] & width == 36) storage[{address[13:5], 2'd2}] <= value[26:18];
            if (address[3] & width == 36) storage[{address[13:5], 2'd3}] <= value[35:27];
        end else if (width == 9)
            storage[address[13:3]] <= value[8:0];
        else
            for (bit_ = 0; bit_ < width; bit_ = bit_ + 1)
                storage[address[13:3]][address[2:0] + bit_] <= value[bit_];
    endtask

    // What a port shows after an edge at which it wrote.
    function [35:0] shown(input [35:0] old, input [35:0] value, input [13:0] address,
                          input integer width);
        shown = width < 18 ? value : {18'd0, address[1] ? value[17:9] : old[17:9],
                                      address[0] ? value[8:0] : old[8:0]};
    endfunction

    wire write_a = CEA & WEA, write_b = CEB & WEB;
    wire enable_a = CEA & ~(WEA & WRITEMODE_A == "NORMAL");
    wire enable_b = CEB & ~(WEB & WRITEMODE_B == "NORMAL");
    wire [35:0] value_a = DATA_WIDTH_A == 36 ? {in_b, in_a} : {18'd0, in_a};
    wire clock_a = CLKA ^ CLKAMUX == "INV", clock_b = CLKB ^ CLKBMUX == "INV";
    wire unused = &{OCEA, OCEB, CSA0, CSA1, CSA2, CSB0, CSB1, CSB2};

    integer index;
    initial begin
        for (index = 0; index < 2048; index = index + 1) storage[index] = $random;
        out_a = {$random, $random};
        out_b = {$random, $random};
        if (REGMODE_A != "NOREG" || REGMODE_B != "NOREG" || CSDECODE_A != "0b000"
            || CSDECODE_B != "0b000" || DATA_WIDTH_A == 36 && WRITEMODE_A != "NORMAL") begin
            $display("DP16KD %m: there is no model of this way of working");
            $finish;
        end
    end

    always @(posedge clock_a) begin
        if (enable_a)
            out_a <= WEA & WRITEMODE_A == "WRITETHROUGH"
                ? shown(look(address_a, DATA_WIDTH_A), value_a, address_a, DATA_WIDTH_A)
                : look(address_a, DATA_WIDTH_A);
        if (RESETMODE == "SYNC" & RSTA) out_a <= 36'd0;
        if (write_a) put(address_a, value_a, DATA_WIDTH_A);
    end

    always @(posedge clock_b) begin
        if (enable_b)
            out_b <= WEB & WRITEMODE_B == "WRITETHROUGH"
                ? shown(look(address_b, DATA_WIDTH_B), {18'd0, in_b}, address_b, DATA_WIDTH_B)
                : look(address_b, DATA_WIDTH_B);
        if (RESETMODE == "SYNC" & RSTB) out_b <= 36'd0;
        if (write_b & DATA_WIDTH_A != 36) put(address_b, {18'd0, in_b}, DATA_WIDTH_B);
    end
endmodule

// 16 x 4 bits in LUTs: one port to write, one to read at once.
module TRELLIS_DPR16X4 (
    input wire [3:0] DI, WAD, RAD,
    input wire WRE, WCK,
    output wire [3:0] DO
);
    parameter WCKMUX = "WCK";
    parameter WREMUX = "WRE";
    parameter [63:0] INITVAL = 64'd0;

    reg [3:0] storage [0:15];
    integer index;
    initial for (index = 0; index < 16; index = index + 1) storage[index] = $random;

    wire clock = WCK ^ WCKMUX == "INV";
    always @(posedge clock) if (WRE ^ WREMUX == "INV") storage[WAD] <= DI;
    assign DO = storage[RAD];
endmodule
