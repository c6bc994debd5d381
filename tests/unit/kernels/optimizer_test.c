/* Update rules against float64 references, across variants, alignments and cuts of a row. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/limits.h"
#include "kernels/vector.h"
#include "tests/unit/kernels/check.h"
#include "tests/unit/kernels/check_optimizer.h"

#define PUSHES    9
#define WIDTH_MAX 1031

static const size_t widths[] = {1, 2, 15, 16, 17, 31, 64, 100, WIDTH_MAX};

/* --- The same rules in float64, from the papers, on whole rows. */

struct reference {
	double value[WIDTH_MAX], a[WIDTH_MAX], b[WIDTH_MAX], accumulator;
};

static double norm(const double *x, size_t n)
{
	double sum = 0;
	for (size_t i = 0; i < n; i++)
		sum += x[i] * x[i];
	return sqrt(sum);
}

static void reference_adam(struct reference *r, const weir_optimizer *o, const double *g, size_t n, unsigned t)
{
	double direction[WIDTH_MAX], trust = 1;
	for (size_t i = 0; i < n; i++) {
		r->a[i] = o->beta1 * r->a[i] + (1 - (double)o->beta1) * g[i];
		r->b[i] = o->beta2 * r->b[i] + (1 - (double)o->beta2) * g[i] * g[i];
		double m = r->a[i] / (1 - pow(o->beta1, t)), v = r->b[i] / (1 - pow(o->beta2, t));
		direction[i] = m / (sqrt(v) + o->eps) + (o->kind == WEIR_OPT_ADAM ? 0 : o->weight_decay * r->value[i]);
	}
	if (o->kind == WEIR_OPT_LAMB && norm(r->value, n) > 0 && norm(direction, n) > 0)
		trust = fmin(norm(r->value, n), 10) / norm(direction, n);
	for (size_t i = 0; i < n; i++)
		r->value[i] -= o->lr * trust * direction[i];
}

static void reference_ftrl(struct reference *r, const weir_optimizer *o, const double *g, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		double sigma = (sqrt(r->b[i] + g[i] * g[i]) - sqrt(r->b[i])) / o->lr;
		r->a[i] += g[i] - sigma * r->value[i];
		r->b[i] += g[i] * g[i];
		double z = r->a[i];
		r->value[i] = fabs(z) <= o->l1 ? 0 : -(z - copysign(o->l1, z)) / ((o->ftrl_beta + sqrt(r->b[i])) / o->lr + o->l2);
	}
}

static void reference_row_adagrad(struct reference *r, const weir_optimizer *o, const double *g, size_t n)
{
	double squares = norm(g, n) * norm(g, n);
	r->accumulator += squares / (double)n;
	for (size_t i = 0; i < n; i++)
		r->value[i] -= o->lr * g[i] / (sqrt(r->accumulator) + o->eps);
}

static void reference_element(struct reference *r, const weir_optimizer *o, double g, size_t i, unsigned t)
{
	switch (o->kind) {
	case WEIR_OPT_SGD:
		r->value[i] -= o->lr * g;
		break;
	case WEIR_OPT_MOMENTUM:
		r->a[i] = o->momentum * r->a[i] + g;
		r->value[i] -= o->lr * r->a[i];
		break;
	case WEIR_OPT_NESTEROV:
		r->a[i] = o->momentum * r->a[i] + g;
		r->value[i] -= o->lr * (g + o->momentum * r->a[i]);
		break;
	case WEIR_OPT_ADAGRAD:
		r->a[i] += g * g;
		r->value[i] -= o->lr * g / (sqrt(r->a[i]) + o->eps);
		break;
	case WEIR_OPT_LION: {
		const double c = o->beta1 * r->a[i] + (1 - (double)o->beta1) * g;
		r->value[i] -= o->lr * ((c > 0) - (c < 0) + o->weight_decay * r->value[i]);
		r->a[i] = o->beta2 * r->a[i] + (1 - (double)o->beta2) * g;
		break;
	}
	case WEIR_OPT_DELAYED_NESTEROV:
		r->b[i] += g;
		r->value[i] -= o->lr * g / o->window;
		if (t % o->window == 0) {
			r->a[i] = o->momentum * r->a[i] + r->b[i] / o->window;
			r->value[i] -= o->lr * o->momentum * r->a[i];
			r->b[i] = 0;
		}
		break;
	default:
		fail_msg("no reference for rule %d", (int)o->kind);
	}
}

