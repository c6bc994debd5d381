/* Streams and marks: marked work runs in order, whatever a device runs first; unmarked work does
 * not interfere. On the CPU the same calls have the same effect. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/kernels/check_backend.h"

enum { N = 3000, BATCHES = 9, SETS = 2 };

static void await(struct backend *b, const struct backend_mark *m)
{
	weir_error err = {0};
	if (b->ops->await_mark(b, m, &err) != WEIR_OK)
		fail_msg("%s", err.text);
}

/* --- A training pipeline: in, compute, out, two batches in flight. */

struct set {
	float *there, *result;  /* (N), device */
	float *host, *back;     /* (N), from host_alloc */
	double *sum, *sum_back; /* of squares */
	struct backend_mark in, computed, out;
};

static void set_open(struct backend *b, struct set *s)
{
	*s = (struct set){.there = b->ops->buffer_alloc(b, N * sizeof(float)),
	                  .result = b->ops->buffer_alloc(b, N * sizeof(float)),
	                  .host = b->ops->host_alloc(b, N * sizeof(float)),
	                  .back = b->ops->host_alloc(b, N * sizeof(float)),
	                  .sum = b->ops->buffer_alloc(b, sizeof(double)),
	                  .sum_back = b->ops->host_alloc(b, sizeof(double))};
	assert_true(s->there && s->result && s->host && s->back && s->sum && s->sum_back);
}

static void set_close(struct backend *b, struct set *s)
{
	void *const buffers[] = {s->there, s->result, s->sum}, *const hosts[] = {s->host, s->back, s->sum_back};
	struct backend_mark *marks[] = {&s->in, &s->computed, &s->out};
	for (size_t i = 0; i < 3; i++) {
		b->ops->buffer_free(b, buffers[i]);
		b->ops->host_free(b, hosts[i]);
		b->ops->free_mark(b, marks[i]);
		b->ops->free_mark(b, marks[i]); /* NULL is allowed */
	}
}

static float value_of(unsigned batch, size_t i)
{
	return (float)(batch * 1000 + i % 997);
}

/* result = 3 x */
static void launch(struct backend *b, struct set *s, unsigned batch)
{
	for (size_t i = 0; i < N; i++)
		s->host[i] = value_of(batch, i);
	b->ops->choose_stream(b, STREAM_IN);
	b->ops->to_device(b, s->there, s->host, N * sizeof(float));
	b->ops->set_mark(b, &s->in);
	b->ops->choose_stream(b, STREAM_COMPUTE);
	b->ops->follow_mark(b, &s->in);
	b->ops->fill(b, s->result, 0, N);
	b->ops->axpy(b, s->result, 3, s->there, N);
	b->ops->sum_squares(b, s->sum, s->result, N);
	b->ops->set_mark(b, &s->computed);
}

static void collect(struct backend *b, struct set *s, unsigned batch)
{
	b->ops->choose_stream(b, STREAM_OUT);
	b->ops->follow_mark(b, &s->computed);
	b->ops->to_host_later(b, s->back, s->result, N * sizeof(float));
	b->ops->to_host_later(b, s->sum_back, s->sum, sizeof(double));
	b->ops->set_mark(b, &s->out);
	await(b, &s->out);
	b->ops->choose_stream(b, STREAM_COMPUTE);
	double want = 0;
	for (size_t i = 0; i < N; i++) {
		if (s->back[i] != 3 * value_of(batch, i))
			fail_msg("batch %u, element %zu is %g, not %g", batch, i, (double)s->back[i], 3 * (double)value_of(batch, i));
		want += 9 * (double)value_of(batch, i) * (double)value_of(batch, i);
	}
	if (!(fabs(*s->sum_back - want) <= 1e-12 * want))
		fail_msg("batch %u: the sum of squares is %.17g, not %.17g", batch, *s->sum_back, want);
}

static void try_pipeline(struct backend *given, struct prng *rng)
{
	(void)rng;
	struct backend *b = unmirrored(given);
	struct set sets[SETS];
	for (unsigned i = 0; i < SETS; i++)
		set_open(b, &sets[i]);
	check_sync(b);
	for (unsigned n = 0; n < BATCHES; n++) {
		launch(b, &sets[n % SETS], n);
		if (n > 0)
			collect(b, &sets[(n - 1) % SETS], n - 1);
	}
	collect(b, &sets[(BATCHES - 1) % SETS], BATCHES - 1);
	for (unsigned i = 0; i < SETS; i++)
		set_close(b, &sets[i]);
	check_sync(b);
}

static void a_pipeline_of_batches_keeps_them_apart(void **state)
{
	(void)state;
	on_every_backend(721, try_pipeline);
}

/* --- Memory shared by streams */

