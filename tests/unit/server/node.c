#include "node.h"

#include <stdlib.h>
#include <string.h>

#include "cmocka_check.h"
#include "cold.h"
#include "partition_state.h"
#include "snapshot_receive.h"

void node_init(struct node *n, struct task_queue *loop, const struct clock *clock, uint32_t pool_bytes)
{
	*n = (struct node){.loop = loop, .clock = clock, .pool_bytes = pool_bytes};
	if (!pool_bytes)
		return;
	n->disk = faulty_disk_create();
	folder_create(n->folder);
}

void node_free(struct node *n)
{
	if (!n->pool_bytes)
		return;
	faulty_disk_destroy(n->disk);
	folder_remove(n->folder);
}

static void on_failed(void *arg, const weir_error *err)
{
	(void)arg, (void)err; /* a crash under way */
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
	fixture_add_tables(&f, WEIR_OPT_ADAGRAD);
	assert_int_equal(partition_add_table(p, COUNTED_ROWS, &counted, NULL), WEIR_OK);
	assert_int_equal(partition_add_table(p, WIDE_DENSE, &wide, NULL), WEIR_OK);
}

struct partition *node_partition(struct node *n, bool tables)
{
	const struct store_options store = {.pool = &n->pool,
	                                    .cold = n->cold,
	                                    .writer = n->writer,
	                                    .fetch = n->fetch,
	                                    .sweep = n->sweep,
	                                    .poster = task_queue_poster(n->loop)};
	const struct partition_options o = {.partitions = 1,
	                                    .generation = RECORDS_GENERATION,
	                                    .store = n->pool_bytes ? &store : NULL,
	                                    .clock = n->clock,
	                                    .failed = on_failed};
	struct partition *p = partition_create(&o, NULL);
	assert_non_null(p);
	if (tables)
		node_add_tables(p);
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
	const struct poster poster = task_queue_poster(n->loop);
	(void)channel, (void)durable;
	poster_post(&poster, durable_now, n);
}

static weir_status each(void *ctx, uint16_t channel, const struct log_entry *e, weir_error *err)
{
	(void)channel;
	return partition_replay(((struct node *)ctx)->p, e, err);
}

static weir_status each_cut(void *ctx, uint16_t channel, const struct journal_cut *cut, weir_error *err)
{
	(void)channel;
	return partition_replay_cut(((struct node *)ctx)->p, cut, err);
}

static void open_storage(struct node *n)
{
	weir_error err = {0};
	struct journal_options j = {
	    .disk = faulty_disk_interface(n->disk), .directory = "journal", .holder = "test", .failed = on_failed, .ctx = n};
	CHECK_OK(journal_open(&n->journal, &j, &err), err);
	CHECK_OK(cold_open(&n->cold, &(struct cold_options){.path = n->folder}, &err), err);
	n->writer = cold_writer_create(&(struct cold_writer_options){.cold = n->cold}, &err);
	n->fetch = cold_fetch_create(n->cold, 1, &err);
	n->sweep = cold_sweep_create(n->cold, &err);
	n->pool = (struct pool){.limit = n->pool_bytes};
}

static void load_rows(struct node *n, uint32_t table)
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

/* The partition is a new one. */
static void begin_anew(struct node *n)
{
	weir_error err = {0};
	CHECK_OK(n->log->ops->restart(n->log, 1, &err), err);
	CHECK_OK(journal_wait(n->journal, &err), err);
	CHECK_OK(cold_remove_partition(n->cold, 0, &err), err);
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
	if (header && !n->was_unfinished)
		CHECK_OK(partition_state_import(n->p, header, bytes, &err), err);
	free(header);
	for (uint32_t id = ASYNC_ROWS; id < NODE_TABLES_END && !n->was_unfinished; id++)
		load_rows(n, id);
	struct journal_channel c = {
	    .first = partition_state_needs(n->p), .flushed = partition_flushed(n->p), .is_void = n->was_unfinished};
	n->log = log_disk_create(n->journal, 0, c.first);
	partition_set_log(n->p, n->log);
	CHECK_OK(journal_replay(n->journal, &c, 1, &(struct journal_reader){.entry = each, .cut = each_cut, .ctx = n}, &err), err);
	if (n->was_unfinished)
		begin_anew(n);
	else
		assert_true(partition_applied(n->p) == c.last || c.restarted);
	journal_watch(n->journal, 0, on_durable, n);
}

void node_start(struct node *n)
{
	if (n->pool_bytes)
		open_storage(n);
	n->p = node_partition(n, true);
	if (n->pool_bytes) {
		recover(n);
	} else {
		n->log = log_memory_create();
		partition_set_log(n->p, n->log);
	}
	partition_recovered(n->p);
}

void node_stop(struct node *n, enum faulty_crash how, uint64_t seed)
{
	if (n->pool_bytes)
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
	if (n->pool_bytes)
		(void)journal_close(n->journal, NULL); /* it cannot: the disk is gone */
	n->journal = NULL;
	while (task_queue_run(n->loop, false) > 0)
		;
	if (n->p)
		partition_destroy(n->p);
	else if (n->log)
		n->log->ops->destroy(n->log);
	cold_close(n->cold); /* loses what was not flushed */
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
		partition_destroy(n->p); /* nothing of it is under way */
		n->p = NULL;
	} else if (n->log) {
		n->log->ops->destroy(n->log);
	}
	n->log = n->pool_bytes ? log_disk_create(n->journal, 0, 1) : log_memory_create();
	assert_non_null(n->log);
	return node_partition(n, false);
}

void node_adopt(struct node *n, struct partition *p)
{
	n->p = p;
}
