#include "tests/unit/server/node.h"

#include <stdlib.h>
#include <string.h>

#include "server/partition/partition_state.h"
#include "server/snapshot/snapshot_receive.h"
#include "server/store/cold.h"
#include "tests/cmocka_check.h"

/* The faulty disk holds whole segments in memory, and every start begins one. */
enum { SEGMENT_BYTES = 4 << 20 };

void node_init(struct node *n, struct task_queue *loop, const struct clock *clock, const struct node_options *options)
{
	*n = (struct node){.loop = loop, .clock = clock, .options = *options};
	if (!options->add_tables) {
		n->options.add_tables = node_add_tables;
		n->options.tables_end = NODE_TABLES_END;
	}
	if (!options->pool_bytes)
		return;
	n->disk = faulty_disk_create();
	folder_create(n->folder);
}

void node_free(struct node *n)
{
	if (!n->options.pool_bytes)
		return;
	faulty_disk_destroy(n->disk);
	folder_remove(n->folder);
}

static void on_failed(void *arg, const weir_error *err)
{
	(void)arg, (void)err; /* a crash is in progress */
}

void node_add_tables(struct partition *p)
{
	static const weir_init_segment zero = {.elements = ROW_WIDTH, .kind = WEIR_INIT_ZERO};
	const weir_table_spec counted = {.name = "counted",
	                                 .width = ROW_WIDTH,
	                                 .optimizer = {.kind = WEIR_OPT_ADAGRAD, .lr = 1, .eps = 1e-6f},
	                                 .admission = {.kind = WEIR_ADMIT_COUNT, .count = 3},
	                                 .eviction = {.ttl_s = 6},
	                                 .segments_count = 1,
	                                 .segments = &zero};
	const weir_init_segment zeros = {.elements = WIDE_CHUNKS * WEIR_CHUNK, .kind = WEIR_INIT_ZERO};
	const weir_table_spec wide = {.name = "wide",
	                              .kind = WEIR_DENSE,
	                              .elements = zeros.elements,
	                              .optimizer = {.kind = WEIR_OPT_SGD, .lr = 1},
	                              .segments_count = 1,
	                              .segments = &zeros};
	struct fixture f = {.p = p};
	fixture_add_tables(&f, &(struct fixture_options){.optimizer = WEIR_OPT_ADAGRAD});
	assert_int_equal(partition_add_table(p, COUNTED_ROWS, &counted, NULL), WEIR_OK);
	assert_int_equal(partition_add_table(p, WIDE_DENSE, &wide, NULL), WEIR_OK);
}

struct partition *node_partition(struct node *n, bool tables)
{
	const struct store_options store = {.budget = &n->pool,
	                                    .cold = n->cold,
	                                    .writer = n->writer,
	                                    .fetch = n->fetch,
	                                    .sweep = n->sweep,
	                                    .run_on = task_queue_executor(n->loop)};
	struct partition_options o = n->options.partition;
	o.partitions = 1;
	o.generation = RECORDS_GENERATION;
	o.store = n->options.pool_bytes ? &store : NULL;
	o.clock = n->clock;
	struct partition *p = partition_create(&o, NULL);
	assert_non_null(p);
	if (tables)
		n->options.add_tables(p);
	return p;
}

struct built node_wide_push(const struct record *r, uint64_t chunk)
{
	float *values = malloc(WEIR_CHUNK * sizeof *values);
	for (uint32_t i = 0; i < WEIR_CHUNK; i++)
		values[i] = (float)((i * 7 + chunk) % 100);
	const struct rows rows = {
	    .table = WIDE_DENSE, .width = WEIR_CHUNK, .count = 1, .keys = &chunk, .values = values, .values_count = WEIR_CHUNK};
	const struct built built = records_build(r, &rows, 1);
	free(values);
	return built;
}

static void durable_now(void *arg)
{
	struct node *n = arg;
	if (n->p && n->journal)
		partition_durable(n->p);
}

static void on_durable(void *ctx, uint16_t channel, uint64_t durable)
{
	struct node *n = ctx;
	const struct callback_executor run_on = task_queue_executor(n->loop);
	(void)channel, (void)durable;
	callback_executor_post(&run_on, durable_now, n);
}

