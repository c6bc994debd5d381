#include "common/base/optimizer_traits.h"

struct optimizer_traits {
	uint32_t slots;
	unsigned traits; /* of enum weir_optimizer_trait */
};

static const struct optimizer_traits rules[WEIR_OPTIMIZERS] = {
#define TRAITS(name, number, rule, count, of_rule) [WEIR_OPT_##name] = {.slots = (count), .traits = (unsigned)(of_rule)},
    WEIR_OPTIMIZER_MAP(TRAITS)
#undef TRAITS
};

#define SLOTS_FIT(name, number, rule, slots, traits) \
	_Static_assert((slots) <= WEIR_OPTIMIZER_SLOTS_MAX, #rule " has too many slots");
WEIR_OPTIMIZER_MAP(SLOTS_FIT)
#undef SLOTS_FIT

static bool is_known(weir_optimizer_kind kind)
{
	return (unsigned)kind < WEIR_OPTIMIZERS;
}

uint32_t optimizer_slots(weir_optimizer_kind kind)
{
	return is_known(kind) ? rules[kind].slots : 0;
}

bool optimizer_has(weir_optimizer_kind kind, enum weir_optimizer_trait trait)
{
	return is_known(kind) && (rules[kind].traits & (unsigned)trait);
}
