/* Rounds of local steps, on the CPU and on a device, against a plain loop: after every batch the
 * worker's and the servers' values follow the definition. Each case lists the pushes of its
 * fragments. */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/prng.h"
#include "kernels/backend.h"
#include "tests/cmocka_check.h"
#include "tests/rounds.h"
#include "tests/unit/worker/client/cluster.h" /* over memory, not train/cluster.h */
#include "worker/train/loop/local_sgd.h"

#if defined(WEIR_CUDA_HOST)
#include "tests/cuda_host/cuda_host.h"
#endif

enum { ELEMENTS = 2 * WEIR_CHUNK + 19000, CHUNKS = 3, FRAGMENTS_MAX = 3, BATCHES_MAX = 16, PARTITIONS = 8, ROW_WIDTH = 4 };
#define INNER_RATE     0.25f
#define INNER_MOMENTUM 0.5f
#define OUTER_RATE     0.7f
#define OUTER_MOMENTUM 0.9f
#define OUTER_BETA1    0.9f
#define OUTER_BETA2    0.95f
#define OUTER_EPS      1e-8f
#define OUTER_DECAY    0.01f
#define MERGED_ERROR   1e-6f /* of a merge; the definition computes it in another form */
#define ADAMW_ERROR    1e-5f /* of its correction and later steps */

struct scenario {
	/* shortened: 0, or the steps of the lease instead of the table's */
	uint32_t steps, shortened, fragments, overlap;
	float merge;
	weir_optimizer_kind inner, outer;
	bool late;          /* acknowledgements are polled only when needed */
	bool device;        /* emulated */
	const char *pushes; /* by batch of a unit: a bit for each pushed fragment */
};

static uint32_t batches_of(const struct scenario *s)
{
	return (uint32_t)strlen(s->pushes);
}
static uint32_t mask_of(const struct scenario *s, uint32_t batch)
{
	return (uint32_t)(s->pushes[batch] - '0');
}

/* --- The definition */

struct reference {
	/* (ELEMENTS); the last three are velocities or moments */
	float *own, *global, *server, *inner, *outer, *squares;
	uint32_t outer_steps[FRAGMENTS_MAX];
	bool pushed[FRAGMENTS_MAX]; /* and not merged yet */
	uint32_t pushed_by[FRAGMENTS_MAX];
	bool applied[BATCHES_MAX]; /* an earlier attempt's pushes count; repeated ones do not */
};

static float *numbers(void)
{
	float *x = calloc(ELEMENTS, sizeof *x);
	assert_non_null(x);
	return x;
}

static void reference_open(struct reference *r)
{
	*r = (struct reference){
	    .own = numbers(), .global = numbers(), .server = numbers(), .inner = numbers(), .outer = numbers(), .squares = numbers()};
}

static void reference_close(struct reference *r)
{
	free(r->own);
	free(r->global);
	free(r->server);
	free(r->inner);
	free(r->outer);
	free(r->squares);
}

/* Three chunks in one, two or three fragments. */
static uint64_t fragment_begin(uint32_t fragments, uint32_t f)
{
	static const uint64_t chunk[FRAGMENTS_MAX][FRAGMENTS_MAX + 1] = {{0, 3}, {0, 1, 3}, {0, 1, 2, 3}};
	const uint64_t at = chunk[fragments - 1][f] * WEIR_CHUNK;
	return at < ELEMENTS ? at : ELEMENTS;
}

/* A pushed fragment is merged before the next push, also in shortened rounds. */
static uint32_t overlap_of(const struct scenario *s)
{
	const uint32_t apart = (s->shortened ? s->shortened : s->steps) / s->fragments;
	return s->overlap < apart ? s->overlap : apart ? apart - 1 : 0;
}

static void reference_begin(struct reference *r, const struct scenario *s, uint32_t batch, bool first)
{
	for (uint32_t f = 0; f < s->fragments; f++) {
		const uint64_t begin = fragment_begin(s->fragments, f), end = fragment_begin(s->fragments, f + 1);
		if (!first && !(r->pushed[f] && (batch > r->pushed_by[f] + overlap_of(s) || mask_of(s, batch) >> f & 1)))
			continue;
		const float merge = first ? 1 : s->merge;
		for (uint64_t i = begin; i < end; i++) {
			r->global[i] = r->server[i];
			r->own[i] = merge == 1.0f ? r->server[i] : merge * r->server[i] + (1 - merge) * r->own[i];
		}
		r->pushed[f] = false;
	}
}