static void reference_apply(struct reference *r, const weir_optimizer *o, const float *grad, double grad_scale, size_t n,
                            unsigned t)
{
	double g[WIDTH_MAX];
	const double l2 = o->kind == WEIR_OPT_FTRL ? 0 : o->l2;
	for (size_t i = 0; i < n; i++)
		g[i] = grad[i] * grad_scale + l2 * r->value[i];
	if (o->kind == WEIR_OPT_ADAM || o->kind == WEIR_OPT_ADAMW || o->kind == WEIR_OPT_LAMB)
		reference_adam(r, o, g, n, t);
	else if (o->kind == WEIR_OPT_FTRL)
		reference_ftrl(r, o, g, n);
	else if (o->kind == WEIR_OPT_ROW_ADAGRAD)
		reference_row_adagrad(r, o, g, n);
	else
		for (size_t i = 0; i < n; i++)
			reference_element(r, o, g[i], i, t);
}

/* --- A row with its slots */

struct row {
	float *data; /* value (width), slots (2 * width) */
	struct row_state state;
};

static struct row row_create(const weir_optimizer *o, const float *value, size_t width)
{
	struct row row = {.data = malloc(3 * width * sizeof(float))};
	assert_non_null(row.data);
	memcpy(row.data, value, width * sizeof(float));
	optimizer_init_slots(o, row.data + width, width);
	return row;
}

static void push(struct optimizer *o, const struct optimizer_scalars *s, struct row *row, size_t width, const float *grad)
{
	optimizer_begin_row(o, &row->state);
	optimizer_apply(o, s, &row->state, row->data, row->data + width, width, 0, grad, width);
}

/* --- Tests */

static void every_rule_follows_its_paper(void **state)
{
	(void)state;
	struct prng rng;
	prng_seed(&rng, 11);
	for (int kind = 0; kind < WEIR_OPTIMIZERS; kind++)
		for (size_t w = 0; kind != WEIR_OPT_AVERAGE && w < sizeof widths / sizeof *widths; w++) {
			const size_t n = widths[w];
			const weir_optimizer spec = check_optimizer((weir_optimizer_kind)kind);
			const struct optimizer_scalars scalars = {.lr = spec.lr, .grad_scale = 0.5f};
			struct optimizer *o = optimizer_create(&spec, NULL);
			assert_non_null(o);
			float *value = random_floats(&rng, n, -1, 1);
			struct row row = row_create(&spec, value, n);
			static struct reference r;
			memset(&r, 0, sizeof r);
			r.accumulator = spec.initial;
			for (size_t i = 0; i < n; i++) {
				r.value[i] = value[i];
				r.a[i] = kind == WEIR_OPT_ADAGRAD ? spec.initial : 0;
			}
			for (unsigned t = 1; t <= PUSHES; t++) {
				float *grad = random_floats(&rng, n, -2, 2);
				push(o, &scalars, &row, n, grad);
				reference_apply(&r, &spec, grad, scalars.grad_scale, n, t);
				char what[64];
				snprintf(what, sizeof what, "rule %d, width %zu, push %u", kind, n, t);
				check_close(what, row.data, r.value, n, 2e-5, 2e-6);
				free(grad);
			}
			free(value);
			free(row.data);
			optimizer_destroy(o);
		}
}

/* Every variant, an unaligned gradient, and, where allowed, a row cut into runs: all give the plain
 * loop's bits. */
