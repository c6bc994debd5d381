/* weir bench log: writes entries into the journal and the same entries into RocksDB (a column
 * family, its WAL, group commit) from the same number of threads, compared with plain writes to a
 * file. It measures a log that survives the process (page cache) and a log that survives the
 * machine (each thread waits until its entry is durable). It runs in the current folder, to measure
 * the disk of that folder.
 *
 * RocksDB gets favourable settings: entries in one piece, pipelined writes, no compression, and
 * FIFO compaction, so that it never rewrites anything. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <rocksdb/c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/bench/bench.h"
#include "common/system/disk.h"
#include "server/log/journal.h"

enum {
	LOG_SIZES = 3,
	LOG_THREADS = 4,
	LOG_THREADS_MAX = 64,
	LOG_ROUNDS = 5,
	LOG_BYTES_MAX = 256 << 20, /* bytes of one measurement */
	LOG_QUICK_BYTES_MAX = 8 << 20,
	LOG_MEMTABLE_BYTES = 64 << 20,
	LOG_DIR_BYTES = 64
};
static const size_t sizes[LOG_SIZES] = {1 << 10, 64 << 10, 1 << 20};
static const double measure_s = 0.5;

enum log_kind { KIND_RAW, KIND_ROCKSDB, KIND_JOURNAL, KINDS };

struct log_bench {
	uint32_t threads;
	size_t bytes_max;
	uint8_t *source; /* (size of the largest entry) */
};

/* One measurement: the entries, the kind of log, and the open log. */
struct log_run {
	struct log_bench *b;
	enum log_kind kind;
	size_t entry_bytes;
	bool durable;
	char dir[LOG_DIR_BYTES];
	int fd;
	struct message *message; /* entry_bytes long */
	struct journal *journal;
	rocksdb_t *db;
	rocksdb_options_t *options;
	rocksdb_column_family_handle_t *family;
	rocksdb_writeoptions_t *write_options;
	pthread_barrier_t start;
};

struct log_thread {
	struct log_run *run;
	uint16_t channel;
	pthread_t id;
	uint64_t entries;
	double started_s, ended_s;
	weir_error err;
};

static weir_status fail_errno(const char *doing, weir_error *err)
{
	return weir_fail(err, WEIR_E_IO, "cannot %s: %s", doing, strerror(errno));
}

/* --- Plain writes. One thread appends to one file. */

static weir_status raw_open(struct log_run *r, weir_error *err)
{
	char path[LOG_DIR_BYTES + 8];
	snprintf(path, sizeof path, "%s/raw", r->dir);
	r->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	return r->fd < 0 ? fail_errno("create the file for plain writes", err) : WEIR_OK;
}

static weir_status raw_append(struct log_run *r, weir_error *err)
{
	if (write(r->fd, r->b->source, r->entry_bytes) != (ssize_t)r->entry_bytes)
		return fail_errno("write", err);
	return r->durable && fdatasync(r->fd) != 0 ? fail_errno("fdatasync", err) : WEIR_OK;
}

/* --- The journal, as a partition uses it */

static weir_status nothing_to_replay(void *ctx, uint16_t channel, const struct log_entry *e, weir_error *err)
{
	(void)ctx, (void)channel, (void)e;
	return weir_fail(err, WEIR_E_STATE, "the journal of a benchmark is not empty");
}

static weir_status nothing_to_cut(void *ctx, uint16_t channel, const struct journal_cut *cut, weir_error *err)
{
	(void)cut;
	return nothing_to_replay(ctx, channel, NULL, err);
}

static weir_status open_journal(struct log_run *r, weir_error *err)
{
	struct journal_channel channels[LOG_THREADS_MAX];
	struct journal_options options = {.disk = disk_system(), .directory = r->dir, .holder = "weir bench log"};
	for (uint16_t i = 0; i < r->b->threads; i++)
		channels[i] = (struct journal_channel){.channel = i, .first = 1};
	r->message = message_copy(r->b->source, r->entry_bytes);
	weir_status status =
	    r->message ? journal_open(&r->journal, &options, err) : weir_fail(err, WEIR_E_MEMORY, "no memory for an entry");
	const struct journal_reader nothing = {.entry = nothing_to_replay, .cut = nothing_to_cut};
	return status == WEIR_OK ? journal_replay(r->journal, channels, r->b->threads, &nothing, err) : status;
}

static weir_status append_entry(struct log_run *r, struct log *log, uint64_t index, weir_error *err)
{
	struct log_entry e = {.index = index, .committed = index, .message = r->message, .body = cursor_at(r->message)};
	weir_status status = log->ops->append(log, &e, err);
	log->ops->release_below(log, index);
	return status == WEIR_OK && r->durable ? journal_wait(r->journal, err) : status;
}

