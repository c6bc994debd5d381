/* Compressed pulls in a whole job: trainers that pull agree on numbers that converge to the
 * weights; other readers get the weights. A dead server or a pull that overtakes another changes
 * nothing. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/key_partition.h"
#include "common/base/prng.h"
#include "tests/await.h"
#include "tests/cmocka_check.h"
#include "tests/unit/worker/client/cluster_replicas.h"

enum {
	CHUNKS = 3,
	ELEMENTS = (CHUNKS - 1) * WEIR_CHUNK + 1234,
	BATCHES = 60,
	TRAINERS = 2,
	QUIET_MAX = 400,
	ROWS = 300,
	WIDTH = 33,
	AHEAD = 4
};

struct trainer {
	weir_client *client;
	uint32_t table;
	weir_unit unit;
	uint32_t batch; /* the next one */
	float *values;  /* (ELEMENTS) */
};

struct fixture {
	struct cluster cluster;
	struct trainer trainers[TRAINERS];
	float *gradient, *weights; /* (ELEMENTS) */
	struct prng random;
};

static weir_table_spec dense_table(weir_pull_coding pull)
{
	static const weir_init_segment random = {.elements = ELEMENTS, .kind = WEIR_INIT_NORMAL, .a = 0.1f};
	return (weir_table_spec){.name = "table",
	                         .kind = WEIR_DENSE,
	                         .elements = ELEMENTS,
	                         .optimizer = {.kind = WEIR_OPT_SGD, .lr = 0.01f},
	                         .pull = pull,
	                         .segments_count = 1,
	                         .segments = &random};
}

static void setup(struct fixture *f, const weir_table_spec *spec, struct cluster_options options)
{
	weir_error err = {0};
	*f = (struct fixture){.gradient = malloc(ELEMENTS * sizeof *f->gradient), .weights = malloc(ELEMENTS * sizeof *f->weights)};
	assert_true(f->gradient && f->weights);
	prng_seed(&f->random, 31);
	cluster_start(&f->cluster, &options);
	if (options.replicas > 1)
		cluster_await_in_sync(&f->cluster, options.replicas);
	for (uint32_t i = 0; i < TRAINERS; i++) {
		struct trainer *t = &f->trainers[i];
		char name[16];
		snprintf(name, sizeof name, "worker-%u", i);
		t->client = cluster_trainer(&f->cluster, name, TRAINERS);
		assert_non_null(t->values = malloc(ELEMENTS * sizeof *t->values));
		CHECK_OK(weir_table_register(t->client, spec, &t->table, &err), err);
		CHECK_OK(weir_unit_lease(t->client, &t->unit, -1, &err), err);
		CHECK_OK(weir_unit_begin(t->client, &t->unit, BATCHES, &err), err);
	}
}

static void teardown(struct fixture *f)
{
	for (uint32_t i = 0; i < TRAINERS; i++) {
		weir_abandon(f->trainers[i].client);
		free(f->trainers[i].values);
	}
	cluster_stop(&f->cluster);
	free(f->gradient);
	free(f->weights);
}

static weir_batch batch_of(const struct trainer *t)
{
	return (weir_batch){.pass = t->unit.pass, .unit = t->unit.unit, .batch = t->batch, .attempt = t->unit.attempt};
}

/* Pushes to one element in `every`. */
static void push(struct fixture *f, uint32_t trainer, uint32_t every)
{
	struct trainer *t = &f->trainers[trainer];
	for (size_t i = 0; i < ELEMENTS; i++)
		f->gradient[i] = prng_below(&f->random, every) ? 0 : prng_normal(&f->random);
	const weir_batch b = batch_of(t);
	const weir_push_item item = {.table = t->table, .values = f->gradient};
	weir_ticket ticket;
	weir_error err = {0};
	CHECK_OK(weir_push(t->client, &b, &item, 1, NULL, NULL, NULL, &ticket, &err), err);
	CHECK_OK(weir_wait(t->client, ticket, -1, &err), err);
	t->batch++;
	assert_true(t->batch < BATCHES);
}

static weir_ticket begin_pull(struct trainer *t, bool trains, const uint64_t *keys, size_t rows, float *out)
{
	const weir_batch b = batch_of(t);
	const weir_pull_item item = {.table = t->table, .keys = keys, .rows = rows, .values = out};
	weir_ticket ticket;
	weir_error err = {0};
	CHECK_OK(weir_pull(t->client, trains ? &b : NULL, &item, 1, NULL, NULL, &ticket, &err), err);
	return ticket;
}

static void end_pull(struct trainer *t, weir_ticket ticket)
{
	weir_error err = {0};
	CHECK_OK(weir_wait(t->client, ticket, -1, &err), err);
}

static uint64_t bytes_pulled(const struct trainer *t)
{
	weir_stats s = {0};
	weir_get_stats(t->client, &s);
	return s.bytes_pulled;
}

/* Pulls what a batch would be computed from; returns the received bytes. */
static uint64_t pull(struct trainer *t)
{
	const uint64_t before = bytes_pulled(t);
	end_pull(t, begin_pull(t, true, NULL, 0, t->values));
	return bytes_pulled(t) - before;
}