static void variants_and_cuts_give_the_same_bits(void **state)
{
	(void)state;
	struct prng rng;
	prng_seed(&rng, 12);
	for (int kind = 0; kind < WEIR_OPTIMIZERS; kind++)
		for (size_t w = 0; w < sizeof widths / sizeof *widths; w++) {
			const size_t n = widths[w];
			const weir_optimizer spec = check_optimizer((weir_optimizer_kind)kind);
			const struct optimizer_scalars scalars = {.lr = spec.lr, .grad_scale = 0.25f};
			const size_t total = n * (1 + optimizer_slots(spec.kind));
			float *value = random_floats(&rng, n, -1, 1), *grads = random_floats(&rng, n * PUSHES, -2, 2);
			struct row want = row_create(&spec, value, n);
			struct optimizer *base = optimizer_create_with(vector_ops_variant(0), &spec, NULL);
			for (size_t t = 0; t < PUSHES; t++)
				push(base, &scalars, &want, n, grads + t * n);
			for (unsigned v = 0; vector_ops_variant(v) != NULL; v++) {
				char what[64];
				snprintf(what, sizeof what, "rule %d, width %zu, %s", kind, n, vector_ops_variant(v)->name);
				struct optimizer *o = optimizer_create_with(vector_ops_variant(v), &spec, NULL);
				struct row row = row_create(&spec, value, n);
				char *wire = malloc(n * sizeof(float) + 1);
				for (size_t t = 0; t < PUSHES; t++) {
					memcpy(wire + 1, grads + t * n, n * sizeof(float));
					const float *unaligned = (const float *)(const void *)(wire + 1);
					size_t cut = optimizer_is_elementwise(o) ? prng_below(&rng, n + 1) : n;
					optimizer_begin_row(o, &row.state);
					optimizer_apply(o, &scalars, &row.state, row.data, row.data + n, n, 0, unaligned, cut);
					if (cut < n)
						optimizer_apply(o, &scalars, &row.state, row.data, row.data + n, n, cut,
						                (const float *)(const void *)(wire + 1 + cut * sizeof(float)), n - cut);
				}
				check_same_bits(what, row.data, want.data, total);
				check_same_bits(what, &row.state.accumulator, &want.state.accumulator, 1);
				assert_int_equal(row.state.steps, PUSHES);
				free(wire);
				free(row.data);
				optimizer_destroy(o);
			}
			free(value);
			free(grads);
			free(want.data);
			optimizer_destroy(base);
		}
}

/* FNV-1a of value and slots after PUSHES pushes. Replicas on other machines, built by other
 * compilers, must get the same bits. They may change only with a rule, and old logs do not survive
 * that. */
static void results_are_the_recorded_bits(void **state)
{
	(void)state;
	static const uint64_t recorded[WEIR_OPTIMIZERS] = {
	    0x77d1931f45d60cf7, 0x3b579e32d949324f, 0x88b8ac2a0b0f738b, 0xe280b3bf941b90d8, 0x45c8a1bb305228d5, 0x7ad85a022bbd2f1e,
	    0x0f4fefa88116515b, 0xccca38882cd84299, 0x78febdf9d4c8ba36, 0x307b4470e49805d2, 0x4b02a487a93a27bc, 0xa299fea6b64a5646};
	struct prng rng;
	prng_seed(&rng, 14);
	float *value = random_floats(&rng, WIDTH_MAX, -1, 1), *grads = random_floats(&rng, WIDTH_MAX * PUSHES, -2, 2);
	for (int kind = 0; kind < WEIR_OPTIMIZERS; kind++)
		for (unsigned v = 0; vector_ops_variant(v) != NULL; v++) {
			const weir_optimizer spec = check_optimizer((weir_optimizer_kind)kind);
			const struct optimizer_scalars scalars = {.lr = spec.lr, .grad_scale = 0.25f};
			struct optimizer *o = optimizer_create_with(vector_ops_variant(v), &spec, NULL);
			struct row row = row_create(&spec, value, WIDTH_MAX);
			for (size_t t = 0; t < PUSHES; t++)
				push(o, &scalars, &row, WIDTH_MAX, grads + t * WIDTH_MAX);
			uint64_t hash = 0xcbf29ce484222325u;
			for (size_t i = 0; i < WIDTH_MAX * (1 + optimizer_slots(spec.kind)); i++) {
				uint32_t bits;
				memcpy(&bits, &row.data[i], sizeof bits);
				hash = (hash ^ bits) * 0x100000001b3u;
			}
			if (hash != recorded[kind])
				fail_msg("rule %d, %s: the bits hash to 0x%016llx, recorded is 0x%016llx", kind, vector_ops_variant(v)->name,
				         (unsigned long long)hash, (unsigned long long)recorded[kind]);
			free(row.data);
			optimizer_destroy(o);
		}
	free(value);
	free(grads);
}

