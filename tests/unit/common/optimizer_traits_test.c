/* The table of optimizers: slots, and what the checks need to know of each rule. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/base/optimizer_traits.h"

#define KIND(name) (1u << WEIR_OPT_##name)

static void expect(enum weir_optimizer_trait trait, unsigned kinds)
{
	for (unsigned kind = 0; kind < WEIR_OPTIMIZERS; kind++)
		if (optimizer_has((weir_optimizer_kind)kind, trait) != ((kinds >> kind & 1) != 0))
			fail_msg("trait %u of optimizer %u is %d", (unsigned)trait, kind, optimizer_has((weir_optimizer_kind)kind, trait));
}

static void each_trait_has_its_kinds(void **state)
{
	(void)state;
	const unsigned adam = KIND(ADAM) | KIND(ADAMW) | KIND(LAMB);
	expect(WEIR_RULE_BETAS, adam | KIND(LION));
	expect(WEIR_RULE_WINDOW, KIND(DELAYED_NESTEROV) | KIND(AVERAGE));
	expect(WEIR_RULE_DIVIDES_BY_EPS, adam | KIND(ADAGRAD) | KIND(ROW_ADAGRAD));
	expect(WEIR_RULE_DIVIDES_BY_LR, KIND(FTRL));
	expect(WEIR_RULE_BIAS, adam);
	expect(WEIR_RULE_WEIGHT_DECAY, KIND(ADAMW) | KIND(LAMB) | KIND(LION));
	expect(WEIR_RULE_FULL_DECAY, KIND(ADAM) | KIND(ADAMW));
	expect(WEIR_RULE_WHOLE_ROWS, KIND(LAMB) | KIND(ROW_ADAGRAD));
	expect(WEIR_RULE_INITIAL_SLOTS, KIND(ADAGRAD));
	expect(WEIR_RULE_INITIAL_ROW, KIND(ROW_ADAGRAD));
}

static void slots_are_those_of_the_papers(void **state)
{
	(void)state;
	assert_int_equal(optimizer_slots(WEIR_OPT_SGD), 0);
	assert_int_equal(optimizer_slots(WEIR_OPT_MOMENTUM), 1);
	assert_int_equal(optimizer_slots(WEIR_OPT_LION), 1);
	assert_int_equal(optimizer_slots(WEIR_OPT_ADAMW), 2);
}

static void an_unknown_kind_has_no_trait(void **state)
{
	(void)state;
	static const weir_optimizer_kind unknown[] = {(weir_optimizer_kind)WEIR_OPTIMIZERS, (weir_optimizer_kind)200};
	for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) {
		assert_int_equal(optimizer_slots(unknown[i]), 0);
		for (unsigned trait = 1; trait <= WEIR_RULE_INITIAL_ROW; trait *= 2)
			assert_false(optimizer_has(unknown[i], (enum weir_optimizer_trait)trait));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(each_trait_has_its_kinds),
	    cmocka_unit_test(slots_are_those_of_the_papers),
	    cmocka_unit_test(an_unknown_kind_has_no_trait),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