static void pull_weights(struct fixture *f, struct trainer *t)
{
	end_pull(t, begin_pull(t, false, NULL, 0, f->weights));
}

static double farthest(const float *a, const float *b)
{
	double most = 0;
	for (size_t i = 0; i < ELEMENTS; i++)
		most = fmax(most, fabs((double)a[i] - (double)b[i]));
	return most;
}

static void check_same(const struct fixture *f)
{
	assert_memory_equal(f->trainers[0].values, f->trainers[1].values, ELEMENTS * sizeof(float));
}

/* Pulls until no differences are left. */
static void settle(struct fixture *f, double resolution)
{
	pull_weights(f, &f->trainers[0]);
	uint32_t pulls = 0;
	for (; farthest(f->trainers[0].values, f->weights) > resolution && pulls < QUIET_MAX; pulls++)
		(void)pull(&f->trainers[0]);
	(void)pull(&f->trainers[1]);
	check_same(f);
	if (pulls == QUIET_MAX)
		fail_msg("after %u pulls what is held is still %g from the weights", pulls, farthest(f->trainers[0].values, f->weights));
}

struct expected {
	weir_pull_coding coding;
	/* of one pull behind a push: largest error, in units of the largest step; bits per element */
	double error, bits;
	double resolution;
};

static void differences_arrive(const struct expected *x)
{
	struct fixture f;
	const weir_table_spec spec = dense_table(x->coding);
	setup(&f, &spec, (struct cluster_options){0});
	struct trainer *a = &f.trainers[0], *b = &f.trainers[1];
	(void)pull(a);
	pull_weights(&f, a);
	/* the first pull is exact */
	assert_memory_equal(a->values, f.weights, ELEMENTS * sizeof(float));
	(void)pull(b);
	const uint64_t nothing = pull(b);
	assert_true(nothing < 1000 || x->coding.codec == WEIR_CODEC_FP32);
	for (uint32_t i = 0; i < 8; i++) {
		float *before = malloc(ELEMENTS * sizeof *before);
		assert_non_null(before);
		memcpy(before, f.weights, ELEMENTS * sizeof *before);
		push(&f, i % TRAINERS, i % 2 ? 1 : 50);
		pull_weights(&f, a);
		const double step = farthest(before, f.weights);
		const uint64_t bytes = pull(a);
		(void)pull(b);
		check_same(&f);
		if (!(farthest(a->values, f.weights) <= x->error * step && 8.0 * (double)bytes <= x->bits * ELEMENTS))
			fail_msg("codec %d: %g from the weights in %g bits an element, expected %g in %g", x->coding.codec,
			         farthest(a->values, f.weights) / step, 8.0 * (double)bytes / ELEMENTS, x->error, x->bits);
		free(before);
	}
	settle(&f, x->resolution);
	teardown(&f);
}

static void changes_come_in_few_bytes(void **state)
{
	(void)state;
	static const struct expected codecs[] = {
	    {{.codec = WEIR_CODEC_FP32}, 0, 32.2, 0},
	    {{.codec = WEIR_CODEC_BF16}, 0.01, 16.1, 0},
	    {{.codec = WEIR_CODEC_FP16}, 0.01, 16.1, 6e-8},
	    {{.codec = WEIR_CODEC_INT8}, 0.01, 8.2, 0},
	    {{.codec = WEIR_CODEC_FP8_E4M3}, 0.1, 8.2, 0},
	    {{.codec = WEIR_CODEC_INT4, .book = WEIR_BOOK_NF4}, 0.3, 4.4, 0},
	    {{.codec = WEIR_CODEC_INT4, .book = WEIR_BOOK_SEGMENTED}, 0.3, 4.4, 0},
	    {{.codec = WEIR_CODEC_TOPK, .values = WEIR_VALUES_BF16, .density = 0.02f}, 1, 0.6, 0},
	    {{.codec = WEIR_CODEC_TOPK, .values = WEIR_VALUES_LOG4, .density = 0.1f}, 1, 1.0, 0},
	};
	for (size_t i = 0; i < sizeof codecs / sizeof *codecs; i++)
		differences_arrive(&codecs[i]);
}

/* Each has its own memory and starts before the previous one is answered. */
static void pulls_in_flight_together_agree(void **state)
{
	(void)state;
	struct fixture f;
	const weir_table_spec spec = dense_table((weir_pull_coding){.codec = WEIR_CODEC_INT4, .book = WEIR_BOOK_NF4});
	setup(&f, &spec, (struct cluster_options){0});
	struct trainer *a = &f.trainers[0];
	float *out[AHEAD];
	for (uint32_t i = 0; i < AHEAD; i++)
		assert_non_null(out[i] = malloc(ELEMENTS * sizeof *out[i]));
	for (uint32_t round = 0; round < 6; round++) {
		weir_ticket tickets[AHEAD];
		push(&f, 1, 3);
		for (uint32_t i = 0; i < AHEAD; i++)
			tickets[i] = begin_pull(a, true, NULL, 0, out[i]);
		for (uint32_t i = 0; i < AHEAD; i++)
			end_pull(a, tickets[i]);
		(void)pull(a);
		(void)pull(&f.trainers[1]);
		check_same(&f);
	}
	settle(&f, 0);
	for (uint32_t i = 0; i < AHEAD; i++)
		free(out[i]);
	teardown(&f);
}

