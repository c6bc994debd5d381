/* A push that leaves chunk by chunk is the push of its batch, applied once: beside whole pushes,
 * after a worker that died in the middle, with a server that restarts, and with a NaN at the end. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cmocka_check.h"
#include "tests/folder.h"
#include "tests/unit/worker/client/cluster.h"
#include "worker/client/push_stream.h"

enum { CHUNKS = 12, ELEMENTS = (CHUNKS - 1) * WEIR_CHUNK + 100, WIDTH = 4, KEYS = 40, BATCHES = 4, PATIENCE_MS = 60000 };

struct worker {
	weir_client *client;
	weir_unit unit;
	uint32_t dense, rows;
	weir_push_item items[2]; /* the rows, then the dense table */
	uint64_t keys[KEYS];
	float *gradient, *values, row_gradients[KEYS * WIDTH];
};

static const weir_mode mode = {.kind = WEIR_SYNC};

/* Batch b adds -(b + 1) to each element: SGD at rate 1 of gradients b + 1. */
static void set_gradients(struct worker *w, uint32_t batch)
{
	for (uint64_t i = 0; i < ELEMENTS; i++)
		w->gradient[i] = (float)(batch + 1);
	for (uint32_t i = 0; i < KEYS * WIDTH; i++)
		w->row_gradients[i] = (float)(batch + 1);
}

static void lease(struct worker *w)
{
	weir_error err = {0};
	CHECK_OK(weir_unit_lease(w->client, &w->unit, PATIENCE_MS, &err), err);
	CHECK_OK(weir_unit_begin(w->client, &w->unit, BATCHES, &err), err);
}

static void worker_open(struct worker *w, struct cluster *c, const char *name)
{
	w->client = cluster_trainer(c, name, 1);
	w->dense = cluster_table(w->client, "dense", WEIR_DENSE, ELEMENTS, mode);
	w->rows = cluster_table(w->client, "rows", WEIR_EMBEDDING, WIDTH, mode);
	w->gradient = malloc(ELEMENTS * sizeof *w->gradient);
	w->values = malloc(ELEMENTS * sizeof *w->values);
	for (uint64_t i = 0; i < KEYS; i++)
		w->keys[i] = i;
	w->items[0] = (weir_push_item){.table = w->rows, .keys = w->keys, .rows = KEYS, .values = w->row_gradients};
	w->items[1] = (weir_push_item){.table = w->dense, .values = w->gradient};
	lease(w);
}

static void worker_free(struct worker *w)
{
	free(w->gradient);
	free(w->values);
}

static weir_batch batch_of(const struct worker *w, uint32_t batch)
{
	return (weir_batch){.pass = w->unit.pass, .unit = w->unit.unit, .attempt = w->unit.attempt, .batch = batch};
}

static void pull(struct worker *w, const weir_batch *id)
{
	const weir_pull_item item = {.table = w->dense, .values = w->values};
	weir_ticket ticket;
	weir_error err = {0};
	CHECK_OK(weir_pull(w->client, id, &item, 1, NULL, NULL, &ticket, &err), err);
	CHECK_OK(weir_wait(w->client, ticket, PATIENCE_MS, &err), err);
}

/* Begins the push of the batch, and gives it the chunks from the last one down to `last`. */
static struct push_stream *begin(struct worker *w, uint32_t batch, uint64_t last, weir_ticket *ticket)
{
	struct push_stream *s = NULL;
	weir_error err = {0};
	const weir_batch id = batch_of(w, batch);
	pull(w, &id);
	set_gradients(w, batch);
	CHECK_OK(push_stream_open(&s, w->client, w->items, 2, 1, &(weir_push_options){.weight = 1}, &err), err);
	CHECK_OK(push_stream_begin(s, &id, ticket, &err), err);
	for (uint64_t chunk = CHUNKS; chunk-- > last;)
		CHECK_OK(push_stream_chunks(s, &chunk, 1, &err), err);
	return s;
}

static void push_by_layers(struct worker *w, uint32_t batch, uint64_t last)
{
	weir_ticket ticket;
	weir_error err = {0};
	CHECK_OK(push_stream_close(begin(w, batch, last, &ticket), &err), err);
	CHECK_OK(weir_wait(w->client, ticket, PATIENCE_MS, &err), err);
}

static void push_whole(struct worker *w, uint32_t batch)
{
	weir_ticket ticket;
	weir_error err = {0};
	const weir_batch id = batch_of(w, batch);
	pull(w, &id);
	set_gradients(w, batch);
	CHECK_OK(weir_push(w->client, &id, w->items, 2, NULL, NULL, NULL, &ticket, &err), err);
	CHECK_OK(weir_wait(w->client, ticket, PATIENCE_MS, &err), err);
}

/* Commits the unit, and expects that the batches have added this to each element, and that the
 * books agree. */
