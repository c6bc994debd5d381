#include "tests/unit/worker/train/local_worker.h"

#include <stdlib.h>

#include "tests/cmocka_check.h"

#if defined(WEIR_CUDA_HOST)
#include "tests/cuda_host/cuda_host.h"
#endif

enum { ROW_WIDTH = 4 };
#define MERGED_ERROR 1e-6f /* of a merge; the definition computes it in another form */
#define ADAMW_ERROR  1e-5f /* of its correction and later steps */

struct backend *worker_backend(bool device)
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

const float *worker_own(struct worker *w)
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

void worker_open(struct worker *w, struct cluster *c, const struct scenario *s, const char *name, uint32_t units,
                 weir_mode_kind kind)
{
	weir_error err = {0};
	const weir_optimizer inner = {.kind = s->inner, .lr = INNER_RATE, .momentum = INNER_MOMENTUM};
	*w = (struct worker){.scenario = s,
	                     .client = cluster_trainer(c, name, units),
	                     .grad = local_numbers(),
	                     .own = local_numbers(),
	                     .pulled = local_numbers(),
	                     .backend = worker_backend(s->device)};
	w->grad_there = w->backend->ops->buffer_alloc(w->backend, ELEMENTS * sizeof *w->grad_there);
	assert_non_null(w->grad_there);
	register_tables(w, (weir_mode){.kind = kind, .local_steps = s->steps, .fragments = s->fragments});
	const struct local_sgd_options options = {
	    .elements = ELEMENTS, .inner = &inner, .fragments = s->fragments, .overlap = s->overlap, .merge = s->merge};
	CHECK_OK(local_sgd_create(&w->local, w->backend, &options, &err), err);
}

void worker_close(struct worker *w)
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

void worker_lease(struct worker *w, weir_unit *u)
{
	weir_error err = {0};
	CHECK_OK(weir_unit_lease(w->client, u, -1, &err), err);
	assert_int_equal(u->state, WEIR_UNIT_LEASED);
	assert_int_equal(u->local_steps, w->scenario->steps);
	if (w->scenario->shortened)
		u->local_steps = w->scenario->shortened;
	CHECK_OK(weir_unit_begin(w->client, u, scenario_batches(w->scenario), &err), err);
}

static struct local_sgd_batch batch_at(const struct worker *w, const weir_unit *u, uint32_t batch)
{
	return (struct local_sgd_batch){.client = w->client,
	                                .table = w->dense,
	                                .unit = u,
	                                .batch = batch,
	                                .batches = scenario_batches(w->scenario),
	                                .sequence = w->sequence + 1};
}

void worker_begin(struct worker *w, const weir_unit *u, uint32_t batch)
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
		if (!(scenario_mask(w->scenario, batch) >> f & 1))
			continue;
		for (uint64_t at = scenario_fragment(w->scenario->fragments, f); at < scenario_fragment(w->scenario->fragments, f + 1);
		     at += WEIR_CHUNK, expected++) {
			assert_true(expected < count);
			assert_int_equal(chunks[expected], at / WEIR_CHUNK);
		}
	}
	assert_int_equal(count, expected);
}

void worker_step(struct worker *w, const weir_unit *u, uint32_t batch)
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

void worker_pull(struct worker *w)
{
	weir_error err = {0};
	const weir_pull_item item = {.table = w->dense, .values = w->pulled};
	weir_ticket ticket;
	CHECK_OK(weir_pull(w->client, NULL, &item, 1, NULL, NULL, &ticket, &err), err);
	CHECK_OK(weir_wait(w->client, ticket, -1, &err), err);
}

void worker_follow(struct worker *w, struct reference *r, const weir_unit *u, uint32_t from, uint32_t to)
{
	const float error = w->scenario->outer == WEIR_OPT_ADAMW ? ADAMW_ERROR : w->scenario->merge == 1.0f ? 0 : MERGED_ERROR;
	float *grad = local_numbers();
	for (uint32_t batch = from; batch < to; batch++) {
		worker_begin(w, u, batch);
		reference_begin(r, w->scenario, batch, batch == from);
		local_expect_close("own, before it", batch, worker_own(w), r->own, error);
		local_gradient(w->own, u->unit, batch, w->grad);
		local_gradient(r->own, u->unit, batch, grad);
		worker_step(w, u, batch);
		reference_step(r, w->scenario, batch, grad);
		local_expect_close("own", batch, worker_own(w), r->own, error);
		worker_pull(w);
		local_expect_close("server", batch, w->pulled, r->server, error);
	}
	free(grad);
}

void worker_expect_rows(struct worker *w, uint32_t units)
{
	weir_error err = {0};
	for (uint64_t unit = 0; unit < units; unit++)
		for (uint64_t batch = 0; batch < scenario_batches(w->scenario); batch++) {
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
