# From reset: a stack at the end of the RAM, then C. Nothing is initialized, nothing needs to be.
    .section .start, "ax"
    .globl start
start:
    la sp, stack_end
    j run