static void expect(struct worker *w, struct cluster *c, float sum)
{
	weir_error err = {0};
	CHECK_OK(weir_unit_commit(w->client, &w->unit, &err), err);
	pull(w, NULL);
	for (uint64_t i = 0; i < ELEMENTS; i++)
		assert_float_equal(w->values[i], -sum, 0);
	struct audit a;
	do
		a = cluster_audit(c);
	while (a.applied < a.expected);
	assert_int_equal(a.applied, a.expected);
	assert_true(a.applied_fingerprint == a.expected_fingerprint);
	assert_int_equal(a.twice + a.dropped, 0);
	CHECK_OK(weir_close(w->client, &err), err);
	worker_free(w);
}

static void streams_and_whole_pushes_are_the_same(void **state)
{
	(void)state;
	struct cluster c;
	struct worker w = {0};
	cluster_start(&c, &(struct cluster_options){0});
	worker_open(&w, &c, "worker");
	push_by_layers(&w, 0, 0);
	push_whole(&w, 1);
	push_by_layers(&w, 2, CHUNKS); /* all chunks come with the close */
	push_by_layers(&w, 3, CHUNKS / 2);
	expect(&w, &c, 1 + 2 + 3 + 4);
	cluster_stop(&c);
}

/* The first worker's parts are applied, and the second sends the others. */
static void a_worker_that_dies_in_the_middle_is_replaced_exactly(void **state)
{
	(void)state;
	struct cluster c;
	struct worker a = {0}, b = {0};
	weir_ticket ticket;
	cluster_start(&c, &(struct cluster_options){.lease_ms = 3000});
	worker_open(&a, &c, "mortal");
	push_by_layers(&a, 0, 0);
	push_stream_abort(begin(&a, 1, CHUNKS / 2, &ticket));
	weir_abandon(a.client);
	worker_free(&a);
	worker_open(&b, &c, "survivor");
	assert_int_equal(b.unit.attempt, 2);
	for (uint32_t batch = b.unit.watermark; batch < BATCHES; batch++)
		if (batch % 2)
			push_whole(&b, batch);
		else
			push_by_layers(&b, batch, 3);
	expect(&b, &c, 1 + 2 + 3 + 4);
	cluster_stop(&c);
}

static void a_server_restarts_in_the_middle(void **state)
{
	(void)state;
	struct cluster c;
	struct worker w = {0};
	weir_ticket ticket;
	weir_error err = {0};
	char folder[64];
	strcpy(folder, "/tmp/weir-test-XXXXXX");
	assert_non_null(mkdtemp(folder));
	cluster_start(&c, &(struct cluster_options){.folder = folder});
	worker_open(&w, &c, "worker");
	push_by_layers(&w, 0, 0);
	struct push_stream *s = begin(&w, 1, CHUNKS / 2, &ticket);
	cluster_restart(&c, 1);
	CHECK_OK(push_stream_close(s, &err), err);
	CHECK_OK(weir_wait(w.client, ticket, PATIENCE_MS, &err), err);
	push_by_layers(&w, 2, 0);
	push_by_layers(&w, 3, 0);
	expect(&w, &c, 1 + 2 + 3 + 4);
	cluster_stop(&c);
	folder_remove(folder);
}

/* Parts have left when the NaN shows: they count as parts, and nothing of the batch takes effect. */
static void a_late_nan_leaves_the_batch_out(void **state)
{
	(void)state;
	struct cluster c;
	struct worker w = {0};
	weir_ticket ticket;
	weir_error err = {0};
	const uint64_t last = 0;
	cluster_start(&c, &(struct cluster_options){0});
	worker_open(&w, &c, "worker");
	push_by_layers(&w, 0, 0);
	struct push_stream *s = begin(&w, 1, 2, &ticket);
	w.gradient[7] = NAN;
	assert_int_equal(push_stream_chunks(s, &last, 1, &err), WEIR_E_NOT_FINITE);
	assert_int_equal(push_stream_close(s, &err), WEIR_E_NOT_FINITE);
	assert_int_equal(weir_wait(w.client, ticket, PATIENCE_MS, &err), WEIR_E_NOT_FINITE);
	s = begin(&w, 2, 0, &ticket);
	w.row_gradients[3] = INFINITY;
	assert_int_equal(push_stream_close(s, &err), WEIR_E_NOT_FINITE);
	assert_int_equal(weir_wait(w.client, ticket, PATIENCE_MS, &err), WEIR_E_NOT_FINITE);
	push_by_layers(&w, 3, 0);
	expect(&w, &c, 1 + 4);
	cluster_stop(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(streams_and_whole_pushes_are_the_same),
	    cmocka_unit_test(a_worker_that_dies_in_the_middle_is_replaced_exactly),
	    cmocka_unit_test(a_server_restarts_in_the_middle),
	    cmocka_unit_test(a_late_nan_leaves_the_batch_out),
	};
	return cmocka_run_group_tests_name("push_stream", tests, NULL, NULL);
}
