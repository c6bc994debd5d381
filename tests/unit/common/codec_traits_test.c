/* The table of codecs: names, feedback and uses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/base/codec_traits.h"

#define UNKNOWN ((weir_codec)WEIR_CODECS)

static void ids_are_those_of_the_wire(void **state)
{
	(void)state;
	static const char *const names[] = {"fp32", "bf16", "fp16", "int8", "int4", "sign", "fp8_e4m3", "fp8_e5m2", "topk", "int2"};
	for (unsigned id = 0; id < sizeof names / sizeof *names; id++) {
		weir_codec codec;
		assert_string_equal(codec_name((weir_codec)id), names[id]);
		assert_true(codec_from_name(names[id], &codec));
		assert_int_equal(codec, id);
	}
}

static void every_codec_has_a_name_that_finds_it(void **state)
{
	(void)state;
	for (unsigned id = 0; id < WEIR_CODECS; id++) {
		weir_codec codec = UNKNOWN;
		assert_non_null(codec_name((weir_codec)id));
		assert_true(codec_from_name(codec_name((weir_codec)id), &codec));
		assert_int_equal(codec, id);
	}
}

static void an_unknown_id_has_no_name_and_no_use(void **state)
{
	(void)state;
	static const weir_codec unknown[] = {UNKNOWN, (weir_codec)200};
	for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) {
		assert_null(codec_name(unknown[i]));
		assert_int_equal(codec_feedback(unknown[i]), WEIR_FEEDBACK_NEVER);
		assert_false(codec_has_use(unknown[i], WEIR_CODES_PULLED_CHUNKS));
	}
	weir_codec codec;
	assert_false(codec_from_name("fp33", &codec));
}

static void the_coarsest_codecs_need_feedback(void **state)
{
	(void)state;
	for (unsigned id = 0; id < WEIR_CODECS; id++) {
		const bool coarsest = id == WEIR_CODEC_SIGN || id == WEIR_CODEC_TOPK,
		           exact = id == WEIR_CODEC_FP32 || id == WEIR_CODEC_BF16;
		assert_int_equal(codec_feedback((weir_codec)id), exact      ? WEIR_FEEDBACK_NEVER
		                                                 : coarsest ? WEIR_FEEDBACK_ALWAYS
		                                                            : WEIR_FEEDBACK_OPTIONAL);
		if (coarsest)
			assert_false(codec_has_use((weir_codec)id, WEIR_CODES_ROWS));
	}
}

static void the_names_of_a_use_are_listed(void **state)
{
	(void)state;
	char names[CODEC_NAMES_BYTES];
	codec_names(WEIR_CODES_PULLED_ROWS, names);
	assert_string_equal(names, "fp32, bf16, fp16, int8");
	codec_names(WEIR_CODES_BY_BOOK, names);
	assert_string_equal(names, "int4");
	codec_names((enum weir_codec_use)0, names);
	assert_string_equal(names, "");
}

static void pulls_take_what_comes_to_an_end(void **state)
{
	(void)state;
	assert_true(codec_has_use(WEIR_CODEC_INT4, WEIR_CODES_PULLED_CHUNKS));
	assert_false(codec_has_use(WEIR_CODEC_SIGN, WEIR_CODES_PULLED_CHUNKS));
	assert_false(codec_has_use(WEIR_CODEC_INT2, WEIR_CODES_PULLED_CHUNKS));
	assert_true(values_are_for_pulls(WEIR_VALUES_LOG4));
	assert_false(values_are_for_pulls(WEIR_VALUES_INT2));
	assert_false(values_are_for_pulls((weir_values)WEIR_VALUES));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(ids_are_those_of_the_wire),
	    cmocka_unit_test(every_codec_has_a_name_that_finds_it),
	    cmocka_unit_test(an_unknown_id_has_no_name_and_no_use),
	    cmocka_unit_test(the_coarsest_codecs_need_feedback),
	    cmocka_unit_test(the_names_of_a_use_are_listed),
	    cmocka_unit_test(pulls_take_what_comes_to_an_end),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