static weir_status each(void *ctx, uint16_t channel, const struct log_entry *e, weir_error *err)
{
	struct node *n = ctx;
	assert_int_equal(channel, 0);
	n->replayed++;
	return partition_replay(n->p, e, err);
}

static weir_status each_cut(void *ctx, uint16_t channel, const struct journal_cut *cut, weir_error *err)
{
	assert_int_equal(channel, 0);
	return partition_replay_cut(((struct node *)ctx)->p, cut, err);
}

static void open_storage(struct node *n)
{
	weir_error err = {0};
	struct journal_options j = {.disk = faulty_disk_interface(n->disk),
	                            .directory = "journal",
	                            .holder = "test",
	                            .segment_bytes = SEGMENT_BYTES,
	                            .failed = on_failed,
	                            .ctx = n};
	CHECK_OK(journal_open(&n->journal, &j, &err), err);
	CHECK_OK(cold_open(&n->cold, &(struct cold_options){.path = n->folder}, &err), err);
	n->writer = cold_writer_create(&(struct cold_writer_options){.cold = n->cold}, &err);
	n->fetch = cold_fetch_create(n->cold, 1, &err);
	n->sweep = cold_sweep_create(n->cold, &err);
	n->pool = (struct memory_budget){.limit = n->options.pool_bytes};
}

static void load_table(struct node *n, uint32_t table)
{
	struct cold_scan *scan;
	struct cold_row row;
	weir_error err = {0};
	CHECK_OK(cold_scan_create(&scan, n->cold, NULL, 0, table, &err), err);
	weir_status status = WEIR_OK;
	while (!status && !(status = cold_scan_next(scan, &row, &err)))
		status = store_load(partition_store(n->p), row.table, row.key, row.bytes, row.count, false, &err);
	cold_scan_destroy(scan);
	assert_true(status == WEIR_E_NOT_FOUND || status == WEIR_E_LIMIT);
}

static void load_rows(struct node *n)
{
	for (uint32_t id = ASYNC_ROWS; id < n->options.tables_end; id++)
		if (!n->options.lazy || store_table_spec(store_table(partition_store(n->p), id))->kind == WEIR_DENSE)
			load_table(n, id);
	if (n->options.lazy)
		store_expect_cold(partition_store(n->p));
}

/* Starts the log and the database anew, after an unfinished snapshot. */
static void begin_anew(struct node *n)
{
	weir_error err = {0};
	CHECK_OK(n->log->ops->restart(n->log, 1, &err), err);
	CHECK_OK(journal_wait(n->journal, &err), err);
	uint8_t anew[SNAPSHOT_ANEW_BYTES];
	snapshot_put_anew(anew, n->log->ops->restarted(n->log));
	CHECK_OK(cold_empty_partition(n->cold, 0, anew, sizeof anew, &err), err);
	CHECK_OK(cold_flush(n->cold, &err), err);
}

static void recover(struct node *n)
{
	weir_error err = {0};
	uint8_t *header = NULL;
	size_t bytes;
	const weir_status found = cold_get_header(n->cold, 0, &header, &bytes, &err);
	assert_true(found == WEIR_OK || found == WEIR_E_NOT_FOUND);
	n->was_unfinished = header && snapshot_is_unfinished(header, bytes);
	uint64_t from = 0;
	if (header && !n->was_unfinished && !snapshot_is_anew(header, bytes, &from))
		CHECK_OK(partition_state_import(n->p, header, bytes, &err), err);
	free(header);
	if (!n->was_unfinished)
		load_rows(n);
	struct journal_channel c = {
	    .first = partition_state_needs(n->p), .flushed = partition_flushed(n->p), .from = from, .is_void = n->was_unfinished};
	n->log = log_disk_create(n->journal, 0, c.first);
	partition_set_log(n->p, n->log);
	CHECK_OK(journal_replay(n->journal, &c, 1, &(struct journal_reader){.entry = each, .cut = each_cut, .ctx = n}, &err), err);
	n->last = c.last;
	if (n->was_unfinished)
		begin_anew(n);
	else if (!n->options.partition.replicated)
		assert_true(partition_applied(n->p) + n->tail == c.last || c.restarted);
	journal_watch(n->journal, 0, on_durable, n);
}