static void a_nan_spoils_its_own_element_only(void **state)
{
	(void)state;
	for (int kind = 0; kind < WEIR_OPTIMIZERS; kind++) {
		const weir_optimizer spec = check_optimizer((weir_optimizer_kind)kind);
		struct optimizer *o = optimizer_create(&spec, NULL);
		float value[20] = {0}, grad[20] = {0};
		for (size_t i = 0; i < 20; i++)
			value[i] = grad[i] = 1 + (float)i;
		grad[7] = NAN;
		struct row row = row_create(&spec, value, 20);
		push(o, &(struct optimizer_scalars){.lr = 0.1f, .grad_scale = 1}, &row, 20, grad);
		/* one accumulator for the whole row, so no element stays clean */
		for (size_t i = 0; i < 20; i++)
			assert_int_equal(isnan(row.data[i]) != 0, i == 7 || kind == WEIR_OPT_ROW_ADAGRAD);
		free(row.data);
		optimizer_destroy(o);
	}
}

static void many_rows_equal_one_by_one(void **state)
{
	(void)state;
	enum { ROWS = 57, WIDTH = 17 };
	struct prng rng;
	prng_seed(&rng, 13);
	for (int kind = 0; kind < WEIR_OPTIMIZERS; kind++) {
		const weir_optimizer spec = check_optimizer((weir_optimizer_kind)kind);
		const struct optimizer_scalars scalars = {.lr = spec.lr, .grad_scale = 1};
		struct optimizer *o = optimizer_create(&spec, NULL);
		struct row one[ROWS], many[ROWS];
		float *rows[ROWS];
		struct row_state *states[ROWS];
		float *value = random_floats(&rng, ROWS * WIDTH, -1, 1), *grads = random_floats(&rng, ROWS * WIDTH, -1, 1);
		for (size_t i = 0; i < ROWS; i++) {
			one[i] = row_create(&spec, value + i * WIDTH, WIDTH);
			many[i] = row_create(&spec, value + i * WIDTH, WIDTH);
			one[i].state.steps = many[i].state.steps = (uint32_t)prng_below(&rng, 3000);
			rows[i] = many[i].data;
			states[i] = &many[i].state;
		}
		for (size_t i = 0; i < ROWS; i++)
			push(o, &scalars, &one[i], WIDTH, grads + i * WIDTH);
		optimizer_apply_rows(o, &scalars, states, rows, WIDTH, grads, ROWS);
		for (size_t i = 0; i < ROWS; i++) {
			check_same_bits("row", many[i].data, one[i].data, WIDTH * (1 + optimizer_slots(spec.kind)));
			assert_int_equal(many[i].state.steps, one[i].state.steps);
			free(one[i].data);
			free(many[i].data);
		}
		free(value);
		free(grads);
		optimizer_destroy(o);
	}
}

static void average_is_the_mean_of_a_window(void **state)
{
	(void)state;
	weir_optimizer spec = check_optimizer(WEIR_OPT_AVERAGE);
	const struct optimizer_scalars scalars = {.lr = 123, .grad_scale = 1};
	struct optimizer *o = optimizer_create(&spec, NULL);
	float initial = 1000;
	struct row row = row_create(&spec, &initial, 1);
	/* windows of four; the numbers are exact in binary */
	static const float pushes[] = {8, 4, 3, 1, 16, 0, 0, 0, 2, 2, 2, 2};
	static const double want[] = {8, 6, 5, 4, 7, 6, 5, 4, 3.5, 3, 2.5, 2};
	for (size_t t = 0; t < sizeof pushes / sizeof *pushes; t++) {
		push(o, &scalars, &row, 1, &pushes[t]);
		check_close("running mean", row.data, &want[t], 1, 1e-6, 0);
	}
	free(row.data);
	optimizer_destroy(o);

	spec.window = 1;
	o = optimizer_create(&spec, NULL);
	row = row_create(&spec, &initial, 1);
	for (size_t t = 0; t < 3; t++) {
		push(o, &scalars, &row, 1, &pushes[t]);
		check_same_bits("window of one", row.data, &pushes[t], 1);
	}
	free(row.data);
	optimizer_destroy(o);
}

