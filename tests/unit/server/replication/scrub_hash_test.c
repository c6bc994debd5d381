/* The hashes of a scrub. Partitions with equal logs have equal hashes, wherever their rows are: in
 * memory, in RocksDB or in between, after a restart, and while records arrive. A wrong bit changes
 * the hash. */
#include <stdlib.h>
#include <string.h>

#include "server/partition/partition_state.h"
#include "server/replication/scrub_reader.h"
#include "tests/cmocka_check.h"
#include "tests/manual_clock.h"
#include "tests/unit/server/node.h"
#include "tests/unit/server/random_records.h"

enum {
	KEYS = 400,
	MANY_KEYS = 40000,
	MANY_ROWS = RANDOM_ROWS_MAX,
	ROUNDS = 12,
	STEPS = 25,
	SLICES = 4,
	POOL_BYTES = (4 << 20) + (256 << 10)
};

struct world {
	struct prng random;
	struct manual_clock clock;
	int64_t now_ns;
	struct task_queue *loop;
	struct node a, b; /* a: little memory; b: everything in memory */
	struct scrub_reader *reader;
};

/* --- Load on both partitions */

static void on_reply(void *arg, const struct partition_reply *reply)
{
	(void)reply;
	*(bool *)arg = true;
}

static void submit_to(struct world *w, struct partition *p, const struct built *b)
{
	bool replied = false;
	partition_submit(p, &b->record, &b->body, b->frame, on_reply, &replied);
	while (!replied) {
		if (w->a.journal)
			journal_sync(w->a.journal); /* a reply may wait until its entry is durable */
		(void)task_queue_run(w->loop, true);
	}
}

static void submit(struct world *w, struct built b)
{
	submit_to(w, w->a.p, &b);
	submit_to(w, w->b.p, &b);
	records_free(&b);
	assert_int_equal(partition_applied(w->a.p), partition_applied(w->b.p));
}

static struct record next_push(struct world *w, uint64_t step)
{
	return push_record(random_below(&w->random, 6), 1, random_below(&w->random, 40), random_below(&w->random, 60), step);
}

static void push_rows(struct world *w, uint16_t table, uint32_t rows_max, uint32_t keys_end)
{
	const struct record r = next_push(w, table == SYNC_ROWS ? 1 : 0);
	submit(w, random_rows(&w->random, &r, table, rows_max, keys_end));
}

static void push_chunk(struct world *w, uint64_t chunk)
{
	const struct record r = next_push(w, 0);
	submit(w, node_wide_push(&r, chunk));
}

static void step(struct world *w)
{
	w->now_ns += 300000000;
	switch (random_below(&w->random, 8)) {
	case 0:
		submit(w, random_eviction(&w->random, COUNTED_ROWS, KEYS));
		break;
	case 1:
		submit(w,
		       records_build(&(struct record){.kind = RECORD_SEAL, .pass = 1, .unit = random_below(&w->random, 6), .attempt = 1},
		                     NULL, 0));
		break;
	case 2:
		(void)partition_flush(w->a.p, NULL, NULL);
		journal_sync(w->a.journal);
		(void)task_queue_run(w->loop, false);
		break;
	case 3:
	case 4:
		push_rows(w, COUNTED_ROWS, 24, KEYS);
		break;
	case 5:
		push_rows(w, SYNC_ROWS, 24, KEYS);
		break;
	default:
		push_rows(w, ASYNC_ROWS, MANY_ROWS, MANY_KEYS); /* more than memory holds */
	}
}

static void steps(struct world *w, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		step(w);
}

/* --- Hashes */

struct hashing {
	struct world *world;
	struct scrub_read read;
	bool ended;
};

static void on_ready(void *arg)
{
	struct hashing *h = arg;
	scrub_reader_ready(h->world->reader, &h->read);
}

static void on_ended(void *arg)
{
	((struct hashing *)arg)->ended = true;
}

static void begin_hash(struct world *w, struct hashing *h, struct node *n, struct row_slice slice)
{
	weir_error err = {0};
	*h = (struct hashing){.world = w};
	const struct store_stream_options o = {.store = partition_store(n->p),
	                                       .cold = n->cold,
	                                       .slice = slice,
	                                       .yields = true,
	                                       .clock = &w->clock.base,
	                                       .owner = task_queue_executor(w->loop),
	                                       .ready = on_ready,
	                                       .ended = on_ended,
	                                       .arg = h};
	CHECK_OK(store_stream_begin(&h->read.stream, &o, &err), err);
	assert_int_equal(scrub_reader_submit(w->reader, &h->read), WEIR_OK);
}

static uint64_t await_hash(struct world *w, struct hashing *h)
{
	while (!h->ended)
		(void)task_queue_run(w->loop, true);
	assert_int_equal(h->read.status, WEIR_OK);
	return h->read.rows;
}

static uint64_t hash_of(struct world *w, struct node *n, struct row_slice slice)
{
	struct hashing h;
	begin_hash(w, &h, n, slice);
	return await_hash(w, &h);
}

static void assert_equal_state(const struct world *w)
{
	struct message *a = partition_state_export(w->a.p), *b = partition_state_export(w->b.p);
	assert_int_equal(a->bytes, b->bytes);
	assert_memory_equal(a->spans[0].data, b->spans[0].data, a->bytes);
	message_release(a);
	message_release(b);
}

/* --- Start and stop */