void node_start(struct node *n)
{
	n->replayed = 0;
	if (n->options.pool_bytes)
		open_storage(n);
	n->p = node_partition(n, true);
	if (n->options.pool_bytes) {
		recover(n);
	} else {
		n->log = log_memory_create();
		partition_set_log(n->p, n->log);
	}
	partition_recovered(n->p);
}

void node_stop(struct node *n, enum faulty_crash how, uint64_t seed)
{
	if (n->options.pool_bytes)
		faulty_disk_crash(n->disk, how, seed);
	if (n->p)
		partition_close(n->p);
	cold_writer_destroy(n->writer);
	cold_fetch_destroy(n->fetch);
	cold_sweep_destroy(n->sweep);
	while (task_queue_run(n->loop, false) > 0)
		;
	if (n->p)
		partition_abandon(n->p);
	if (n->options.pool_bytes)
		(void)journal_close(n->journal, NULL); /* it fails: the disk has crashed */
	n->journal = NULL;
	while (task_queue_run(n->loop, false) > 0)
		;
	if (n->p)
		partition_destroy(n->p);
	else if (n->log)
		n->log->ops->destroy(n->log);
	cold_close(n->cold); /* loses unflushed rows */
	n->p = NULL;
	n->log = NULL;
	n->cold = NULL;
	n->writer = NULL;
	n->fetch = NULL;
	n->sweep = NULL;
}

struct partition *node_make_room(struct node *n)
{
	if (n->p) {
		partition_close(n->p);
		while (task_queue_run(n->loop, false) > 0)
			;
		partition_destroy(n->p); /* no work is in progress */
		n->p = NULL;
	} else if (n->log) {
		n->log->ops->destroy(n->log);
	}
	n->log = n->options.pool_bytes ? log_disk_create(n->journal, 0, 1) : log_memory_create();
	assert_non_null(n->log);
	return node_partition(n, false);
}

void node_adopt(struct node *n, struct partition *p)
{
	n->p = p;
}

/* --- The expected partition */

static void count_reply(void *arg, const struct partition_reply *reply)
{
	(void)reply;
	++*(uint32_t *)arg;
}

struct partition *node_twin(const struct node *n, const struct kept *kept, uint64_t last, int64_t *now_ns)
{
	const int64_t now = *now_ns;
	const struct node_options o = {
	    .add_tables = n->options.add_tables, .tables_end = n->options.tables_end, .partition = {.ack = n->options.partition.ack}};
	struct node twin;
	uint32_t replies = 0, epochs = 0;
	node_init(&twin, n->loop, n->clock, &o);
	node_start(&twin);
	for (uint64_t i = 1; i <= last; i++) {
		const struct kept *k = &kept[i];
		*now_ns = k->stamp_ns;
		if (k->epoch)
			partition_begin(twin.p, k->epoch);
		else
			partition_submit(twin.p, &k->built.record, &k->built.body, k->built.frame, count_reply, &replies);
		epochs += k->epoch > 0;
		assert_int_equal(partition_applied(twin.p), i);
	}
	*now_ns = now;
	assert_int_equal(replies + epochs, last);
	return twin.p;
}

void assert_equal_row(struct partition *a, struct partition *b, uint32_t table, uint64_t key)
{
	static float rows[2][WEIR_CHUNK];
	const float *stored[2];
	struct row_state states[2];
	struct store_table *x = store_table(partition_store(a), table), *y = store_table(partition_store(b), table);
	store_copy_row(x, key, rows[0], &states[0]);
	store_copy_row(y, key, rows[1], &states[1]);
	const uint32_t slots = optimizer_slots(store_table_spec(x)->optimizer.kind);
	assert_memory_equal(rows[0], rows[1], store_row_elements(x, key) * (1 + slots) * sizeof(float));
	assert_memory_equal(&states[0], &states[1], sizeof states[0]);
	const struct row_meta *m = store_find(x, key, &stored[0]), *n = store_find(y, key, &stored[1]);
	assert_int_equal(m != NULL, n != NULL);
	if (m)
		assert_true((stored[0] != NULL) == (stored[1] != NULL) && m->version == n->version && m->count == n->count &&
		            m->last_push_s == n->last_push_s);
}

void assert_equal_messages(struct message *a, struct message *b)
{
	assert_int_equal(a->bytes, b->bytes);
	assert_memory_equal(a->spans[0].data, b->spans[0].data, a->bytes);
	message_release(a);
	message_release(b);
}