static void adam_corrects_its_bias_far_out(void **state)
{
	(void)state;
	/* With fresh slots, one push of g moves the value by lr * (1-b1) g c1 / (sqrt((1-b2) g^2 c2) +
	 * eps), for any step count. */
	static const uint32_t steps[] = {0, 1, 9, 1022, 1023, 1024, 5000, 1000000, UINT32_MAX - 1, UINT32_MAX};
	weir_optimizer spec = check_optimizer(WEIR_OPT_ADAM);
	spec.l2 = 0;
	const struct optimizer_scalars scalars = {.lr = 1, .grad_scale = 1};
	struct optimizer *o = optimizer_create(&spec, NULL);
	for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
		float zero = 0, grad = 0.5f;
		struct row row = row_create(&spec, &zero, 1);
		row.state.steps = steps[i];
		push(o, &scalars, &row, 1, &grad);
		double t = steps[i] == UINT32_MAX ? steps[i] : steps[i] + 1.0;
		double c1 = 1 / (1 - pow(spec.beta1, t)), c2 = 1 / (1 - pow(spec.beta2, t));
		double want = -(1 - (double)spec.beta1) * grad * c1 / (sqrt((1 - (double)spec.beta2) * grad * grad * c2) + spec.eps);
		check_close("step", row.data, &want, 1, 1e-6, 0);
		free(row.data);
	}
	optimizer_destroy(o);
}

/* Missed steps, applied at once or in two parts, equal the rule with zero gradients: the same bits
 * on every variant. */
static void catching_up_is_stepping_without_a_gradient(void **state)
{
	(void)state;
	enum { WIDTH = 70, BEHIND = 400 };
	static const float none[WIDTH];
	struct prng rng;
	prng_seed(&rng, 15);
	for (int i = 0; i < 4; i++)
		for (unsigned v = 0; vector_ops_variant(v) != NULL; v++) {
			weir_optimizer spec = check_optimizer(i & 1 ? WEIR_OPT_ADAM : WEIR_OPT_ADAMW);
			spec.decay = WEIR_DECAY_FULL;
			spec.l2 = i & 2 ? spec.l2 : 0;
			const struct optimizer_scalars scalars = {.lr = spec.lr, .grad_scale = 1};
			struct optimizer *base = optimizer_create_with(vector_ops_variant(0), &spec, NULL);
			struct optimizer *o = optimizer_create_with(vector_ops_variant(v), &spec, NULL);
			float *value = random_floats(&rng, WIDTH, -1, 1), *grad = random_floats(&rng, WIDTH, -2, 2);
			struct row want = row_create(&spec, value, WIDTH), got = row_create(&spec, value, WIDTH);
			push(base, &scalars, &want, WIDTH, grad);
			push(o, &scalars, &got, WIDTH, grad);
			for (unsigned t = 0; t < BEHIND; t++)
				push(base, &scalars, &want, WIDTH, none);
			/* the last one: a clock behind the row changes nothing */
			const size_t parts[] = {1, 1 + BEHIND / 3, 1 + BEHIND, 1};
			for (size_t p = 0; p < sizeof parts / sizeof *parts; p++)
				optimizer_catch_up(o, &(struct optimizer_clock){.steps = parts[p], .lr = spec.lr}, &got.state, got.data,
				                   got.data + WIDTH, WIDTH);
			check_same_bits("caught up", got.data, want.data, 3 * WIDTH);
			assert_int_equal(got.state.steps, 1 + BEHIND);
			free(value);
			free(grad);
			free(want.data);
			free(got.data);
			optimizer_destroy(base);
			optimizer_destroy(o);
		}
}