/* The t-th push. */
static void adamw_step(struct reference *r, uint32_t t, uint64_t i, double delta)
{
	const double m = OUTER_BETA1 * (double)r->outer[i] + (1 - (double)OUTER_BETA1) * delta;
	const double v = OUTER_BETA2 * (double)r->squares[i] + (1 - (double)OUTER_BETA2) * delta * delta;
	const double unbiased_m = m / (1 - pow(OUTER_BETA1, t)), unbiased_v = v / (1 - pow(OUTER_BETA2, t));
	const double x = r->server[i];
	r->outer[i] = (float)m;
	r->squares[i] = (float)v;
	r->server[i] = (float)(x - OUTER_RATE * (unbiased_m / (sqrt(unbiased_v) + OUTER_EPS) + OUTER_DECAY * x));
}

static void outer_step(struct reference *r, const struct scenario *s, uint32_t t, uint64_t i)
{
	const float delta = r->global[i] - r->own[i];
	if (s->outer == WEIR_OPT_ADAMW) {
		adamw_step(r, t, i, delta);
		return;
	}
	if (s->outer == WEIR_OPT_SGD) {
		r->server[i] -= OUTER_RATE * delta;
		return;
	}
	r->outer[i] = OUTER_MOMENTUM * r->outer[i] + delta;
	r->server[i] -= OUTER_RATE * (delta + OUTER_MOMENTUM * r->outer[i]);
}

static void reference_step(struct reference *r, const struct scenario *s, uint32_t batch, const float *grad)
{
	for (uint64_t i = 0; i < ELEMENTS; i++) {
		r->inner[i] = s->inner == WEIR_OPT_SGD ? grad[i] : INNER_MOMENTUM * r->inner[i] + grad[i];
		r->own[i] -= INNER_RATE * r->inner[i];
	}
	for (uint32_t f = 0; f < s->fragments; f++) {
		if (!(mask_of(s, batch) >> f & 1))
			continue;
		r->outer_steps[f] += !r->applied[batch];
		for (uint64_t i = fragment_begin(s->fragments, f); i < fragment_begin(s->fragments, f + 1) && !r->applied[batch]; i++)
			outer_step(r, s, r->outer_steps[f], i);
		r->pushed[f] = true;
		r->pushed_by[f] = batch;
	}
	r->applied[batch] = true;
}

/* Towards a target per element, with noise by batch. */
static void gradient(const float *own, uint64_t seed, uint32_t batch, float *out)
{
	for (uint64_t i = 0; i < ELEMENTS; i++) {
		const float target = (float)(int64_t)(i % 977) / 977.0f - 0.5f;
		const float noise = (float)(prng_mix(seed, batch, i) >> 40) * 0x1p-24f - 0.5f;
		out[i] = own[i] - target + 0.125f * noise;
	}
}

static void expect_close(const char *what, uint32_t batch, const float *got, const float *want, float error)
{
	for (uint64_t i = 0; i < ELEMENTS; i++)
		if (!(fabsf(got[i] - want[i]) <= error))
			fail_msg("batch %u: %s[%llu] is %.9g, expected %.9g", batch, what, (unsigned long long)i, (double)got[i],
			         (double)want[i]);
}

/* --- A worker */

struct worker {
	const struct scenario *scenario;
	weir_client *client;
	struct backend *backend;
	struct local_sgd *local;
	uint32_t dense, rows;
	uint64_t sequence; /* acknowledged pushes */
	float *grad, *own, *pulled;
	float *grad_there; /* backend memory */
};

static struct backend *open_backend(bool device)
{
	weir_error err = {0};
	struct backend *b = NULL;
#if defined(WEIR_CUDA_HOST)
	if (device)
		b = weir_backend_cuda_create(&(struct backend_options){.device = "cuda"}, &err);
#endif
	if (!device)
		b = backend_cpu_create(1, &err);
	if (b == NULL)
		fail_msg("%s", err.text);
	return b;
}

/* The worker's values. */
static const float *own_of(struct worker *w)
{
	w->backend->ops->to_host(w->backend, w->own, local_sgd_parameters(w->local), ELEMENTS * sizeof *w->own);
	return w->own;
}

static void register_tables(struct worker *w, weir_mode mode)
{
	const weir_init_segment uniform = {.elements = ELEMENTS, .kind = WEIR_INIT_UNIFORM, .a = 1};
	const weir_table_spec spec = {
	    .name = "dense",
	    .kind = WEIR_DENSE,
	    .elements = ELEMENTS,
	    .optimizer = {.kind = w->scenario->outer,
	                  .lr = OUTER_RATE,
	                  .momentum = OUTER_MOMENTUM,
	                  .beta1 = OUTER_BETA1,
	                  .beta2 = OUTER_BETA2,
	                  .eps = OUTER_EPS,
	                  .weight_decay = w->scenario->outer == WEIR_OPT_ADAMW ? OUTER_DECAY : 0},
	    .mode = mode,
	    .segments_count = 1,
	    .segments = &uniform,
	};
	weir_error err = {0};
	CHECK_OK(weir_table_register(w->client, &spec, &w->dense, &err), err);
	w->rows = cluster_table(w->client, "rows", WEIR_EMBEDDING, ROW_WIDTH, (weir_mode){WEIR_ASYNC});
}

