/* Bare-metal driver of a node: a dozen registers, no memory of its own, no library.
 *
 * Tables are written as the words of a plan that was made beforehand (see make_plan.py). Waits are limited
 * by polls of a register, not by time. */
#ifndef T3_H
#define T3_H

#include <stdint.h>

/* Where the registers of a node are. */
typedef struct {
    uintptr_t base;
} t3_node;

/* A word of a table: byte address in the node, value. */
typedef struct {
    uint32_t address;
    uint32_t value;
} t3_word;

typedef enum {
    T3_OK = 0,
    T3_NO_NODE = -1,        /* PRODUCT_ID is another one */
    T3_OTHER_MAP = -2,      /* the node's registers are not those of t3_registers.h */
    T3_OTHER_CONFIG = -3,   /* the node is not the one that the plan is for */
    T3_TIMEOUT = -4,
    T3_FAULT = -5,          /* ERROR_STATUS is not 0, see t3_errors() */
} t3_result;

uint32_t t3_read(t3_node node, uint32_t address);
void t3_write(t3_node node, uint32_t address, uint32_t value);

/* Whether it is a node, with this map and configuration. */
t3_result t3_identify(t3_node node, uint32_t config_hash);

/* Take over a node in whatever state it is: forget plans, regions, errors. */
t3_result t3_reset(t3_node node);

/* Write a plan's words, the last of which clears it, and wait for the clear. */
t3_result t3_program(t3_node node, const t3_word *words, unsigned count, unsigned plan);

/* Start a run. */
void t3_arm(t3_node node, unsigned plan);

/* Wait until the run is done. */
t3_result t3_wait(t3_node node, unsigned plan, unsigned polls);

/* ERROR_STATUS: a bit for each cause. */
uint32_t t3_errors(t3_node node);

#endif