static void a_row_far_behind_takes_a_limited_number_of_steps(void **state)
{
	(void)state;
	weir_optimizer spec = check_optimizer(WEIR_OPT_ADAM);
	spec.decay = WEIR_DECAY_FULL;
	struct optimizer *o = optimizer_create(&spec, NULL);
	const float value[2] = {1, -2};
	struct row limit = row_create(&spec, value, 2), far = row_create(&spec, value, 2);
	optimizer_catch_up(o, &(struct optimizer_clock){.steps = WEIR_CATCH_UP_STEPS_MAX, .lr = spec.lr}, &limit.state, limit.data,
	                   limit.data + 2, 2);
	optimizer_catch_up(o, &(struct optimizer_clock){.steps = UINT64_MAX, .lr = spec.lr}, &far.state, far.data, far.data + 2, 2);
	check_same_bits("at the limit", far.data, limit.data, 6);
	assert_int_equal(limit.state.steps, WEIR_CATCH_UP_STEPS_MAX);
	assert_int_equal(far.state.steps, UINT32_MAX);
	free(limit.data);
	free(far.data);
	optimizer_destroy(o);
}

/* A dense table's row has runs. Each run acts as a row of its own, with or without weight decay. */
static void weight_decay_leaves_out_what_it_is_told(void **state)
{
	(void)state;
	enum { WIDTH = 100, RUNS = 4 };
	static const weir_init_segment segments[] = {
	    {.elements = 50}, /* belongs to the previous row */
	    {.elements = 10}, {.elements = 7, .undecayed = true},  {.elements = 20},
	    {.elements = 20}, {.elements = 13, .undecayed = true}, {.elements = 31, .undecayed = true}};
	static const size_t ends[RUNS] = {9, 16, 56, 100}; /* the row begins at element 51 */
	static const weir_optimizer_kind rules[] = {WEIR_OPT_ADAMW, WEIR_OPT_LAMB, WEIR_OPT_LION};
	for (size_t k = 0; k < sizeof rules / sizeof *rules; k++) {
		const weir_optimizer spec = check_optimizer(rules[k]);
		weir_optimizer bare = spec;
		bare.weight_decay = 0;
		struct optimizer *o = optimizer_create(&spec, NULL), *with = optimizer_create(&spec, NULL),
		                 *without = optimizer_create(&bare, NULL);
		assert_int_equal(optimizer_leave_out(o, segments, sizeof segments / sizeof *segments, NULL), WEIR_OK);
		const struct optimizer_scalars scalars = {.lr = 0.1f, .grad_scale = 1, .element = 51};
		float first[WIDTH], grad[WIDTH];
		for (size_t i = 0; i < WIDTH; i++) {
			first[i] = 1 + (float)i / 8;
			grad[i] = (float)(i % 7) - 3;
		}
		struct row row = row_create(&spec, first, WIDTH);
		for (unsigned t = 0; t < 3; t++)
			push(o, &scalars, &row, WIDTH, grad);
		for (size_t run = 0, at = 0; run < RUNS; at = ends[run++]) {
			const size_t n = ends[run] - at;
			struct row alone = row_create(&spec, first + at, n);
			for (unsigned t = 0; t < 3; t++)
				push(run % 2 ? without : with, &(struct optimizer_scalars){.lr = 0.1f, .grad_scale = 1}, &alone, n, grad + at);
			check_same_bits("run", row.data + at, alone.data, n);
			free(alone.data);
		}
		free(row.data);
		optimizer_destroy(o);
		optimizer_destroy(with);
		optimizer_destroy(without);
	}
}

static void lamb_trusts_fully_where_a_norm_is_zero(void **state)
{
	(void)state;
	weir_optimizer spec = check_optimizer(WEIR_OPT_LAMB);
	const struct optimizer_scalars scalars = {.lr = 0.1f, .grad_scale = 1};
	struct optimizer *o = optimizer_create(&spec, NULL);
	float zeros[3] = {0}, grad[3] = {1, 1, 1};
	struct row row = row_create(&spec, zeros, 3);
	push(o, &scalars, &row, 3, grad);
	const double want[3] = {-0.1, -0.1, -0.1}; /* mhat / sqrt(vhat) is 1 */
	check_close("from zero", row.data, want, 3, 1e-4, 0);
	free(row.data);
	optimizer_destroy(o);
}

