#include "t3.h"

#include <stddef.h>

#include "t3_registers.h"

/* The structs of t3_registers.h are packed, so a compiler may read their members byte by byte. Only their
 * offsets are used; an access is always one load or store of a word. */
#define AT(member) ((uint32_t)offsetof(t3_t, member))
#define PLAN(plan) (AT(PLAN) + (plan) * (uint32_t)sizeof(t3__PLAN_t))
#define PLAN_STATE(plan) (AT(PLAN_STATUS) + (plan) * (uint32_t)sizeof(t3__PLAN_STATUS__stride10_t))
#define REGION(region) (AT(REGION) + (region) * (uint32_t)sizeof(t3__REGION__stride40_t))

/* A clear takes some cycles for each tile of a plan. */
#define CLEAR_POLLS 100000u

uint32_t t3_read(t3_node node, uint32_t address)
{
    return *(volatile uint32_t *)(node.base + address);
}

void t3_write(t3_node node, uint32_t address, uint32_t value)
{
    *(volatile uint32_t *)(node.base + address) = value;
}

static unsigned plans(t3_node node)
{
    return (t3_read(node, AT(CAP_TABLES1)) & T3__CAP_TABLES1__PLANS_bm) >> T3__CAP_TABLES1__PLANS_bp;
}

static unsigned regions(t3_node node)
{
    return (t3_read(node, AT(CAP_TABLES1)) & T3__CAP_TABLES1__REGIONS_bm) >> T3__CAP_TABLES1__REGIONS_bp;
}

t3_result t3_identify(t3_node node, uint32_t config_hash)
{
    if (t3_read(node, AT(PRODUCT_ID)) != T3__PRODUCT_ID__ID_reset)
        return T3_NO_NODE;
    if (t3_read(node, AT(MAP_HASH)) != T3_MAP_HASH)
        return T3_OTHER_MAP;
    if (t3_read(node, AT(CONFIG_HASH)) != config_hash)
        return T3_OTHER_CONFIG;
    return T3_OK;
}

static t3_result wait_cleared(t3_node node, unsigned plan)
{
    for (unsigned poll = 0; poll < CLEAR_POLLS; poll++)
        if (!(t3_read(node, PLAN_STATE(plan)) & T3__PLAN_STATUS__STATE__CLEARING_bm))
            return T3_OK;
    return T3_TIMEOUT;
}

static t3_result clear(t3_node node, unsigned plan)
{
    t3_write(node, PLAN(plan), T3__PLAN__CONTROL__CLEAR_bm);
    return wait_cleared(node, plan);
}

t3_result t3_reset(t3_node node)
{
    /* A command that is held stands in the way of a clear. */
    t3_write(node, AT(CONTROL), 0);
    for (unsigned plan = 0; plan < plans(node); plan++) {
        t3_result result = wait_cleared(node, plan);
        if (result == T3_OK && t3_read(node, PLAN_STATE(plan)) & T3__PLAN_STATUS__STATE__ARMED_bm)
            result = clear(node, plan);
        if (result != T3_OK)
            return result;
        /* What power-up left in a plan's words may be refused by a clear. */
        for (uint32_t word = 4; word < sizeof(t3__PLAN_t); word += 4)
            t3_write(node, PLAN(plan) + word, 0);
        result = clear(node, plan);
        if (result != T3_OK)
            return result;
    }
    for (unsigned region = 0; region < regions(node); region++)
        t3_write(node, REGION(region), 0);
    t3_write(node, AT(IRQ_ENABLE), 0);
    t3_write(node, AT(ERROR_STATUS), 0xffffffffu);
    t3_write(node, AT(COUNTER_CONTROL),
             T3__COUNTER_CONTROL__SNAPSHOT_bm | T3__COUNTER_CONTROL__CLEAR_bm);
    return T3_OK;
}

t3_result t3_program(t3_node node, const t3_word *words, unsigned count, unsigned plan)
{
    for (unsigned index = 0; index < count; index++)
        t3_write(node, words[index].address, words[index].value);
    return wait_cleared(node, plan);
}

void t3_arm(t3_node node, unsigned plan)
{
    t3_write(node, PLAN(plan), T3__PLAN__CONTROL__ARM_bm);
}

t3_result t3_wait(t3_node node, unsigned plan, unsigned polls)
{
    while (polls--) {
        if (t3_errors(node))
            return T3_FAULT;
        if (t3_read(node, PLAN_STATE(plan)) & T3__PLAN_STATUS__STATE__DONE_bm)
            return T3_OK;
    }
    return T3_TIMEOUT;
}

uint32_t t3_errors(t3_node node)
{
    return t3_read(node, AT(ERROR_STATUS));
}