static struct world *open_world(uint64_t seed)
{
	struct world *w = calloc(1, sizeof *w);
	w->clock = manual_clock_ns(&w->now_ns);
	w->now_ns = 1000000000;
	prng_seed(&w->random, seed);
	w->loop = task_queue_create();
	w->reader = scrub_reader_create();
	node_init(&w->a, w->loop, &w->clock.base, &(struct node_options){.pool_bytes = POOL_BYTES});
	node_init(&w->b, w->loop, &w->clock.base, &(struct node_options){.pool_bytes = 0});
	node_start(&w->a);
	node_start(&w->b);
	for (uint64_t chunk = 0; chunk < WIDE_CHUNKS; chunk++) /* they fill most of the memory */
		push_chunk(w, chunk);
	return w;
}

static void close_world(struct world *w)
{
	node_stop(&w->a, CRASH_PROCESS, 1);
	node_stop(&w->b, CRASH_PROCESS, 1);
	node_free(&w->a);
	node_free(&w->b);
	scrub_reader_destroy(w->reader);
	task_queue_destroy(w->loop);
	free(w);
}

/* Restarts a, which recovers from disk. */
static void restart(struct world *w)
{
	node_stop(&w->a, CRASH_PROCESS, 1);
	node_start(&w->a);
	assert_int_equal(partition_applied(w->a.p), partition_applied(w->b.p));
}

/* --- Tests */

static uint64_t dropped(const struct world *w)
{
	struct store_counters c;
	store_get_counters(partition_store(w->a.p), &c);
	return c.dropped;
}

static void equal_logs_give_equal_hashes(void **state)
{
	(void)state;
	uint64_t left = 0;
	for (uint64_t seed = 1; seed <= 2; seed++) {
		struct world *w = open_world(seed);
		for (uint32_t round = 0; round < ROUNDS; round++) {
			struct hashing a, b;
			steps(w, STEPS);
			left += dropped(w);
			if (round % 4 == 3)
				restart(w);
			const struct row_slice slice = {.number = round % SLICES, .of = round % 2 ? SLICES : 1};
			assert_equal_state(w);
			begin_hash(w, &a, &w->a, slice);
			begin_hash(w, &b, &w->b, slice);
			steps(w, random_below(&w->random, STEPS));
			if (await_hash(w, &a) != await_hash(w, &b))
				fail_msg("seed %u, round %u: the hashes differ", (unsigned)seed, round);
		}
		close_world(w);
	}
	assert_true(left > 0); /* rows were in RocksDB */
}

static void slices_have_all_rows_between_them(void **state)
{
	(void)state;
	struct world *w = open_world(5);
	uint64_t sum = 0;
	steps(w, 100);
	for (uint32_t i = 0; i < SLICES; i++)
		sum += hash_of(w, &w->a, (struct row_slice){.number = i, .of = SLICES});
	assert_true(sum == hash_of(w, &w->b, (struct row_slice){0}));
	close_world(w);
}

static void a_wrong_bit_changes_the_hash_of_its_slice(void **state)
{
	(void)state;
	struct world *w = open_world(6);
	const uint64_t key = 7;
	uint32_t changed = 0;
	float *row;
	struct row_meta *meta;
	submit(w, records_build(&(struct record){.kind = RECORD_ASSIGN},
	                        &(struct rows){.table = ASYNC_ROWS,
	                                       .width = ROW_WIDTH,
	                                       .count = 1,
	                                       .keys = &key,
	                                       .values = (const float[ROW_WIDTH]){1, 2, 3, 4},
	                                       .values_count = ROW_WIDTH},
	                        1));
	assert_int_equal(store_upsert(store_table(partition_store(w->b.p), ASYNC_ROWS), &key, 1, &row, &meta), WEIR_OK);
	((uint8_t *)row)[1] ^= 1;
	for (uint32_t i = 0; i < SLICES; i++) {
		const struct row_slice slice = {.number = i, .of = SLICES};
		const bool differs = hash_of(w, &w->a, slice) != hash_of(w, &w->b, slice);
		assert_int_equal(differs, row_slice_has(&slice, ASYNC_ROWS, key));
		changed += differs;
	}
	assert_int_equal(changed, 1);
	close_world(w);
}

static void no_emit(void *arg, struct row_batch batch)
{
	(void)arg;
	row_batch_destroy(&batch);
}

static void it_makes_room_for_other_copies(void **state)
{
	(void)state;
	struct world *w = open_world(8);
	struct hashing h;
	struct store_snapshot *others[STORE_SNAPSHOTS_MAX];
	struct cold_snapshot *cold[STORE_SNAPSHOTS_MAX];
	const struct store_snapshot_options o = {.emit = no_emit};
	weir_error err = {0};
	begin_hash(w, &h, &w->b, (struct row_slice){0});
	for (uint32_t i = 0; i < STORE_SNAPSHOTS_MAX; i++)
		CHECK_OK(store_snapshot_begin(&others[i], partition_store(w->b.p), &o, &cold[i], &err), err);
	while (!h.ended)
		(void)task_queue_run(w->loop, true);
	assert_int_equal(h.read.status, WEIR_E_CANCELLED);
	const struct store_stream_options stream = {
	    .store = partition_store(w->b.p), .yields = true, .clock = &w->clock.base, .owner = task_queue_executor(w->loop)};
	assert_int_equal(store_stream_begin(&h.read.stream, &stream, &err), WEIR_E_BUSY);
	for (uint32_t i = 0; i < STORE_SNAPSHOTS_MAX; i++)
		store_snapshot_cancel(others[i]);
	assert_true(hash_of(w, &w->b, (struct row_slice){0}) == hash_of(w, &w->a, (struct row_slice){0}));
	close_world(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(equal_logs_give_equal_hashes),
	    cmocka_unit_test(slices_have_all_rows_between_them),
	    cmocka_unit_test(a_wrong_bit_changes_the_hash_of_its_slice),
	    cmocka_unit_test(it_makes_room_for_other_copies),
	};
	return cmocka_run_group_tests_name("scrub_hash", tests, NULL, NULL);
}
