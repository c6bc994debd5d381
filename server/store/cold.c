/* RocksDB, configured as a store of small rows with random keys under a memory budget. One thread
 * writes sorted batches, and other threads read sorted batches. All hot rows are above it in
 * memory. So blocks are small and not cached, the filters and indexes of open files stay in memory
 * (evicting them would cost a read per look-up), and the file system's cache does the rest. Rows
 * are written as often as they are read: universal compaction rewrites them half as often as
 * levelled compaction, and uses up to twice the disk space. */
#include "server/store/cold.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <rocksdb/c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "common/base/limits.h"

#define KEY_BYTES    13u
#define PREFIX_BYTES "5" /* of a key: partition, kind, table */
#define KIND_ROW     0
#define KIND_HEADER  1

/* One for flushes, one for a large merge, one for small merges meanwhile. */
#define THREADS_DEFAULT    3
#define MEMTABLES          2 /* one takes writes, one is on its way to disk */
#define MEMTABLE_BYTES_MIN (1u << 20)
#define MEMTABLE_BYTES_MAX (64u << 20)
/* Share of a memtable: about 25 bits per row. An unsuccessful look-up costs a third of a read. */
#define MEMTABLE_FILTER 0.02
#define CACHE_BYTES     (1u << 20) /* nothing fills it */
#define BLOCK_BYTES     4096
#define FILTER_BITS     8.0 /* per key: 2 % of unseen keys cost a read */
#define FORMAT_VERSION  5
#define FILE_BYTES      (32u << 20)
#define RUNS            8   /* sorted runs before some are merged */
#define GARBAGE_PERCENT 100 /* limit, of the oldest run: then everything is merged */
#define READAHEAD_BYTES (1u << 20)
#define SYNC_BYTES      (1u << 20)
#define READ_KEYS       512u /* of one MultiGet */

struct cold {
	rocksdb_t *db;
	rocksdb_column_family_handle_t *family;
	rocksdb_options_t *options;
	rocksdb_cache_t *cache;
	rocksdb_readoptions_t *read;
	rocksdb_writeoptions_t *write;
	rocksdb_flushoptions_t *flush;
	char *path;
	uint64_t spare_bytes;
	uint64_t fixed;    /* bytes: memtables and cache when full */
	uint64_t unprobed; /* bytes written since probe_space; the writer's */
};
struct cold_snapshot {
	struct cold *cold;
	const rocksdb_snapshot_t *snapshot;
};
struct cold_scan {
	rocksdb_readoptions_t *read;
	rocksdb_iterator_t *it;
	uint8_t first[KEY_BYTES];
	uint8_t end[KEY_BYTES]; /* RocksDB keeps a pointer to it */
	bool begun;
};

/* --- Keys and errors */

static void put_be(uint8_t *out, uint64_t v, uint32_t bytes)
{
	for (uint32_t i = 0; i < bytes; i++)
		out[i] = (uint8_t)(v >> 8 * (bytes - 1 - i));
}
static uint64_t get_be(const uint8_t *in, uint32_t bytes)
{
	uint64_t v = 0;
	for (uint32_t i = 0; i < bytes; i++)
		v = v << 8 | in[i];
	return v;
}

static void encode_key(uint8_t out[KEY_BYTES], uint32_t partition, uint32_t kind, uint32_t table, uint64_t key)
{
	put_be(out, partition, 2);
	put_be(out + 2, kind, 1);
	put_be(out + 3, table, 2);
	put_be(out + 5, key, 8);
}

/* Frees text. A full disk is final here: check_space has checked before, so RocksDB stopped midway,
 * and only a new start can find out what the disk holds. */
static weir_status fail(weir_error *err, const char *what, char *text)
{
	weir_status status = WEIR_E_IO;
	if (strncmp(text, "Corruption", strlen("Corruption")) == 0)
		status = WEIR_E_CORRUPT;
	weir_fail(err, status, "%s: %s", what, text);
	rocksdb_free(text);
	return status;
}

