/* Rounds of local steps, on the CPU and on a device, against a plain loop: after every batch the
 * worker's and the servers' values follow the definition. Each case lists the pushes of its
 * fragments. */
#include <pthread.h>
#include <string.h>

#include "common/base/prng.h"
#include "tests/cmocka_check.h"
#include "tests/rounds.h"
#include "tests/unit/worker/train/local_worker.h"

#if defined(WEIR_CUDA_HOST)
#include "tests/cuda_host/cuda_host.h"
#endif

enum { PARTITIONS = 8 };

static void expect_audit(struct cluster *c)
{
	const struct audit a = cluster_audit(c);
	assert_int_equal(a.applied, a.expected);
	assert_int_equal(a.applied_fingerprint, a.expected_fingerprint);
	assert_int_equal(a.twice + a.dropped + a.skipped, 0);
}

/* --- One worker */

enum { UNITS = 2 };

static void follows_the_definition(const struct scenario *s)
{
	struct cluster c;
	struct worker w;
	struct reference r;
	weir_error err = {0};
	cluster_start(&c, &(struct cluster_options){0});
	worker_open(&w, &c, s, "worker", UNITS, WEIR_ASYNC);
	reference_open(&r);
	worker_pull(&w);
	memcpy(r.server, w.pulled, ELEMENTS * sizeof *r.server);
	for (uint32_t i = 0; i < UNITS; i++) {
		weir_unit u = {0};
		worker_lease(&w, &u);
		assert_int_equal(u.watermark, 0);
		memset(r.applied, 0, sizeof r.applied);
		worker_follow(&w, &r, &u, 0, scenario_batches(s));
		CHECK_OK(weir_unit_commit(w.client, &u, &err), err);
	}
	worker_expect_rows(&w, UNITS);
	expect_audit(&c);
	worker_close(&w);
	cluster_stop(&c);
	reference_close(&r);
}

static void whole_tables(bool device)
{
	const weir_optimizer_kind sgd = WEIR_OPT_SGD, momentum = WEIR_OPT_MOMENTUM, nesterov = WEIR_OPT_NESTEROV,
	                          adamw = WEIR_OPT_ADAMW;
	static const char whole[] = "00010001", rest[] = "0001000101", short_unit[] = "001", every[] = "1111";
	const struct scenario cases[] = {
	    {.steps = 4, .fragments = 1, .merge = 1, .inner = sgd, .outer = sgd, .pushes = whole},
	    {.steps = 4, .fragments = 1, .merge = 1, .inner = momentum, .outer = nesterov, .pushes = rest},
	    {.steps = 4, .fragments = 1, .merge = 1, .inner = momentum, .outer = nesterov, .late = true, .pushes = rest},
	    {.steps = 4, .fragments = 1, .merge = 1, .inner = sgd, .outer = adamw, .pushes = rest},
	    {.steps = 100, .fragments = 1, .merge = 1, .inner = sgd, .outer = nesterov, .pushes = short_unit},
	    {.steps = 4, .fragments = 1, .overlap = 2, .merge = 1, .inner = sgd, .outer = nesterov, .pushes = rest},
	    {.steps = 4, .fragments = 1, .overlap = 1, .merge = 0.5f, .inner = sgd, .outer = sgd, .pushes = rest},
	    {.steps = 4, .shortened = 1, .fragments = 1, .merge = 1, .inner = sgd, .outer = sgd, .pushes = every},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct scenario s = cases[i];
		s.device = device;
		follows_the_definition(&s);
	}
}

static void fragments(bool device)
{
	static const struct {
		uint32_t steps, shortened, fragments;
		const char *pushes;
	} all[] = {
	    {4, 0, 2, "0102010203"}, {4, 0, 3, "1204120417"}, {7, 0, 3, "010200401027"}, {3, 0, 3, "124127"},
	    {4, 2, 3, "34347"},      {4, 1, 3, "7777"},       {4, 3, 2, "1021023"},
	};
	for (uint32_t i = 0; i < sizeof all / sizeof *all; i++)
		for (uint32_t kind = i; kind < i + rounds(device ? 1 : 4); kind++)
			follows_the_definition(&(struct scenario){.steps = all[i].steps,
			                                          .shortened = all[i].shortened,
			                                          .fragments = all[i].fragments,
			                                          .overlap = kind & 1,
			                                          .merge = kind & 2 ? 0.5f : 1,
			                                          .inner = i % 2 ? WEIR_OPT_SGD : WEIR_OPT_MOMENTUM,
			                                          .outer = WEIR_OPT_NESTEROV,
			                                          .late = i % 3 == 0,
			                                          .device = device,
			                                          .pushes = all[i].pushes});
}

static void one_fragment(void **state)
{
	(void)state;
	whole_tables(false);
}

static void fragments_in_turn(void **state)
{
	(void)state;
	fragments(false);
}