static void worker_open(struct worker *w, struct cluster *c, const struct scenario *s, const char *name, uint32_t units,
                        weir_mode_kind kind)
{
	weir_error err = {0};
	const weir_optimizer inner = {.kind = s->inner, .lr = INNER_RATE, .momentum = INNER_MOMENTUM};
	*w = (struct worker){.scenario = s,
	                     .client = cluster_trainer(c, name, units),
	                     .grad = numbers(),
	                     .own = numbers(),
	                     .pulled = numbers(),
	                     .backend = open_backend(s->device)};
	w->grad_there = w->backend->ops->buffer_alloc(w->backend, ELEMENTS * sizeof *w->grad_there);
	assert_non_null(w->grad_there);
	register_tables(w, (weir_mode){.kind = kind, .local_steps = s->steps, .fragments = s->fragments});
	const struct local_sgd_options options = {
	    .elements = ELEMENTS, .inner = &inner, .fragments = s->fragments, .overlap = s->overlap, .merge = s->merge};
	CHECK_OK(local_sgd_create(&w->local, w->backend, &options, &err), err);
}

static void worker_close(struct worker *w)
{
	weir_error err = {0};
	CHECK_OK(weir_close(w->client, &err), err);
	local_sgd_destroy(w->local);
	w->backend->ops->buffer_free(w->backend, w->grad_there);
	CHECK_OK(w->backend->ops->sync(w->backend, &err), err);
	w->backend->ops->destroy(w->backend);
	free(w->grad);
	free(w->own);
	free(w->pulled);
}

static void worker_lease(struct worker *w, weir_unit *u)
{
	weir_error err = {0};
	CHECK_OK(weir_unit_lease(w->client, u, -1, &err), err);
	assert_int_equal(u->state, WEIR_UNIT_LEASED);
	assert_int_equal(u->local_steps, w->scenario->steps);
	if (w->scenario->shortened)
		u->local_steps = w->scenario->shortened;
	CHECK_OK(weir_unit_begin(w->client, u, batches_of(w->scenario), &err), err);
}

static struct local_sgd_batch batch_at(const struct worker *w, const weir_unit *u, uint32_t batch)
{
	return (struct local_sgd_batch){.client = w->client,
	                                .table = w->dense,
	                                .unit = u,
	                                .batch = batch,
	                                .batches = batches_of(w->scenario),
	                                .sequence = w->sequence + 1};
}

static void worker_begin(struct worker *w, const weir_unit *u, uint32_t batch)
{
	weir_error err = {0};
	const struct local_sgd_batch b = batch_at(w, u, batch);
	const uint64_t waits_for = local_sgd_waits_for(w->local, &b);
	assert_true(waits_for <= w->sequence);
	CHECK_OK(local_sgd_acknowledged(w->local, &b, w->scenario->late ? waits_for : w->sequence, &err), err);
	CHECK_OK(local_sgd_begin(w->local, &b, &err), err);
}

/* Expects exactly the chunks of the batch's fragments. */
static void expect_chunks(const struct worker *w, uint32_t batch, const uint64_t *chunks, size_t count)
{
	size_t expected = 0;
	for (uint32_t f = 0; f < w->scenario->fragments; f++) {
		if (!(mask_of(w->scenario, batch) >> f & 1))
			continue;
		for (uint64_t at = fragment_begin(w->scenario->fragments, f); at < fragment_begin(w->scenario->fragments, f + 1);
		     at += WEIR_CHUNK, expected++) {
			assert_true(expected < count);
			assert_int_equal(chunks[expected], at / WEIR_CHUNK);
		}
	}
	assert_int_equal(count, expected);
}