/* RocksDB does not always name the file, so this adds the path. */
static weir_status fail_in(const struct cold *c, weir_error *err, const char *what, char *text)
{
	char where[WEIR_PATH_BYTES_MAX + 32];
	snprintf(where, sizeof where, "%s: %s", c->path, what);
	return fail(err, where, text);
}

/* --- Lifecycle */

static rocksdb_block_based_table_options_t *table_options(rocksdb_cache_t *cache)
{
	rocksdb_block_based_table_options_t *t = rocksdb_block_based_options_create();
	rocksdb_block_based_options_set_block_size(t, BLOCK_BYTES);
	rocksdb_block_based_options_set_block_cache(t, cache);
	rocksdb_block_based_options_set_format_version(t, FORMAT_VERSION);
	rocksdb_block_based_options_set_data_block_index_type(t,
	                                                      rocksdb_block_based_table_data_block_index_type_binary_search_and_hash);
	/* t owns the policy. */
	rocksdb_block_based_options_set_filter_policy(t, rocksdb_filterpolicy_create_bloom_full(FILTER_BITS));
	return t;
}

static size_t share(uint64_t bytes, size_t min, size_t max)
{
	return bytes < min ? min : bytes > max ? max : (size_t)bytes;
}

static size_t memtable_bytes(const struct cold_options *o)
{
	return share(o->memory_bytes / MEMTABLES, MEMTABLE_BYTES_MIN, MEMTABLE_BYTES_MAX);
}

static void compact_by_runs(rocksdb_options_t *r)
{
	rocksdb_universal_compaction_options_t *u = rocksdb_universal_compaction_options_create();
	rocksdb_universal_compaction_options_set_max_size_amplification_percent(u, GARBAGE_PERCENT);
	rocksdb_options_set_compaction_style(r, rocksdb_universal_compaction);
	rocksdb_options_set_universal_compaction_options(r, u);
	rocksdb_options_set_level0_file_num_compaction_trigger(r, RUNS);
	rocksdb_universal_compaction_options_destroy(u);
}

/* Rows of a batch come in key order. With this option RocksDB looks for the place of each row from
 * the place of the previous row, which halves the cost. The C interface offers the option only by
 * name. Takes over r. */
static rocksdb_options_t *insert_from_last(rocksdb_options_t *r)
{
	rocksdb_options_t *hinted = rocksdb_options_create();
	char *text = NULL;
	rocksdb_get_options_from_string(r, "memtable_insert_with_hint_prefix_extractor=rocksdb.FixedPrefix." PREFIX_BYTES, hinted,
	                                &text);
	if (text) { /* a RocksDB without this option */
		rocksdb_free(text);
		rocksdb_options_destroy(hinted);
		return r;
	}
	rocksdb_options_destroy(r);
	return hinted;
}

static rocksdb_options_t *database_options(const struct cold_options *o, rocksdb_cache_t *cache)
{
	rocksdb_options_t *r = rocksdb_options_create();
	rocksdb_options_set_create_if_missing(r, !o->read_only);
	rocksdb_options_set_paranoid_checks(r, 1);
	rocksdb_options_set_compression(r, rocksdb_no_compression); /* fp32 values do not compress */
	rocksdb_options_set_write_buffer_size(r, memtable_bytes(o));
	rocksdb_options_set_max_write_buffer_number(r, MEMTABLES);
	rocksdb_options_set_allow_concurrent_memtable_write(r, 0); /* one writer */
	rocksdb_options_set_memtable_prefix_bloom_size_ratio(r, MEMTABLE_FILTER);
	rocksdb_options_set_memtable_whole_key_filtering(r, 1);
	rocksdb_options_set_target_file_size_base(r, FILE_BYTES);
	compact_by_runs(r);
	rocksdb_options_set_max_background_jobs(r, o->threads ? (int)o->threads : THREADS_DEFAULT);
	rocksdb_options_compaction_readahead_size(r, READAHEAD_BYTES);
	rocksdb_options_set_bytes_per_sync(r, SYNC_BYTES);
	rocksdb_options_set_max_open_files(r, -1);
	rocksdb_options_set_info_log_level(r, 2 /* warnings */);
	rocksdb_options_set_keep_log_file_num(r, 2);
	rocksdb_options_set_stats_dump_period_sec(r, 0);
	rocksdb_options_set_stats_persist_period_sec(r, 0);
	rocksdb_block_based_table_options_t *t = table_options(cache);
	rocksdb_options_set_block_based_table_factory(r, t);
	rocksdb_block_based_options_destroy(t);
	return insert_from_last(r);
}