#if defined(WEIR_CUDA_HOST)
static void one_fragment_on_a_device(void **state)
{
	(void)state;
	whole_tables(true);
}

static void fragments_in_turn_on_a_device(void **state)
{
	(void)state;
	fragments(true);
}
#endif

static void more_fragments_than_chunks_are_refused(void **state)
{
	(void)state;
	weir_error err = {0};
	const weir_optimizer inner = {.kind = WEIR_OPT_SGD, .lr = 1};
	struct backend *b = worker_backend(false);
	struct local_sgd *l = NULL;
	for (uint32_t fragments = 0; fragments <= CHUNKS + 1; fragments += CHUNKS + 1) {
		const struct local_sgd_options o = {.elements = ELEMENTS, .inner = &inner, .fragments = fragments, .merge = 1};
		assert_int_equal(local_sgd_create(&l, b, &o, &err), WEIR_E_INVALID);
		assert_null(l);
		CHECK_CONTAINS(err.text, "3 chunks");
	}
	b->ops->destroy(b);
}

#if defined(WEIR_CUDA_HOST)
static void a_device_without_room_is_told(void **state)
{
	(void)state;
	weir_error err = {0};
	const weir_optimizer inner = {.kind = WEIR_OPT_ADAM, .lr = 1, .eps = 1};
	const struct local_sgd_options o = {.elements = (uint64_t)1 << 24, .inner = &inner, .fragments = 1, .merge = 1};
	struct local_sgd *l = NULL;
	cuda_host.memory_bytes = (size_t)128 << 20;
	struct backend *b = worker_backend(true);
	assert_int_equal(local_sgd_create(&l, b, &o, &err), WEIR_E_MEMORY);
	assert_null(l);
	CHECK_CONTAINS(err.text, "out of memory");
	CHECK_CONTAINS(err.text, "of a budget of");
	b->ops->destroy(b);
	cuda_host_reset();
	assert_int_equal(cuda_host_allocated(), 0);
}
#endif

/* --- A worker that is declared dead in mid-round and gets the unit again */

static void taken_for_dead(const struct scenario *s, uint32_t at)
{
	struct cluster c;
	struct worker w;
	struct reference r;
	weir_unit u = {0}, again = {0};
	weir_error err = {0};
	cluster_start(&c, &(struct cluster_options){0});
	worker_open(&w, &c, s, "worker", 1, WEIR_ASYNC);
	reference_open(&r);
	worker_pull(&w);
	memcpy(r.server, w.pulled, ELEMENTS * sizeof *r.server);
	worker_lease(&w, &u);
	worker_follow(&w, &r, &u, 0, at);
	cluster_displace(w.client);
	assert_int_equal(weir_unit_commit(w.client, &u, &err), WEIR_E_STALE);
	local_sgd_forget(w.local, w.client);
	memset(r.inner, 0, ELEMENTS * sizeof *r.inner);
	memset(r.pushed, 0, sizeof r.pushed);
	CHECK_OK(weir_rejoin(w.client, &err), err);
	worker_lease(&w, &again);
	assert_int_equal(again.unit, u.unit);
	assert_int_equal(again.attempt, u.attempt + 1);
	assert_true(again.watermark <= at);
	assert_int_equal(again.watermark % (s->fragments > 1 ? scenario_batches(s) : s->steps), 0);
	worker_follow(&w, &r, &again, again.watermark, scenario_batches(s));
	CHECK_OK(weir_unit_commit(w.client, &again, &err), err);
	worker_expect_rows(&w, 1);
	expect_audit(&c);
	worker_close(&w);
	cluster_stop(&c);
	reference_close(&r);
}

static void a_worker_taken_for_dead_in_mid_round(void **state)
{
	(void)state;
	const struct scenario whole = {
	    .steps = 4, .fragments = 1, .merge = 1, .inner = WEIR_OPT_MOMENTUM, .outer = WEIR_OPT_NESTEROV, .pushes = "0001000101"};
	struct scenario parts = whole;
	parts.fragments = 2;
	parts.overlap = 1;
	parts.pushes = "0102010203";
	for (uint32_t at = 1; at < 10; at += 2) {
		taken_for_dead(&whole, at);
		taken_for_dead(&parts, at);
	}
}

#if defined(WEIR_CUDA_HOST)
static void a_worker_on_a_device_taken_for_dead(void **state)
{
	(void)state;
	taken_for_dead(&(struct scenario){.steps = 4,
	                                  .fragments = 2,
	                                  .overlap = 1,
	                                  .merge = 1,
	                                  .inner = WEIR_OPT_MOMENTUM,
	                                  .outer = WEIR_OPT_NESTEROV,
	                                  .device = true,
	                                  .pushes = "0102010203"},
	               5);
}
#endif

/* --- Two workers with synchronous rounds */