/* --- RocksDB */

static weir_status rocksdb_failed(char *why, weir_error *err)
{
	weir_fail(err, WEIR_E_IO, "RocksDB: %s", why);
	rocksdb_free(why);
	return WEIR_E_IO;
}

static weir_status open_rocksdb(struct log_run *r, weir_error *err)
{
	rocksdb_fifo_compaction_options_t *fifo = rocksdb_fifo_compaction_options_create();
	char *why = NULL;
	r->options = rocksdb_options_create();
	rocksdb_fifo_compaction_options_set_max_table_files_size(fifo, UINT64_MAX);
	rocksdb_options_set_compaction_style(r->options, rocksdb_fifo_compaction);
	rocksdb_options_set_fifo_compaction_options(r->options, fifo);
	rocksdb_options_set_compression(r->options, rocksdb_no_compression);
	rocksdb_options_set_create_if_missing(r->options, 1);
	rocksdb_options_set_enable_pipelined_write(r->options, 1);
	rocksdb_options_set_write_buffer_size(r->options, LOG_MEMTABLE_BYTES);
	rocksdb_options_set_max_write_buffer_number(r->options, 4);
	rocksdb_fifo_compaction_options_destroy(fifo);
	r->write_options = rocksdb_writeoptions_create();
	rocksdb_writeoptions_set_sync(r->write_options, r->durable);
	r->db = rocksdb_open(r->options, r->dir, &why);
	if (!why)
		r->family = rocksdb_create_column_family(r->db, r->options, "log", &why);
	return why ? rocksdb_failed(why, err) : WEIR_OK;
}

static weir_status put_entry(struct log_run *r, uint16_t channel, uint64_t index, weir_error *err)
{
	uint64_t key[2] = {__builtin_bswap64(channel), __builtin_bswap64(index)};
	char *why = NULL;
	rocksdb_put_cf(r->db, r->write_options, r->family, (const char *)key, sizeof key, (const char *)r->b->source, r->entry_bytes,
	               &why);
	return why ? rocksdb_failed(why, err) : WEIR_OK;
}

/* --- A measurement */

static weir_status open_log(struct log_run *r, weir_error *err)
{
	snprintf(r->dir, sizeof r->dir, "weir-bench-XXXXXX");
	if (!mkdtemp(r->dir))
		return fail_errno("make a folder here", err);
	return r->kind == KIND_RAW ? raw_open(r, err) : r->kind == KIND_JOURNAL ? open_journal(r, err) : open_rocksdb(r, err);
}

static weir_status remove_file(void *arg, const char *name)
{
	char path[LOG_DIR_BYTES + 256];
	snprintf(path, sizeof path, "%s/%s", (const char *)arg, name);
	return disk_system()->ops->remove(disk_system(), path, NULL);
}

static weir_status close_log(struct log_run *r, weir_error *err)
{
	weir_status status = journal_close(r->journal, err);
	message_release(r->message);
	if (r->fd >= 0)
		close(r->fd);
	if (r->family)
		rocksdb_column_family_handle_destroy(r->family);
	if (r->db)
		rocksdb_close(r->db);
	if (r->options)
		rocksdb_options_destroy(r->options);
	if (r->write_options)
		rocksdb_writeoptions_destroy(r->write_options);
	(void)disk_system()->ops->list(disk_system(), r->dir, remove_file, r->dir, NULL);
	rmdir(r->dir);
	return status;
}

static weir_status append_one(struct log_thread *t, struct log *log, uint64_t index)
{
	struct log_run *r = t->run;
	switch (r->kind) {
	case KIND_RAW:
		return raw_append(r, &t->err);
	case KIND_JOURNAL:
		return append_entry(r, log, index, &t->err);
	default:
		return put_entry(r, t->channel, index, &t->err);
	}
}

static void *append_all(void *arg)
{
	struct log_thread *t = arg;
	struct log_run *r = t->run;
	uint64_t entries_max = r->b->bytes_max / r->b->threads / r->entry_bytes + 1;
	struct log *log = r->kind == KIND_JOURNAL ? log_disk_create(r->journal, t->channel, 1) : NULL;
	weir_status status = r->kind == KIND_JOURNAL && !log ? weir_fail(&t->err, WEIR_E_MEMORY, "no memory for a log") : WEIR_OK;
	pthread_barrier_wait(&r->start);
	t->started_s = bench_now_s();
	double end = t->started_s + measure_s;
	do
		status = status == WEIR_OK ? append_one(t, log, ++t->entries) : status;
	while (status == WEIR_OK && t->entries < entries_max && bench_now_s() < end);
	t->ended_s = bench_now_s();
	if (log)
		log->ops->destroy(log);
	return NULL;
}