static weir_status open_database(struct cold *c, const struct cold_options *o, weir_error *err)
{
	const char *name = "default";
	const rocksdb_options_t *family_options = c->options;
	char *text = NULL;
	if (o->read_only)
		c->db = rocksdb_open_for_read_only_column_families(c->options, o->path, 1, &name, &family_options, &c->family, 0, &text);
	else
		c->db = rocksdb_open_column_families(c->options, o->path, 1, &name, &family_options, &c->family, &text);
	/* CURRENT has no checksum. Damage to it shows only as the name of a missing file. */
	if (text && strstr(text, "No such file") && strstr(text, "MANIFEST-")) {
		weir_fail(err, WEIR_E_CORRUPT, "%s/CURRENT names a file that is not there: %s", o->path, text);
		rocksdb_free(text);
		return WEIR_E_CORRUPT;
	}
	return text ? fail(err, o->path, text) : WEIR_OK;
}

weir_status cold_open(struct cold **out, const struct cold_options *options, weir_error *err)
{
	*out = NULL;
	struct cold *c = calloc(1, sizeof *c);
	if (!c)
		return weir_fail(err, WEIR_E_MEMORY, "%s: out of memory", options->path);
	c->spare_bytes = options->spare_bytes ? options->spare_bytes : COLD_SPARE_BYTES;
	c->path = strdup(options->path);
	c->fixed = MEMTABLES * memtable_bytes(options) + CACHE_BYTES;
	c->unprobed = c->fixed;
	c->cache = rocksdb_cache_create_lru(CACHE_BYTES);
	c->options = database_options(options, c->cache);
	c->read = rocksdb_readoptions_create();
	rocksdb_readoptions_set_verify_checksums(c->read, 1);
	rocksdb_readoptions_set_fill_cache(c->read, 0); /* a row that is read goes into memory above */
	c->write = rocksdb_writeoptions_create();
	rocksdb_writeoptions_disable_WAL(c->write, 1);
	c->flush = rocksdb_flushoptions_create();
	rocksdb_flushoptions_set_wait(c->flush, 1);
	weir_status status = open_database(c, options, err);
	if (status)
		cold_close(c);
	else
		*out = c;
	return status;
}

void cold_close(struct cold *c)
{
	if (!c)
		return;
	if (c->family)
		rocksdb_column_family_handle_destroy(c->family);
	if (c->db)
		rocksdb_close(c->db);
	rocksdb_flushoptions_destroy(c->flush);
	rocksdb_writeoptions_destroy(c->write);
	rocksdb_readoptions_destroy(c->read);
	rocksdb_options_destroy(c->options);
	rocksdb_cache_destroy(c->cache);
	free(c->path);
	free(c);
}

/* --- Writes */

static uint64_t property(struct cold *c, const char *name)
{
	uint64_t value = 0;
	return rocksdb_property_int(c->db, name, &value) == 0 ? value : 0;
}

static weir_status refuse_space(const struct cold *c, uint64_t bytes, int error, weir_error *err)
{
	const bool full = error == ENOSPC || error == EDQUOT || error == EFBIG;
	return weir_fail(err, full ? WEIR_E_NO_SPACE : WEIR_E_IO,
	                 "%s: %llu MiB cannot be reserved: %s. Check the disk, and the quota of its user", c->path,
	                 (unsigned long long)bytes >> 20, strerror(error));
}

/* Checks that the memtables can be written. A quota shows only when space is allocated, and RocksDB
 * does not survive a failed write, so this allocates the space and frees it again. File systems
 * that cannot reserve space are assumed to have enough. */