static void ftrl_gives_exact_zeros_and_ignores_a_rate_of_zero(void **state)
{
	(void)state;
	weir_optimizer spec = check_optimizer(WEIR_OPT_FTRL);
	struct optimizer *o = optimizer_create(&spec, NULL);
	float value[2] = {0, 0}, grad[2] = {0.1f, -5};
	struct row row = row_create(&spec, value, 2);
	push(o, &(struct optimizer_scalars){.lr = 0, .grad_scale = 1}, &row, 2, grad);
	check_same_bits("rate 0", row.data, value, 2);
	push(o, &(struct optimizer_scalars){.lr = 0.1f, .grad_scale = 1}, &row, 2, grad);
	assert_true(row.data[0] == 0); /* |z| = 0.1 <= l1 */
	assert_true(row.data[1] > 0);
	free(row.data);
	optimizer_destroy(o);
}

static void settings_out_of_range_are_refused(void **state)
{
	(void)state;
	weir_error err = {0};
	struct {
		weir_optimizer_kind kind;
		size_t field;
		float value;
		const char *named;
	} bad[] = {
	    {WEIR_OPT_SGD, offsetof(weir_optimizer, lr), -1, "lr"},
	    {WEIR_OPT_SGD, offsetof(weir_optimizer, lr), NAN, "lr"},
	    {WEIR_OPT_FTRL, offsetof(weir_optimizer, lr), 0, "lr"},
	    {WEIR_OPT_MOMENTUM, offsetof(weir_optimizer, momentum), 1, "momentum"},
	    {WEIR_OPT_ADAM, offsetof(weir_optimizer, beta2), 1, "beta2"},
	    {WEIR_OPT_ADAM, offsetof(weir_optimizer, eps), 0, "eps"},
	    {WEIR_OPT_ADAGRAD, offsetof(weir_optimizer, initial), -1, "initial"},
	    {WEIR_OPT_SGD, offsetof(weir_optimizer, l2), INFINITY, "l2"},
	};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		weir_optimizer spec = check_optimizer(bad[i].kind);
		memcpy((char *)&spec + bad[i].field, &bad[i].value, sizeof(float));
		assert_int_equal(optimizer_check(&spec, &err), WEIR_E_INVALID);
		assert_non_null(strstr(err.text, bad[i].named));
		assert_null(optimizer_create(&spec, &err));
	}
	weir_optimizer spec = check_optimizer(WEIR_OPT_AVERAGE);
	spec.window = 0;
	assert_int_equal(optimizer_check(&spec, &err), WEIR_E_INVALID);
	spec = check_optimizer((weir_optimizer_kind)99);
	assert_int_equal(optimizer_check(&spec, &err), WEIR_E_INVALID);
	for (int kind = 0; kind < WEIR_OPTIMIZERS; kind++) {
		spec = check_optimizer((weir_optimizer_kind)kind);
		assert_int_equal(optimizer_check(&spec, &err), WEIR_OK);
		spec.decay = WEIR_DECAY_FULL;
		bool adam = kind == WEIR_OPT_ADAM || kind == WEIR_OPT_ADAMW;
		assert_int_equal(optimizer_check(&spec, &err), adam ? WEIR_OK : WEIR_E_INVALID);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_rule_follows_its_paper),
	    cmocka_unit_test(variants_and_cuts_give_the_same_bits),
	    cmocka_unit_test(results_are_the_recorded_bits),
	    cmocka_unit_test(a_nan_spoils_its_own_element_only),
	    cmocka_unit_test(many_rows_equal_one_by_one),
	    cmocka_unit_test(average_is_the_mean_of_a_window),
	    cmocka_unit_test(adam_corrects_its_bias_far_out),
	    cmocka_unit_test(catching_up_is_stepping_without_a_gradient),
	    cmocka_unit_test(a_row_far_behind_takes_a_limited_number_of_steps),
	    cmocka_unit_test(weight_decay_leaves_out_what_it_is_told),
	    cmocka_unit_test(lamb_trusts_fully_where_a_norm_is_zero),
	    cmocka_unit_test(ftrl_gives_exact_zeros_and_ignores_a_rate_of_zero),
	    cmocka_unit_test(settings_out_of_range_are_refused),
	};
	return cmocka_run_group_tests_name("optimizer", tests, NULL, NULL);
}
