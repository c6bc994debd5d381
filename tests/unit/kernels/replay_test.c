/* Replayed runs of ops: their results equal those of the ops, for any buffer contents. On a device
 * every run after the first is one call. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/kernels/check_backend.h"

enum { ROWS = 37, IN = 20, OUT = 12, RUNS = 5 };

/* y = dropout(relu(x W^T + bias)), its gradient into dw, and its sum of squares. */
struct layer {
	struct backend *b;
	size_t rows;
	float *x, *w, *bias, *y, *dw, *dbias;
	double *sum;
	uint64_t *seed;
};

static void layer_open(struct layer *l, struct backend *b, size_t rows)
{
	*l = (struct layer){.b = b,
	                    .rows = rows,
	                    .x = b->ops->buffer_alloc(b, ROWS * IN * sizeof(float)),
	                    .w = b->ops->buffer_alloc(b, OUT * IN * sizeof(float)),
	                    .bias = b->ops->buffer_alloc(b, OUT * sizeof(float)),
	                    .y = b->ops->buffer_alloc(b, ROWS * OUT * sizeof(float)),
	                    .dw = b->ops->buffer_alloc(b, OUT * IN * sizeof(float)),
	                    .dbias = b->ops->buffer_alloc(b, OUT * sizeof(float)),
	                    .sum = b->ops->buffer_alloc(b, sizeof(double)),
	                    .seed = b->ops->buffer_alloc(b, sizeof(uint64_t))};
	assert_true(l->x && l->w && l->bias && l->y && l->dw && l->dbias && l->sum && l->seed);
}

static void layer_close(struct layer *l)
{
	void *const all[] = {l->x, l->w, l->bias, l->y, l->dw, l->dbias, l->sum, l->seed};
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		l->b->ops->buffer_free(l->b, all[i]);
}

static void issue(void *arg)
{
	const struct layer *l = arg;
	struct backend *b = l->b;
	b->ops->gemm(b, false, true, l->rows, OUT, IN, 1, l->x, IN, l->w, IN, 0, l->y, OUT);
	b->ops->bias_act(b, l->y, l->bias, l->rows, OUT, ACT_RELU);
	b->ops->dropout(b, l->y, 0, l->rows * OUT, 0.3f, l->seed, 5);
	b->ops->sum_squares(b, l->sum, l->y, l->rows * OUT);
	b->ops->bias_act_backward(b, l->y, l->y, l->y, l->dbias, l->rows, OUT, ACT_RELU);
	b->ops->gemm(b, true, false, OUT, IN, l->rows, 1, l->y, OUT, l->x, IN, 0, l->dw, IN);
}

struct results {
	float y[ROWS * OUT], dw[OUT * IN], dbias[OUT];
	double sum;
};

static void read_results(const struct layer *l, struct results *out)
{
	struct backend *b = l->b;
	b->ops->to_host(b, out->y, l->y, l->rows * OUT * sizeof *out->y);
	b->ops->to_host(b, out->dw, l->dw, sizeof out->dw);
	b->ops->to_host(b, out->dbias, l->dbias, sizeof out->dbias);
	b->ops->to_host(b, &out->sum, l->sum, sizeof out->sum);
}

static void write_inputs(const struct layer *l, struct prng *rng, uint64_t seed)
{
	float *x = random_floats(rng, ROWS * IN, -1, 1), *w = random_floats(rng, OUT * IN, -1, 1),
	      *bias = random_floats(rng, OUT, -1, 1);
	l->b->ops->to_device(l->b, l->x, x, ROWS * IN * sizeof *x);
	l->b->ops->to_device(l->b, l->w, w, OUT * IN * sizeof *w);
	l->b->ops->to_device(l->b, l->bias, bias, OUT * sizeof *bias);
	l->b->ops->to_device(l->b, l->seed, &seed, sizeof seed);
	free(x);
	free(w);
	free(bias);
}

struct key {
	const void *layer_x;
	uint64_t rows;
};

static struct key key_of(const struct layer *l)
{
	return (struct key){l->x, l->rows};
}

/* The same ops as a run and one by one, on the same buffer contents. */
static void check_run(struct layer *l)
{
	struct results got, want;
	const struct key key = key_of(l);
	l->b->ops->replay(l->b, &key, sizeof key, issue, l);
	read_results(l, &got);
	issue(l);
	read_results(l, &want);
	check_same_bits("y", got.y, want.y, l->rows * OUT);
	check_same_bits("dw", got.dw, want.dw, OUT * IN);
	check_same_bits("dbias", got.dbias, want.dbias, OUT);
	assert_true(got.sum == want.sum && isfinite(got.sum));
}

