/* The row files that a server writes for a checkpoint, whole and as a delta. Equal rows give equal
 * bytes, in every release. */
#include <stdio.h>
#include <string.h>

#include "common/base/hash.h"
#include "server/checkpoint/checkpoint_take.h"
#include "tests/cmocka_check.h"
#include "tests/folder.h"
#include "tests/unit/server/service/service_fixture.h"

static int64_t frozen_ns(const struct clock *c)
{
	(void)c;
	return 1700000000000000000;
}
static const struct clock_ops frozen_ops = {.monotonic_ns = frozen_ns, .wall_ns = frozen_ns};
static const struct clock frozen = {.ops = &frozen_ops};

struct world {
	char folder[FOLDER_BYTES];
	struct cluster k;
	struct client c;
	uint64_t pushes;
};

static void open_world(struct world *w)
{
	*w = (struct world){.k = {.rpc = rpc_memory_create(NULL), .count = 1}};
	folder_create(w->folder);
	struct checkpoint_options checkpoint = {.place = w->folder, .job = "take"};
	struct server_options o = {.clock = &frozen,
	                           .name = "server-0",
	                           .listen = cluster_address(0),
	                           .generation = RECORDS_GENERATION,
	                           .process_id = 1,
	                           .servers = 1,
	                           .partitions = CLUSTER_PARTITIONS,
	                           .executors = 2,
	                           .checkpoint = &checkpoint};
	memcpy(o.uuid, records_uuid, 16);
	o.rpc = w->k.rpc;
	weir_error err = {0};
	CHECK_OK(server_create(&w->k.servers[0], &o, &err), err);
	client_open(&w->c, w->k.rpc, cluster_address(0), RPC_PUSH_STREAM);
	cluster_register(&w->c);
}

static void close_world(struct world *w)
{
	client_close(&w->c);
	cluster_close(&w->k);
	folder_remove(w->folder);
}

/* Pushes the next batch: rows of one partition, some of them old, and at times a dense chunk. */
static void push(struct world *w)
{
	enum { ROWS = 40 };
	uint64_t keys[ROWS];
	float values[ROWS * CLUSTER_WIDTH];
	const uint64_t n = w->pushes++;
	const uint32_t p = (uint32_t)(n % CLUSTER_PARTITIONS);
	struct record r = {.kind = RECORD_PUSH,
	                   .partition = (uint16_t)p,
	                   .request_id = n,
	                   .pass = 1,
	                   .unit = (uint32_t)(n / 1000),
	                   .attempt = 1,
	                   .batch = (uint32_t)(n % 1000)};
	for (uint32_t i = 0; i < ROWS; i++)
		keys[i] = cluster_key(CLUSTER_ASYNC, p, (uint32_t)(n / CLUSTER_PARTITIONS * 30 + i));
	for (uint32_t i = 0; i < ROWS * CLUSTER_WIDTH; i++)
		values[i] = (float)(n + i) / 8;
	struct rows rows = {.table = CLUSTER_ASYNC,
	                    .width = CLUSTER_WIDTH,
	                    .count = ROWS,
	                    .keys = keys,
	                    .values = values,
	                    .values_count = ROWS * CLUSTER_WIDTH};
	struct record_writer *writer = record_writer_create();
	records_add(writer, &r, &rows, 1);
	client_send(&w->c, records_finish(writer));
	record_writer_destroy(writer);
	client_wait(&w->c, (uint32_t)w->pushes);
}

static void begin_take(struct world *w, const char *name, const char *previous)
{
	Weir__V1__JobId job = cluster_job(RECORDS_GENERATION);
	Weir__V1__CheckpointBeginRequest q = WEIR__V1__CHECKPOINT_BEGIN_REQUEST__INIT;
	q.job = &job;
	q.name = (char *)(uintptr_t)name;
	q.previous = (char *)(uintptr_t)previous;
	ProtobufCMessage *m;
	weir_error err = {0};
	CHECK_OK(client_call(&w->c, RPC_CHECKPOINT_BEGIN, &q.base, &weir__v1__checkpoint_begin_reply__descriptor, &m, &err), err);
	assert_int_equal(((const Weir__V1__CheckpointBeginReply *)m)->status->code, WEIR_OK);
	wire_destroy(m);
}

/* Polls until the checkpoint is done. Returns the last reply. */
static ProtobufCMessage *end_take(struct world *w, const char *name)
{
	Weir__V1__JobId job = cluster_job(RECORDS_GENERATION);
	Weir__V1__CheckpointPollRequest q = WEIR__V1__CHECKPOINT_POLL_REQUEST__INIT;
	q.job = &job;
	q.name = (char *)(uintptr_t)name;
	for (;;) {
		ProtobufCMessage *m;
		weir_error err = {0};
		CHECK_OK(client_call(&w->c, RPC_CHECKPOINT_POLL, &q.base, &weir__v1__checkpoint_poll_reply__descriptor, &m, &err), err);
		const Weir__V1__CheckpointPollReply *reply = (const Weir__V1__CheckpointPollReply *)m;
		assert_int_equal(reply->status->code, WEIR_OK);
		if (reply->done)
			return m;
		wire_destroy(m);
	}
}

/* Returns the hash over the hashes of each partition's newest row file. Counts the files and the
 * newest files' rows. */
static uint64_t take(struct world *w, const char *name, const char *previous, size_t *files, uint64_t *rows)
{
	begin_take(w, name, previous);
	ProtobufCMessage *m = end_take(w, name);
	const Weir__V1__CheckpointPollReply *reply = (const Weir__V1__CheckpointPollReply *)m;
	uint64_t hash = 0;
	*files = *rows = 0;
	for (size_t i = 0; i < reply->n_parts; i++) {
		const Weir__V1__CheckpointPart *part = reply->parts[i];
		assert_true(part->n_rows > 0);
		const Weir__V1__CheckpointFile *f = part->rows[part->n_rows - 1];
		*files += part->n_rows;
		*rows += f->rows;
		hash = hash_bytes(f->xxh3_128.data, f->xxh3_128.len, hash);
	}
	wire_destroy(m);
	return hash;
}

static void row_files_have_the_bytes_they_always_had(void **state)
{
	(void)state;
	struct world w;
	size_t files;
	uint64_t rows;
	open_world(&w);
	while (w.pushes < 200)
		push(&w);
	assert_int_equal(take(&w, "c1", "", &files, &rows), 0x991c37fb9d7f1425);
	assert_int_equal(files, CLUSTER_PARTITIONS);
	assert_int_equal(rows, 10 * (19 * 30 + 40));
	while (w.pushes < 230)
		push(&w);
	assert_int_equal(take(&w, "c2", "c1", &files, &rows), 0xb30e265f7d8308a4);
	assert_int_equal(files, 2 * CLUSTER_PARTITIONS);
	assert_int_equal(rows, 10 * (2 * 30 + 40));
	close_world(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(row_files_have_the_bytes_they_always_had),
	};
	return cmocka_run_group_tests_name("checkpoint_take", tests, NULL, NULL);
}