static void rows_of_embeddings_come_as_int8(void **state)
{
	(void)state;
	struct fixture f;
	static const weir_init_segment random = {.elements = WIDTH, .kind = WEIR_INIT_NORMAL, .a = 1};
	const weir_table_spec spec = {.name = "rows",
	                              .width = WIDTH,
	                              .optimizer = {.kind = WEIR_OPT_SGD, .lr = 1},
	                              .pull = {.codec = WEIR_CODEC_INT8},
	                              .segments_count = 1,
	                              .segments = &random};
	uint64_t keys[ROWS];
	setup(&f, &spec, (struct cluster_options){0});
	struct trainer *t = &f.trainers[0];
	for (uint64_t i = 0; i < ROWS; i++)
		keys[i] = i * i * 977 + 3;
	uint64_t at = bytes_pulled(t);
	end_pull(t, begin_pull(t, true, keys, ROWS, t->values));
	const uint64_t coded = bytes_pulled(t) - at;
	at += coded;
	end_pull(t, begin_pull(t, false, keys, ROWS, f.weights));
	assert_true(3 * coded < bytes_pulled(t) - at);
	for (size_t r = 0; r < ROWS; r++) {
		float most = 0;
		for (size_t i = r * WIDTH; i < (r + 1) * WIDTH; i++)
			most = fmaxf(most, fabsf(f.weights[i]));
		for (size_t i = r * WIDTH; i < (r + 1) * WIDTH; i++)
			if (!(fabsf(t->values[i] - f.weights[i]) <= most / 250))
				fail_msg("row %zu: %g, expected %g", r, (double)t->values[i], (double)f.weights[i]);
	}
	teardown(&f);
}

/* The table's chunks fail over to servers that have sent no base yet. */
static void a_new_server_sends_values_anew(void **state)
{
	(void)state;
	enum { SERVERS = 3, PARTITIONS = 6 };
	struct fixture f;
	const weir_table_spec spec =
	    dense_table((weir_pull_coding){.codec = WEIR_CODEC_TOPK, .values = WEIR_VALUES_BF16, .density = 0.05f});
	setup(&f, &spec, (struct cluster_options){.servers = SERVERS, .partitions = PARTITIONS, .replicas = 2});
	for (uint32_t i = 0; i < 4; i++) {
		push(&f, i % TRAINERS, 10);
		(void)pull(&f.trainers[0]);
		(void)pull(&f.trainers[1]);
		check_same(&f);
	}
	const uint16_t partition = (uint16_t)placement_dense(f.trainers[0].table, 0, PARTITIONS);
	struct cluster_replica before, after;
	const uint32_t primary = cluster_await_primary(&f.cluster, partition, &before);
	cluster_kill_server(&f.cluster, primary);
	assert_true(cluster_await_primary(&f.cluster, partition, &after) != primary);
	for (uint32_t i = 0; i < 4; i++) {
		const uint64_t bytes = pull(&f.trainers[0]);
		assert_true(i > 0 || bytes >= WEIR_CHUNK * sizeof(float)); /* one whole pull, once */
		assert_true(i == 0 || bytes < WEIR_CHUNK * sizeof(float));
		(void)pull(&f.trainers[1]);
		check_same(&f);
		push(&f, i % TRAINERS, 10);
	}
	settle(&f, 0);
	teardown(&f);
}

/* A replica that is not primary sends values, and no client takes them for a base. */
static void values_of_other_replicas_are_no_base(void **state)
{
	(void)state;
	struct fixture f;
	const weir_table_spec spec = dense_table((weir_pull_coding){.codec = WEIR_CODEC_INT8});
	setup(&f, &spec,
	      (struct cluster_options){
	          .servers = 3, .partitions = 6, .replicas = 3, .read_staleness_ms = 100000, .read_staleness_entries = 1000});
	for (uint32_t i = 0; i < 12; i++) {
		push(&f, 0, 10);
		(void)pull(&f.trainers[0]);
		pull_weights(&f, &f.trainers[0]);
		if (farthest(f.trainers[0].values, f.weights) > 1e-3)
			fail_msg("after push %u: %g from the weights", i, farthest(f.trainers[0].values, f.weights));
	}
	teardown(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(changes_come_in_few_bytes),
	    cmocka_unit_test(pulls_in_flight_together_agree),
	    cmocka_unit_test(rows_of_embeddings_come_as_int8),
	    cmocka_unit_test(a_new_server_sends_values_anew),
	    cmocka_unit_test(values_of_other_replicas_are_no_base),
	};
	return cmocka_run_group_tests_name("compressed_pull", tests, NULL, NULL);
}