/* One stream frees a buffer before its use has finished; another allocates it and waits. */
static void try_taken_again(struct backend *given, struct prng *rng)
{
	struct backend *b = unmirrored(given);
	float *kept = b->ops->buffer_alloc(b, N * sizeof *kept);
	float got[N], want[N], *more = random_floats(rng, N, -1, 1);
	assert_non_null(kept);
	for (unsigned round = 0; round < 4; round++) {
		float *x = b->ops->buffer_alloc(b, N * sizeof *x);
		assert_non_null(x);
		b->ops->fill(b, x, (float)round + 1, N);
		b->ops->fill(b, kept, 0, N);
		for (unsigned i = 0; i < 3; i++)
			b->ops->axpy(b, kept, 1, x, N);
		b->ops->buffer_free(b, x);
		b->ops->choose_stream(b, round % 2 ? STREAM_IN : STREAM_OUT);
		float *y = b->ops->buffer_alloc(b, N * sizeof *y);
		assert_true(y != NULL && (is_cpu(b) || y == x));
		b->ops->to_device(b, y, more, N * sizeof *y);
		b->ops->to_host(b, got, y, sizeof got);
		check_same_bits("what was copied there", got, more, N);
		b->ops->choose_stream(b, STREAM_COMPUTE);
		b->ops->buffer_free(b, y);
		b->ops->to_host(b, got, kept, sizeof got);
		for (size_t i = 0; i < N; i++)
			want[i] = 3 * ((float)round + 1);
		check_same_bits("what was computed of it", got, want, N);
	}
	b->ops->buffer_free(b, kept);
	free(more);
	check_sync(b);
}

static void a_buffer_is_taken_again_when_all_streams_are_done_with_it(void **state)
{
	(void)state;
	on_every_backend(722, try_taken_again);
}

/* Ops with scratch memory, concurrently. */
static void try_scratch(struct backend *given, struct prng *rng)
{
	enum { MANY = 10000, TIMES = 8 };
	struct backend *b = unmirrored(given);
	struct backend_mark done[BACKEND_STREAMS] = {{0}};
	float *host = random_floats(rng, MANY, -2, 2), *x[BACKEND_STREAMS];
	double *sums[BACKEND_STREAMS], got, want = NAN;
	struct backend *cpu = backend_cpu_create(1, NULL);
	assert_non_null(cpu);
	cpu->ops->sum_squares(cpu, &want, host, MANY);
	for (unsigned s = 0; s < BACKEND_STREAMS; s++) {
		b->ops->choose_stream(b, s);
		x[s] = b->ops->buffer_alloc(b, MANY * sizeof(float));
		sums[s] = b->ops->buffer_alloc(b, TIMES * sizeof(double));
		assert_true(x[s] != NULL && sums[s] != NULL);
		b->ops->to_device(b, x[s], host, MANY * sizeof(float));
		b->ops->scale(b, x[s], (float)(1u << s), MANY);
	}
	check_sync(b);
	for (unsigned i = 0; i < TIMES; i++)
		for (unsigned s = 0; s < BACKEND_STREAMS; s++) {
			b->ops->choose_stream(b, s);
			b->ops->sum_squares(b, sums[s] + i, x[s], MANY);
			b->ops->set_mark(b, &done[s]);
		}
	for (unsigned s = BACKEND_STREAMS; s-- > 0;)
		for (unsigned i = 0; i < TIMES; i++) {
			await(b, &done[s]);
			b->ops->choose_stream(b, s);
			b->ops->to_host(b, &got, sums[s] + i, sizeof got);
			if (!(fabs(got - want * (double)(1u << 2 * s)) <= 1e-9 * got))
				fail_msg("stream %u, sum %u: %.12g, not %.12g", s, i, got, want * (double)(1u << 2 * s));
		}
	b->ops->choose_stream(b, STREAM_COMPUTE);
	for (unsigned s = 0; s < BACKEND_STREAMS; s++) {
		b->ops->buffer_free(b, x[s]);
		b->ops->buffer_free(b, sums[s]);
		b->ops->free_mark(b, &done[s]);
	}
	cpu->ops->destroy(cpu);
	free(host);
	check_sync(b);
}

static void streams_do_not_share_scratch_memory(void **state)
{
	(void)state;
	on_every_backend(723, try_scratch);
}

/* --- Marks */

static void try_marks(struct backend *given, struct prng *rng)
{
	(void)rng;
	struct backend *b = unmirrored(given);
	struct backend_mark never = {0}, moved = {0};
	double *host = b->ops->host_alloc(b, sizeof *host), *there = b->ops->buffer_alloc(b, sizeof *there);
	float *x = b->ops->buffer_alloc(b, N * sizeof *x);
	assert_true(host != NULL && there != NULL && x != NULL);
	await(b, &never); /* never recorded: done */
	b->ops->follow_mark(b, &never);
	b->ops->set_mark(b, &moved);
	for (unsigned i = 1; i <= 3; i++) {
		b->ops->fill(b, x, (float)i, N);
		b->ops->sum_squares(b, there, x, N);
		b->ops->to_host_later(b, host, there, sizeof *host);
		b->ops->set_mark(b, &moved);
		await(b, &moved);
		await(b, &moved); /* recorded again: done */
		assert_true(*host == (double)i * i * N);
	}
	b->ops->free_mark(b, &moved);
	b->ops->host_free(b, host);
	b->ops->buffer_free(b, there);
	b->ops->buffer_free(b, x);
	check_sync(b);
}

static void marks_can_be_moved_and_those_of_nothing_are_done(void **state)
{
	(void)state;
	on_every_backend(724, try_marks);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_pipeline_of_batches_keeps_them_apart),
	    cmocka_unit_test(a_buffer_is_taken_again_when_all_streams_are_done_with_it),
	    cmocka_unit_test(streams_do_not_share_scratch_memory),
	    cmocka_unit_test(marks_can_be_moved_and_those_of_nothing_are_done),
	};
	return cmocka_run_group_tests_name("streams", tests, NULL, NULL);
}