/* A step with w->grad. The push also adds 1 to the batch's row. */
static void worker_step(struct worker *w, const weir_unit *u, uint32_t batch)
{
	weir_error err = {0};
	const uint64_t key = (uint64_t)u->unit * BATCHES_MAX + batch, *chunks;
	const float one[ROW_WIDTH] = {-1, -1, -1, -1};
	const struct local_sgd_batch b = batch_at(w, u, batch);
	const weir_batch id = {.pass = u->pass, .unit = u->unit, .attempt = u->attempt, .batch = batch};
	size_t count;
	weir_ticket ticket;
	w->backend->ops->to_device(w->backend, w->grad_there, w->grad, ELEMENTS * sizeof *w->grad);
	local_sgd_step(w->local, &b, 0, w->grad_there, &chunks, &count);
	w->backend->ops->to_host(w->backend, w->grad, w->grad_there, ELEMENTS * sizeof *w->grad);
	expect_chunks(w, batch, chunks, count);
	const weir_push_item items[] = {{.table = w->rows, .keys = &key, .rows = 1, .values = one},
	                                {.table = w->dense, .keys = chunks, .rows = count, .values = w->grad}};
	CHECK_OK(weir_push(w->client, &id, items, count ? 2 : 1, NULL, NULL, NULL, &ticket, &err), err);
	CHECK_OK(weir_wait(w->client, ticket, -1, &err), err);
	w->sequence++;
}

static void pull_server(struct worker *w)
{
	weir_error err = {0};
	const weir_pull_item item = {.table = w->dense, .values = w->pulled};
	weir_ticket ticket;
	CHECK_OK(weir_pull(w->client, NULL, &item, 1, NULL, NULL, &ticket, &err), err);
	CHECK_OK(weir_wait(w->client, ticket, -1, &err), err);
}

static void run_both(struct worker *w, struct reference *r, const weir_unit *u, uint32_t from, uint32_t to)
{
	const float error = w->scenario->outer == WEIR_OPT_ADAMW ? ADAMW_ERROR : w->scenario->merge == 1.0f ? 0 : MERGED_ERROR;
	float *grad = numbers();
	for (uint32_t batch = from; batch < to; batch++) {
		worker_begin(w, u, batch);
		reference_begin(r, w->scenario, batch, batch == from);
		expect_close("own, before it", batch, own_of(w), r->own, error);
		gradient(w->own, u->unit, batch, w->grad);
		gradient(r->own, u->unit, batch, grad);
		worker_step(w, u, batch);
		reference_step(r, w->scenario, batch, grad);
		expect_close("own", batch, own_of(w), r->own, error);
		pull_server(w);
		expect_close("server", batch, w->pulled, r->server, error);
	}
	free(grad);
}

/* Every batch added 1 to its row, once. */
static void expect_rows(struct worker *w, uint32_t units)
{
	weir_error err = {0};
	for (uint64_t unit = 0; unit < units; unit++)
		for (uint64_t batch = 0; batch < batches_of(w->scenario); batch++) {
			const uint64_t key = unit * BATCHES_MAX + batch;
			float row[ROW_WIDTH];
			weir_ticket ticket;
			const weir_pull_item item = {.table = w->rows, .keys = &key, .rows = 1, .values = row};
			CHECK_OK(weir_pull(w->client, NULL, &item, 1, NULL, NULL, &ticket, &err), err);
			CHECK_OK(weir_wait(w->client, ticket, -1, &err), err);
			for (uint32_t i = 0; i < ROW_WIDTH; i++)
				assert_float_equal(row[i], 1, 0);
		}
}

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
	pull_server(&w);
	memcpy(r.server, w.pulled, ELEMENTS * sizeof *r.server);
	for (uint32_t i = 0; i < UNITS; i++) {
		weir_unit u = {0};
		worker_lease(&w, &u);
		assert_int_equal(u.watermark, 0);
		memset(r.applied, 0, sizeof r.applied);
		run_both(&w, &r, &u, 0, batches_of(s));
		CHECK_OK(weir_unit_commit(w.client, &u, &err), err);
	}
	expect_rows(&w, UNITS);
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
	struct backend *b = open_backend(false);
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
	struct backend *b = open_backend(true);
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
	pull_server(&w);
	memcpy(r.server, w.pulled, ELEMENTS * sizeof *r.server);
	worker_lease(&w, &u);
	run_both(&w, &r, &u, 0, at);
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
	assert_int_equal(again.watermark % (s->fragments > 1 ? batches_of(s) : s->steps), 0);
	run_both(&w, &r, &again, again.watermark, batches_of(s));
	CHECK_OK(weir_unit_commit(w.client, &again, &err), err);
	expect_rows(&w, 1);
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
	for (uint32_t batch = 0; batch < batches_of(w->scenario); batch++) {
		worker_begin(w, u, batch);
		if (batch % w->scenario->steps == 0) {
			assert_true(m->rounds < ROUNDS_MAX);
			m->step[m->rounds] = closed_steps(w);
			m->values[m->rounds++] = hash_of(own_of(w));
		}
		gradient(own_of(w), u->unit, batch, w->grad);
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
		CHECK_OK(weir_unit_begin(m->worker.client, &u, batches_of(m->worker.scenario), &err), err);
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
	expect_rows(&m[0].worker, SYNC_UNITS);
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