static weir_status probe_space(struct cold *c, weir_error *err)
{
	char path[WEIR_PATH_BYTES_MAX + 16];
	snprintf(path, sizeof path, "%s.probe", c->path);
	const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0)
		return refuse_space(c, c->fixed, errno, err);
	const int error = fallocate(fd, 0, 0, (off_t)c->fixed) == 0 ? 0 : errno;
	close(fd);
	unlink(path);
	if (error && error != EOPNOTSUPP && error != ENOSYS && error != EINTR)
		return refuse_space(c, c->fixed, error, err);
	c->unprobed = 0;
	return WEIR_OK;
}

/* Checks for the spare space plus the size of the live files, because a merge of everything needs
 * that much again. bytes: about to be written; RocksDB itself flushes a memtable that they fill. */
static weir_status check_space(struct cold *c, uint64_t bytes, weir_error *err)
{
	struct statvfs v;
	if (!c->path || statvfs(c->path, &v) != 0)
		return WEIR_OK; /* RocksDB will report the error */
	const uint64_t left = (uint64_t)v.f_bavail * v.f_frsize;
	const uint64_t needed = c->spare_bytes + property(c, "rocksdb.live-sst-files-size");
	c->unprobed += bytes;
	if (left >= needed)
		return c->unprobed > c->fixed / MEMTABLES / 2 ? probe_space(c, err) : WEIR_OK;
	return weir_fail(err, WEIR_E_NO_SPACE, "%s: %llu MiB left on the disk, and rows are written only while there are %llu",
	                 c->path, (unsigned long long)left >> 20, (unsigned long long)needed >> 20);
}

/* Takes over the batch. */
static weir_status write_batch(struct cold *c, rocksdb_writebatch_t *batch, const char *what, weir_error *err)
{
	size_t bytes = 0;
	(void)rocksdb_writebatch_data(batch, &bytes);
	weir_status status = check_space(c, bytes, err);
	if (status) {
		rocksdb_writebatch_destroy(batch);
		return status;
	}
	char *text = NULL;
	rocksdb_write(c->db, c->write, batch, &text);
	rocksdb_writebatch_destroy(batch);
	return text ? fail_in(c, err, what, text) : WEIR_OK;
}

weir_status cold_write(struct cold *c, struct row_batch *b, weir_error *err)
{
	row_batch_sort(b);
	rocksdb_writebatch_t *batch = rocksdb_writebatch_create();
	for (size_t i = 0; i < b->count; i++) {
		const struct row_item *item = &b->items[i];
		uint8_t key[KEY_BYTES];
		encode_key(key, b->partition, KIND_ROW, item->table, item->key);
		if (item->removed)
			rocksdb_writebatch_delete(batch, (const char *)key, sizeof key);
		else
			rocksdb_writebatch_put(batch, (const char *)key, sizeof key, (const char *)b->data + item->offset, item->bytes);
	}
	return write_batch(c, batch, "writing rows", err);
}

weir_status cold_put_header(struct cold *c, uint32_t partition, const void *data, size_t bytes, weir_error *err)
{
	uint8_t key[KEY_BYTES];
	encode_key(key, partition, KIND_HEADER, 0, 0);
	rocksdb_writebatch_t *batch = rocksdb_writebatch_create();
	if (data)
		rocksdb_writebatch_put(batch, (const char *)key, sizeof key, data, bytes);
	else
		rocksdb_writebatch_delete(batch, (const char *)key, sizeof key);
	return write_batch(c, batch, "writing a header", err);
}

/* The bounds of the range are prefixes of keys, shorter than the prefix of insert_from_last. With
 * longer bounds, RocksDB would take the range's place in its list of ranges as the insertion hint
 * for rows in their list. */
static rocksdb_writebatch_t *batch_that_removes(uint32_t partition)
{
	uint8_t first[2], end[3] = {0, 0, UINT8_MAX};
	put_be(first, partition, sizeof first);
	put_be(end, partition, sizeof first);
	rocksdb_writebatch_t *batch = rocksdb_writebatch_create();
	rocksdb_writebatch_delete_range(batch, (const char *)first, sizeof first, (const char *)end, sizeof end);
	return batch;
}

