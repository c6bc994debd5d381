/* Merged weights follow their definitions; models of different kinds are refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/prng.h"
#include "tests/cmocka_check.h"
#include "worker/model/merge.h"

enum { ROWS = 3, COLUMNS = 11003, ELEMENTS = ROWS * COLUMNS, MODELS = 3 };

static char folder[64], out_path[96];
static float weights[MODELS][ELEMENTS];
static const uint64_t keys[2] = {5, 9}, other_keys[2] = {5, 8};

static void path_of(char path[96], int model)
{
	snprintf(path, 96, "%s/%d.safetensors", folder, model);
}

/* A model of a matrix, a number and two keys. */
static void write_model(int model, enum safetensor_type type, const uint64_t *its_keys)
{
	static uint16_t halves[ELEMENTS];
	const bool half = type != SAFETENSOR_F32;
	const float bias = (float)model;
	const char *const metadata[] = {"model.kind", model == 0 ? "first" : "other", NULL};
	char path[96];
	weir_error err = {0};
	if (half)
		safetensor_round(type, weights[model], ELEMENTS, halves);
	const struct safetensor tensors[] = {
	    {.name = "layer.weight",
	     .type = type,
	     .dims = 2,
	     .shape = {ROWS, COLUMNS},
	     .data = half ? (const void *)halves : weights[model]},
	    {.name = "layer.bias", .type = SAFETENSOR_F32, .dims = 0, .data = &bias},
	    {.name = "rows.keys", .type = SAFETENSOR_U64, .dims = 1, .shape = {2}, .data = its_keys}};
	path_of(path, model);
	CHECK_OK(safetensors_write(disk_system(), path, tensors, 3, metadata, &err), err);
}

static int make_models(void **state)
{
	(void)state;
	struct prng r;
	prng_seed(&r, 7);
	snprintf(folder, sizeof folder, "/tmp/weir-merge-XXXXXX");
	if (!mkdtemp(folder))
		return 1;
	snprintf(out_path, sizeof out_path, "%s/out.safetensors", folder);
	for (int m = 0; m < MODELS; m++) {
		for (int i = 0; i < ELEMENTS; i++)
			weights[m][i] = (float)prng_normal(&r);
		write_model(m, SAFETENSOR_F32, keys);
	}
	return 0;
}

static int remove_models(void **state)
{
	(void)state;
	char path[96];
	for (int m = 0; m < MODELS; m++) {
		path_of(path, m);
		unlink(path);
	}
	unlink(out_path);
	return rmdir(folder);
}

struct merged {
	struct safetensors *inputs[MODELS], *base, *out;
};

static weir_status merge(struct merged *x, struct merge m, int base, weir_error *err)
{
	char path[96];
	*x = (struct merged){.base = NULL};
	m.as_first = m.type == SAFETENSOR_F32;
	for (uint32_t i = 0; i < m.count; i++) {
		path_of(path, (int)i);
		CHECK_OK(safetensors_open(&x->inputs[i], path, err), *err);
		m.inputs[i] = x->inputs[i];
		m.names[i] = "another";
	}
	if (base >= 0) {
		path_of(path, base);
		CHECK_OK(safetensors_open(&x->base, path, err), *err);
		m.base = x->base;
	}
	const weir_status status = merge_write(&m, out_path, err);
	if (status == WEIR_OK)
		CHECK_OK(safetensors_open(&x->out, out_path, err), *err);
	return status;
}

static void merged_free(struct merged *x)
{
	for (int m = 0; m < MODELS; m++)
		safetensors_close(x->inputs[m]);
	safetensors_close(x->base);
	safetensors_close(x->out);
}

/* The largest difference between the result's matrix and the sum over models of factor * model. */
static double distance(const struct merged *x, const double factors[MODELS])
{
	static float got[ELEMENTS];
	double most = 0;
	safetensor_floats(safetensors_find(x->out, "layer.weight"), 0, ELEMENTS, got);
	for (int i = 0; i < ELEMENTS; i++) {
		double want = 0;
		for (int m = 0; m < MODELS; m++)
			want += factors[m] * (double)weights[m][i];
		most = fmax(most, fabs(want - (double)got[i]));
	}
	return most;
}

static void a_mean_by_weights(void **state)
{
	(void)state;
	struct merged x;
	weir_error err = {0};
	float bias;
	CHECK_OK(merge(&x, (struct merge){.method = MERGE_LINEAR, .count = 3, .weights = {1, 2, 5}}, -1, &err), err);
	assert_true(distance(&x, (const double[]){0.125, 0.25, 0.625}) < 1e-6);
	safetensor_floats(safetensors_find(x.out, "layer.bias"), 0, 1, &bias);
	assert_true(bias == 1.5f);
	assert_memory_equal(safetensors_find(x.out, "rows.keys")->data, keys, sizeof keys);
	assert_string_equal(safetensors_metadata(x.out, "model.kind"), "first");
	merged_free(&x);
}

