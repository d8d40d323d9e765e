/* Runs a reduce-scatter of three devices on one node whose link comes back to it, twice, and checks the sums. */
#include "plan.h"
#include "t3.h"

#define NODE ((t3_node){0x40000000u})
#define MEMORY 0x80000000u
#define CONSOLE (*(volatile uint32_t *)0x10000000u)
#define EXIT (*(volatile uint32_t *)0x10000004u)

#define WORDS (PLAN_CHUNK_BYTES / 4)

static void print(const char *text)
{
    while (*text)
        CONSOLE = (uint32_t)*text++;
}

static void print_hex(uint32_t value)
{
    for (int shift = 28; shift >= 0; shift -= 4)
        CONSOLE = (uint32_t)"0123456789abcdef"[value >> shift & 15];
}

static volatile int32_t *chunk(unsigned position)
{
    return (volatile int32_t *)(MEMORY + PLAN_BASE + (position - 1) * PLAN_CHUNK_BYTES);
}

/* What the producer stores at a position. */
static int32_t partial(unsigned run, unsigned position, unsigned word)
{
    return (int32_t)((position * 0x01000193u ^ word * 0x9e3779b9u) + run);
}

static int failed(const char *what, uint32_t got, uint32_t wanted)
{
    print(what);
    print(": ");
    print_hex(got);
    print(" instead of ");
    print_hex(wanted);
    print("\n");
    return 1;
}

static int reduce_scatter(unsigned run)
{
    t3_arm(NODE, 0);
    for (unsigned position = 1; position <= PLAN_CHUNKS; position++)
        for (unsigned word = 0; word < WORDS; word++)
            chunk(position)[word] = partial(run, position, word);
    t3_result result = t3_wait(NODE, 0, 10000);
    if (result != T3_OK)
        return failed("wait", (uint32_t)result, T3_OK);
    for (unsigned word = 0; word < WORDS; word++) {
        uint32_t wanted = 0;
        for (unsigned position = 1; position <= PLAN_CHUNKS; position++)
            wanted += (uint32_t)partial(run, position, word);
        uint32_t got = (uint32_t)chunk(PLAN_CHUNKS)[word];
        if (got != wanted)
            return failed("sum", got, wanted);
    }
    return 0;
}

int main(void)
{
    t3_result result = t3_identify(NODE, PLAN_CONFIG_HASH);
    if (result == T3_OK)
        result = t3_reset(NODE);
    if (result == T3_OK)
        result = t3_program(NODE, plan_words, sizeof plan_words / sizeof *plan_words, 0);
    if (result != T3_OK)
        return failed("start", (uint32_t)result, T3_OK);
    for (unsigned run = 1; run <= 2; run++)
        if (reduce_scatter(run))
            return 1;
    if (t3_errors(NODE))
        return failed("errors", t3_errors(NODE), 0);
    print("reduce-scatter: all sums are right\n");
    return 0;
}

/* From start.S. */
void run(void)
{
    EXIT = (uint32_t)main();
    for (;;)
        ;
}