weir_status cold_remove_partition(struct cold *c, uint32_t partition, weir_error *err)
{
	return write_batch(c, batch_that_removes(partition), "removing a partition", err);
}

weir_status cold_empty_partition(struct cold *c, uint32_t partition, const void *header, size_t bytes, weir_error *err)
{
	uint8_t key[KEY_BYTES];
	rocksdb_writebatch_t *batch = batch_that_removes(partition);
	encode_key(key, partition, KIND_HEADER, 0, 0);
	if (header)
		rocksdb_writebatch_put(batch, (const char *)key, sizeof key, header, bytes);
	return write_batch(c, batch, "emptying a partition", err);
}

weir_status cold_flush(struct cold *c, weir_error *err)
{
	char *text = NULL;
	/* The disk may have filled up since the rows were written. */
	weir_status status = check_space(c, c->fixed, err);
	if (status)
		return status;
	rocksdb_flush(c->db, c->flush, &text);
	return text ? fail_in(c, err, "flushing rows", text) : WEIR_OK;
}

/* --- Reads */

weir_status cold_get_header(struct cold *c, uint32_t partition, uint8_t **out, size_t *bytes, weir_error *err)
{
	uint8_t key[KEY_BYTES];
	encode_key(key, partition, KIND_HEADER, 0, 0);
	char *text = NULL;
	rocksdb_pinnableslice_t *slice = rocksdb_get_pinned(c->db, c->read, (const char *)key, sizeof key, &text);
	if (text)
		return fail(err, "reading a header", text);
	if (!slice)
		return WEIR_E_NOT_FOUND;
	const char *data = rocksdb_pinnableslice_value(slice, bytes);
	*out = malloc(*bytes ? *bytes : 1);
	if (*out)
		memcpy(*out, data, *bytes);
	rocksdb_pinnableslice_destroy(slice);
	return *out ? WEIR_OK : weir_fail(err, WEIR_E_MEMORY, "reading a header of %zu bytes: out of memory", *bytes);
}

/* Copies the rows found and frees everything. Returns the first error. */
static weir_status take_found(rocksdb_pinnableslice_t **found, char **texts, uint32_t table, const uint64_t *keys, size_t count,
                              struct row_batch *out, weir_error *err)
{
	weir_status status = WEIR_OK;
	for (size_t i = 0; i < count; i++) {
		if (texts[i] && !status)
			status = fail(err, "reading rows", texts[i]);
		else if (texts[i])
			rocksdb_free(texts[i]);
		if (!found[i])
			continue;
		size_t bytes;
		const char *data = rocksdb_pinnableslice_value(found[i], &bytes);
		if (!status && row_batch_add_bytes(out, table, keys[i], (const uint8_t *)data, bytes))
			status = weir_fail(err, WEIR_E_MEMORY, "reading rows: out of memory");
		rocksdb_pinnableslice_destroy(found[i]);
	}
	return status;
}

weir_status cold_read(struct cold *c, uint32_t partition, uint32_t table, const uint64_t *keys, size_t count,
                      struct row_batch *out, weir_error *err)
{
	uint8_t encoded[READ_KEYS][KEY_BYTES];
	const char *list[READ_KEYS];
	size_t sizes[READ_KEYS];
	rocksdb_pinnableslice_t *found[READ_KEYS];
	char *texts[READ_KEYS];
	weir_status status = WEIR_OK;
	for (size_t at = 0, n; at < count && !status; at += n) {
		n = count - at < READ_KEYS ? count - at : READ_KEYS;
		for (size_t i = 0; i < n; i++) {
			encode_key(encoded[i], partition, KIND_ROW, table, keys[at + i]);
			list[i] = (const char *)encoded[i];
			sizes[i] = KEY_BYTES;
		}
		rocksdb_batched_multi_get_cf(c->db, c->read, c->family, n, list, sizes, found, texts, true);
		status = take_found(found, texts, table, keys + at, n, out, err);
	}
	return status;
}

/* --- Snapshots and scans */