static uint64_t replays_of(const struct backend *b)
{
	struct backend_info info;
	b->ops->info(b, &info);
	if (info.not_replayed != NULL)
		fail_msg("%s", info.not_replayed);
	return info.replays;
}

static void try_again_and_again(struct backend *given, struct prng *rng)
{
	struct backend *b = unmirrored(given);
	struct layer l, other;
	layer_open(&l, b, ROWS);
	layer_open(&other, b, ROWS - 4);
	for (unsigned i = 0; i < RUNS; i++) {
		write_inputs(&l, rng, i);
		check_run(&l);
		write_inputs(&other, rng, i);
		check_run(&other);
	}
	assert_int_equal(replays_of(b), b->ops->host_memory ? 0 : 2 * (RUNS - 1));
	layer_close(&l);
	layer_close(&other);
	check_sync(b);
}

static void buffers_may_differ_from_run_to_run(void **state)
{
	(void)state;
	on_every_backend(731, try_again_and_again);
}

/* More kinds of runs than the limit: recent ones are replayed. */
static void try_many(struct backend *given, struct prng *rng)
{
	struct backend *b = unmirrored(given);
	struct layer l;
	layer_open(&l, b, ROWS);
	write_inputs(&l, rng, 1);
	for (l.rows = 1; l.rows <= ROWS; l.rows++)
		check_run(&l); /* each once */
	assert_int_equal(replays_of(b), 0);
	for (unsigned i = 0; i < 2 * RUNS; i++) {
		l.rows = ROWS - i % 2;
		check_run(&l);
	}
	assert_int_equal(replays_of(b), b->ops->host_memory ? 0 : 2 * RUNS);
	l.rows = 1; /* evicted since */
	check_run(&l);
	assert_int_equal(replays_of(b), b->ops->host_memory ? 0 : 2 * RUNS);
	layer_close(&l);
	check_sync(b);
}

static void runs_that_were_long_ago_are_forgotten(void **state)
{
	(void)state;
	on_every_backend(732, try_many);
}

/* Scratch memory moves when an op outside needs more; runs are then recorded again. */
static void try_growth(struct backend *given, struct prng *rng)
{
	enum { MANY = 20000 };
	struct backend *b = unmirrored(given);
	struct layer l;
	layer_open(&l, b, ROWS);
	float *x = random_floats(rng, MANY, -1, 1), *there = b->ops->buffer_alloc(b, MANY * sizeof *there);
	double *sum = b->ops->buffer_alloc(b, sizeof *sum);
	uint32_t *targets = b->ops->buffer_alloc(b, MANY * sizeof *targets);
	assert_true(there != NULL && sum != NULL && targets != NULL);
	for (unsigned i = 0; i < RUNS; i++) {
		write_inputs(&l, rng, i);
		check_run(&l);
	}
	const uint64_t before = replays_of(b);
	b->ops->to_device(b, there, x, MANY * sizeof *x);
	b->ops->cross_entropy(b, sum, NULL, NULL, there, targets, MANY, 1, 1);
	for (unsigned i = 0; i < RUNS; i++) {
		write_inputs(&l, rng, i);
		check_run(&l);
	}
	assert_int_equal(replays_of(b), b->ops->host_memory ? 0 : before + RUNS - 1);
	b->ops->forget_replays(b);
	check_run(&l);
	assert_int_equal(replays_of(b), b->ops->host_memory ? 0 : before + RUNS - 1);
	b->ops->buffer_free(b, there);
	b->ops->buffer_free(b, sum);
	b->ops->buffer_free(b, targets);
	layer_close(&l);
	free(x);
	check_sync(b);
}

static void runs_do_not_outlive_their_scratch_memory(void **state)
{
	(void)state;
	on_every_backend(733, try_growth);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(buffers_may_differ_from_run_to_run),
	    cmocka_unit_test(runs_that_were_long_ago_are_forgotten),
	    cmocka_unit_test(runs_do_not_outlive_their_scratch_memory),
	};
	return cmocka_run_group_tests_name("replay", tests, NULL, NULL);
}