/* Two models of equal norm: the norm is constant along the arc, and its ends are the models. */
static void along_the_arc(void **state)
{
	(void)state;
	double dot = 0, a = 0, b = 0;
	for (int i = 0; i < ELEMENTS; i++) {
		a += (double)weights[0][i] * (double)weights[0][i];
		b += (double)weights[1][i] * (double)weights[1][i];
		dot += (double)weights[0][i] * (double)weights[1][i];
	}
	const double angle = acos(dot / sqrt(a * b));
	for (int i = 0; i <= 4; i++) {
		const double t = i / 4.0;
		struct merged x;
		weir_error err = {0};
		CHECK_OK(merge(&x, (struct merge){.method = MERGE_SLERP, .count = 2, .weights = {0, t}}, -1, &err), err);
		const double factors[] = {sin((1 - t) * angle) / sin(angle), sin(t * angle) / sin(angle), 0};
		assert_true(distance(&x, factors) < 1e-6);
		merged_free(&x);
	}
}

static void what_was_learnt_since(void **state)
{
	(void)state;
	struct merged x;
	weir_error err = {0};
	CHECK_OK(merge(&x, (struct merge){.method = MERGE_TASK, .count = 2, .weights = {0.5, -1}}, 2, &err), err);
	assert_true(distance(&x, (const double[]){0.5, -1, 1.5}) < 1e-6);
	merged_free(&x);
}

/* Also from and to half floats. */
static void elements_of_any_type(void **state)
{
	(void)state;
	struct merged x;
	weir_error err = {0};
	write_model(1, SAFETENSOR_BF16, keys);
	CHECK_OK(merge(&x, (struct merge){.method = MERGE_LINEAR, .count = 2, .weights = {1, 1}, .type = SAFETENSOR_F16}, -1, &err),
	         err);
	assert_int_equal(safetensors_find(x.out, "layer.weight")->type, SAFETENSOR_F16);
	assert_int_equal(safetensors_find(x.out, "layer.bias")->type, SAFETENSOR_F16);
	const double off = distance(&x, (const double[]){0.5, 0.5, 0});
	assert_true(off > 1e-4 && off < 0.02); /* a bf16 has eight significant bits */
	merged_free(&x);
	const struct merge far = {.method = MERGE_TASK, .count = 2, .weights = {1, 1e6}, .type = SAFETENSOR_F16};
	assert_int_equal(merge(&x, far, 0, &err), WEIR_E_INVALID);
	assert_non_null(strstr(err.text, "tensor 'layer.bias' would have 1e+06, which F16 does not reach"));
	merged_free(&x);
	err = (weir_error){0};
	write_model(1, SAFETENSOR_F32, keys);
}

static void models_of_different_kinds_are_refused(void **state)
{
	(void)state;
	struct merged x;
	weir_error err = {0};
	const struct merge two = {.method = MERGE_LINEAR, .count = 2, .weights = {1, 1}};
	write_model(1, SAFETENSOR_F32, other_keys);
	assert_int_equal(merge(&x, two, -1, &err), WEIR_E_INVALID);
	assert_non_null(strstr(err.text, "rows with other keys"));
	merged_free(&x);
	const float one = 1;
	struct safetensor tensors[] = {{.name = "layer.weight", .type = SAFETENSOR_F32, .dims = 1, .shape = {1}, .data = &one},
	                               {.name = "layer.bias", .type = SAFETENSOR_F32, .dims = 0, .data = &one},
	                               {.name = "rows.keys", .type = SAFETENSOR_U64, .dims = 1, .shape = {2}, .data = keys},
	                               {.name = "more", .type = SAFETENSOR_F32, .dims = 0, .data = &one},
	                               {.name = "layer.weight", .dims = 2, .shape = {ROWS, COLUMNS}, .data = weights[1]},
	                               {.name = "layer.bias", .dims = 0, .data = &one},
	                               {.name = "rows.keys", .type = SAFETENSOR_U8, .dims = 1, .shape = {2}, .data = keys}};
	static const char *const told[] = {"has no tensor 'layer.weight'", "is F32 of shape [3, 11003]", "has a tensor 'more'",
	                                   "'rows.keys' is U64 of shape [2] in the first model, U8 of [2]"};
	const struct {
		uint32_t first, count;
	} of[] = {{1, 2}, {0, 3}, {0, 4}, {4, 3}};
	for (int i = 0; i < 4; i++) {
		char path[96];
		path_of(path, 1);
		CHECK_OK(safetensors_write(disk_system(), path, tensors + of[i].first, of[i].count, NULL, &err), err);
		err = (weir_error){0};
		assert_int_equal(merge(&x, two, -1, &err), WEIR_E_INVALID);
		if (!strstr(err.text, told[i]))
			fail_msg("%s is not in: %s", told[i], err.text);
		merged_free(&x);
	}
	write_model(1, SAFETENSOR_F32, keys);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_mean_by_weights),
	    cmocka_unit_test(along_the_arc),
	    cmocka_unit_test(what_was_learnt_since),
	    cmocka_unit_test(elements_of_any_type),
	    cmocka_unit_test(models_of_different_kinds_are_refused),
	};
	return cmocka_run_group_tests_name("merge", tests, make_models, remove_models);
}