struct cold_snapshot *cold_snapshot_create(struct cold *c)
{
	struct cold_snapshot *s = malloc(sizeof *s);
	if (s)
		*s = (struct cold_snapshot){.cold = c, .snapshot = rocksdb_create_snapshot(c->db)};
	return s;
}

void cold_snapshot_destroy(struct cold_snapshot *s)
{
	if (!s)
		return;
	rocksdb_release_snapshot(s->cold->db, s->snapshot);
	free(s);
}

weir_status cold_scan_create(struct cold_scan **out, struct cold *c, const struct cold_snapshot *snapshot, uint32_t partition,
                             uint32_t table, weir_error *err)
{
	struct cold_scan *s = *out = calloc(1, sizeof *s);
	if (!s)
		return weir_fail(err, WEIR_E_MEMORY, "reading the rows of partition %u: out of memory", partition);
	const bool all = table == COLD_TABLES_ALL;
	encode_key(s->first, partition, KIND_ROW, all ? 0 : table, 0);
	encode_key(s->end, partition, all ? KIND_HEADER : KIND_ROW, all ? 0 : table + 1, 0);
	s->read = rocksdb_readoptions_create();
	rocksdb_readoptions_set_verify_checksums(s->read, 1);
	rocksdb_readoptions_set_fill_cache(s->read, 0);
	rocksdb_readoptions_set_readahead_size(s->read, READAHEAD_BYTES);
	rocksdb_readoptions_set_iterate_upper_bound(s->read, (const char *)s->end, sizeof s->end);
	if (snapshot)
		rocksdb_readoptions_set_snapshot(s->read, snapshot->snapshot);
	s->it = rocksdb_create_iterator(c->db, s->read);
	rocksdb_iter_seek(s->it, (const char *)s->first, sizeof s->first);
	return WEIR_OK;
}

void cold_scan_seek(struct cold_scan *s, uint64_t key)
{
	put_be(s->first + KEY_BYTES - 8, key, 8);
	rocksdb_iter_seek(s->it, (const char *)s->first, sizeof s->first);
}

weir_status cold_scan_next(struct cold_scan *s, struct cold_row *out, weir_error *err)
{
	if (s->begun && rocksdb_iter_valid(s->it))
		rocksdb_iter_next(s->it);
	s->begun = true;
	if (!rocksdb_iter_valid(s->it)) {
		char *text = NULL;
		rocksdb_iter_get_error(s->it, &text);
		return text ? fail(err, "reading rows", text) : WEIR_E_NOT_FOUND;
	}
	size_t key_bytes;
	const uint8_t *key = (const uint8_t *)rocksdb_iter_key(s->it, &key_bytes);
	if (key_bytes != KEY_BYTES)
		return weir_fail(err, WEIR_E_CORRUPT, "reading rows: a key of %zu bytes, expected %u", key_bytes, KEY_BYTES);
	*out = (struct cold_row){.table = (uint32_t)get_be(key + 3, 2), .key = get_be(key + 5, 8)};
	out->bytes = (const uint8_t *)rocksdb_iter_value(s->it, &out->count);
	return WEIR_OK;
}

void cold_scan_destroy(struct cold_scan *s)
{
	if (!s)
		return;
	rocksdb_iter_destroy(s->it);
	rocksdb_readoptions_destroy(s->read);
	free(s);
}

void cold_usage(struct cold *c, struct cold_usage *out)
{
	*out = (struct cold_usage){.memtables = property(c, "rocksdb.cur-size-all-mem-tables"),
	                           .cache = rocksdb_cache_get_usage(c->cache),
	                           .readers = property(c, "rocksdb.estimate-table-readers-mem"),
	                           .files_bytes = property(c, "rocksdb.live-sst-files-size"),
	                           .keys = property(c, "rocksdb.estimate-num-keys")};
}

uint64_t cold_memory(struct cold *c)
{
	return c->fixed + property(c, "rocksdb.estimate-table-readers-mem");
}

void cold_destroy(const char *path)
{
	rocksdb_options_t *options = rocksdb_options_create();
	char *text = NULL;
	rocksdb_destroy_db(options, path, &text);
	rocksdb_free(text);
	rocksdb_options_destroy(options);
}