/* Returns bytes per second over all threads. */
static double measure(struct log_run *r, uint32_t threads, weir_error *err)
{
	struct log_thread all[LOG_THREADS_MAX] = {0};
	uint64_t entries = 0;
	double start = HUGE_VAL, end = 0; /* the earliest start and the latest end */
	pthread_barrier_init(&r->start, NULL, threads + 1);
	for (uint32_t i = 0; i < threads; i++) {
		all[i].run = r;
		all[i].channel = (uint16_t)i;
		if (pthread_create(&all[i].id, NULL, append_all, &all[i]) != 0)
			abort();
	}
	pthread_barrier_wait(&r->start);
	for (uint32_t i = 0; i < threads; i++) {
		pthread_join(all[i].id, NULL);
		entries += all[i].entries;
		start = fmin(start, all[i].started_s);
		end = fmax(end, all[i].ended_s);
		if (all[i].err.status != WEIR_OK)
			*err = all[i].err;
	}
	pthread_barrier_destroy(&r->start);
	return err->status == WEIR_OK ? (double)(entries * r->entry_bytes) / (end - start) : -1;
}

static double run_log(void *arg, weir_error *err)
{
	struct log_run r = *(struct log_run *)arg;
	r.fd = -1;
	double rate = -1;
	if (open_log(&r, err) == WEIR_OK)
		rate = measure(&r, r.kind == KIND_RAW ? 1 : r.b->threads, err);
	return close_log(&r, err) == WEIR_OK ? rate : -1;
}

static const char *const size_names[LOG_SIZES] = {"1 KiB", "64 KiB", "1 MiB"};

/* Adds the three kinds of writes of entries of one size. The other two are compared with plain
 * writes. */
static void add_subjects(struct bench *bench, struct log_bench *b, struct log_run runs[KINDS], unsigned size, bool durable)
{
	static const char *const kinds[KINDS] = {"plain", "RocksDB", "journal"};
	uint32_t plain = BENCH_NO_LIMIT;
	for (unsigned k = 0; k < KINDS; k++) {
		runs[k] = (struct log_run){.b = b, .kind = (enum log_kind)k, .entry_bytes = sizes[size], .durable = durable};
		uint32_t added = bench_add(bench, "B/s", run_log, &runs[k], plain, 0, "%s, %s, %s", durable ? "durable" : "page cache",
		                           size_names[size], kinds[k]);
		if (k == KIND_RAW)
			plain = added;
	}
}

/* Compares with RocksDB after the benchmark has run: its subjects still hold their results. */
static void compare_with_rocksdb(const struct bench *bench)
{
	for (unsigned i = 0; i < 2 * LOG_SIZES; i++) {
		const struct bench_subject *of = &bench->subjects[i * KINDS];
		bench_note(bench, "%s, %s: the journal is %.2f times as fast as RocksDB", i < LOG_SIZES ? "page cache" : "durable",
		           size_names[i % LOG_SIZES], of[KIND_JOURNAL].median / of[KIND_ROCKSDB].median);
	}
}

weir_status bench_log(struct bench *bench, weir_error *err)
{
	if (bench->threads > LOG_THREADS_MAX)
		return weir_fail(err, WEIR_E_INVALID, "--threads %llu: at most %d here", (unsigned long long)bench->threads,
		                 LOG_THREADS_MAX);
	struct log_bench b = {.threads = bench->threads ? (uint32_t)bench->threads : LOG_THREADS,
	                      .bytes_max = bench->quick ? LOG_QUICK_BYTES_MAX : LOG_BYTES_MAX,
	                      .source = malloc(sizes[LOG_SIZES - 1])};
	struct log_run runs[2][LOG_SIZES][KINDS];
	if (!b.source)
		return weir_fail(err, WEIR_E_MEMORY, "no memory for an entry");
	for (size_t i = 0; i < sizes[LOG_SIZES - 1]; i++)
		b.source[i] = (uint8_t)(i * 2654435761u >> 16);
	bench_note(bench,
	           "%u threads append, in the current folder; plain: one thread writes to one file, durable: and fdatasyncs each",
	           b.threads);
	for (unsigned durable = 0; durable < 2; durable++)
		for (unsigned i = 0; i < LOG_SIZES; i++)
			add_subjects(bench, &b, runs[durable][i], i, durable);
	weir_status status = bench_run(bench, LOG_ROUNDS, err);
	if (status == WEIR_OK)
		compare_with_rocksdb(bench);
	free(b.source);
	return status;
}