enum { SYNC_UNITS = 12, ROUNDS_MAX = 64 };

struct member {
	struct worker worker;
	pthread_t thread;
	uint32_t rounds;
	uint64_t step[ROUNDS_MAX];   /* steps closed before the round */
	uint64_t values[ROUNDS_MAX]; /* a hash of its initial bits */
};

static uint64_t closed_steps(const struct worker *w)
{
	weir_table_clock clocks[PARTITIONS];
	weir_error err = {0};
	uint64_t most = 0;
	assert_int_equal(weir_partitions(w->client), PARTITIONS);
	CHECK_OK(weir_clocks(w->client, w->dense, clocks, &err), err);
	for (uint32_t p = 0; p < PARTITIONS; p++)
		most = clocks[p].steps > most ? clocks[p].steps : most;
	return most;
}

static uint64_t hash_of(const float *x)
{
	uint64_t hash = 1;
	for (uint64_t i = 0; i < ELEMENTS; i++) {
		uint32_t bits;
		memcpy(&bits, &x[i], sizeof bits);
		hash = prng_mix(hash, bits, i);
	}
	return hash;
}

/* No later step can close before or while the worker is in the step: the clock identifies the
 * pulled state. */
static void run_sync_unit(struct member *m, const weir_unit *u)
{
	struct worker *w = &m->worker;
	for (uint32_t batch = 0; batch < scenario_batches(w->scenario); batch++) {
		worker_begin(w, u, batch);
		if (batch % w->scenario->steps == 0) {
			assert_true(m->rounds < ROUNDS_MAX);
			m->step[m->rounds] = closed_steps(w);
			m->values[m->rounds++] = hash_of(worker_own(w));
		}
		local_gradient(worker_own(w), u->unit, batch, w->grad);
		worker_step(w, u, batch);
	}
}

static void *train_in_steps(void *arg)
{
	struct member *m = arg;
	weir_error err = {0};
	for (;;) {
		weir_unit u = {0};
		CHECK_OK(weir_unit_lease(m->worker.client, &u, -1, &err), err);
		if (u.state == WEIR_UNIT_FINISHED)
			return NULL;
		CHECK_OK(weir_unit_begin(m->worker.client, &u, scenario_batches(m->worker.scenario), &err), err);
		run_sync_unit(m, &u);
		CHECK_OK(weir_unit_commit(m->worker.client, &u, &err), err);
	}
}

static void workers_in_one_step_begin_with_equal_values(void **state)
{
	(void)state;
	static const struct scenario s = {
	    .steps = 4, .fragments = 1, .merge = 1, .inner = WEIR_OPT_MOMENTUM, .outer = WEIR_OPT_NESTEROV, .pushes = "0001000101"};
	struct cluster c;
	static struct member m[2];
	uint32_t together = 0;
	cluster_start(&c, &(struct cluster_options){0});
	memset(m, 0, sizeof m);
	worker_open(&m[0].worker, &c, &s, "worker-0", SYNC_UNITS, WEIR_SYNC);
	worker_open(&m[1].worker, &c, &s, "worker-1", SYNC_UNITS, WEIR_SYNC);
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&m[i].thread, NULL, train_in_steps, &m[i]), 0);
	for (int i = 0; i < 2; i++)
		pthread_join(m[i].thread, NULL);
	assert_int_equal(m[0].rounds + m[1].rounds, 3 * SYNC_UNITS);
	for (uint32_t i = 0; i < m[0].rounds; i++)
		for (uint32_t j = 0; j < m[1].rounds; j++)
			if (m[0].step[i] == m[1].step[j]) {
				together++;
				if (m[0].values[i] != m[1].values[j])
					fail_msg("after step %llu: round %u and round %u begin with different values",
					         (unsigned long long)m[0].step[i], i, j);
			}
	print_message("%u rounds, %u of them of both workers in one step\n", m[0].rounds + m[1].rounds, 2 * together);
	assert_true(together > 0);
	worker_expect_rows(&m[0].worker, SYNC_UNITS);
	expect_audit(&c);
	for (int i = 0; i < 2; i++)
		worker_close(&m[i].worker);
	cluster_stop(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_fragment),
		cmocka_unit_test(fragments_in_turn),
#if defined(WEIR_CUDA_HOST)
		cmocka_unit_test(one_fragment_on_a_device),
		cmocka_unit_test(fragments_in_turn_on_a_device),
		cmocka_unit_test(a_device_without_room_is_told),
		cmocka_unit_test(a_worker_on_a_device_taken_for_dead),
#endif
		cmocka_unit_test(more_fragments_than_chunks_are_refused),
		cmocka_unit_test(a_worker_taken_for_dead_in_mid_round),
		cmocka_unit_test(workers_in_one_step_begin_with_equal_values),
	};
	return cmocka_run_group_tests_name("train_local", tests, NULL, NULL);
}
