/* Rows in RocksDB: rows and headers come back as written, damage is named and never served, a full
 * disk only delays. */
#include <dirent.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/store/cold_writer.h"
#include "tests/cmocka_check.h"
#include "tests/folder.h"
#include "tests/unit/server/replication/task_queue.h"

#define ROWS   3000u
#define FLOATS 8u
#define FLIPS  48u

static void row_of(uint64_t key, uint64_t version, struct row_meta *meta, float *row)
{
	*meta = (struct row_meta){.version = version, .state = {3, 0.5f}, .last_push_s = 7, .count = (uint32_t)key};
	for (uint32_t i = 0; i < FLOATS; i++)
		row[i] = (float)(key * 31 % 1009) + (float)i / 8 + (float)version;
}

static void fill_batch(struct row_batch *b, uint64_t version)
{
	for (uint64_t i = 0; i < ROWS; i++) {
		struct row_meta meta;
		float row[FLOATS];
		const uint64_t key = (ROWS - i) * 3; /* not in order */
		row_of(key, version, &meta, row);
		assert_int_equal(row_batch_add(b, 1, key, &meta, row, FLOATS), WEIR_OK);
	}
}

static struct cold *open_at(const char *path)
{
	const struct cold_options o = {.path = path, .threads = 1};
	struct cold *c;
	weir_error err = {0};
	CHECK_OK(cold_open(&c, &o, &err), err);
	return c;
}

static void write_rows(struct cold *c, uint32_t partition, uint64_t version)
{
	struct row_batch b = {.partition = partition};
	weir_error err = {0};
	fill_batch(&b, version);
	CHECK_OK(cold_write(c, &b, &err), err);
	row_batch_destroy(&b);
}

static void check_row(const struct row_batch *b, size_t i, uint64_t version)
{
	struct row_meta meta, expected;
	float row[FLOATS];
	const uint8_t *floats;
	size_t n;
	row_of(b->items[i].key, version, &expected, row);
	assert_int_equal(row_decode(b->data + b->items[i].offset, b->items[i].bytes, &meta, &floats, &n), WEIR_OK);
	assert_int_equal(n, FLOATS);
	assert_memory_equal(&meta, &expected, sizeof meta);
	assert_memory_equal(floats, row, sizeof row);
}

static void rows_come_back_as_written(void **state)
{
	(void)state;
	char folder[FOLDER_BYTES];
	weir_error err = {0};
	folder_create(folder);
	struct cold *c = open_at(folder);
	write_rows(c, 2, 1);
	write_rows(c, 2, 2);
	write_rows(c, 3, 5);
	struct row_batch removed = {.partition = 2}, found = {0};
	assert_int_equal(row_batch_add_removed(&removed, 1, 6, 9), WEIR_OK);
	CHECK_OK(cold_write(c, &removed, &err), err);
	row_batch_destroy(&removed);
	CHECK_OK(cold_flush(c, &err), err);
	const uint64_t keys[] = {1, 3, 4, 6, 300, 301, ROWS * 3, UINT64_MAX};
	CHECK_OK(cold_read(c, 2, 1, keys, 8, &found, &err), err);
	assert_int_equal(found.count, 3);
	assert_int_equal(found.items[0].key, 3);
	assert_int_equal(found.items[1].key, 300);
	assert_int_equal(found.items[2].key, ROWS * 3);
	for (size_t i = 0; i < found.count; i++)
		check_row(&found, i, 2);
	CHECK_OK(cold_remove_partition(c, 2, &err), err);
	row_batch_clear(&found);
	CHECK_OK(cold_read(c, 2, 1, keys, 8, &found, &err), err);
	assert_int_equal(found.count, 0);
	CHECK_OK(cold_read(c, 3, 1, keys, 8, &found, &err), err);
	assert_int_equal(found.count, 4);
	check_row(&found, 0, 5);
	row_batch_destroy(&found);
	cold_close(c);
	folder_remove(folder);
}

/* As in a restore: rows of every table follow the removal at once, in the same memtable. */
static void a_removed_partition_takes_rows_again(void **state)
{
	(void)state;
	char folder[FOLDER_BYTES];
	uint8_t *header;
	size_t bytes;
	weir_error err = {0};
	folder_create(folder);
	struct cold *c = open_at(folder);
	CHECK_OK(cold_put_header(c, 0, "header", 6, &err), err);
	CHECK_OK(cold_remove_partition(c, 0, &err), err);
	assert_int_equal(cold_get_header(c, 0, &header, &bytes, &err), WEIR_E_NOT_FOUND);
	for (uint64_t round = 0; round < 3; round++)
		for (uint32_t table = 0; table < 3; table++) {
			struct row_batch b = {.partition = 0}, found = {.partition = 0};
			uint64_t keys[ROWS];
			for (uint64_t i = 0; i < ROWS; i++) {
				struct row_meta meta;
				float row[FLOATS];
				row_of(keys[i] = 3 * i + round, round, &meta, row);
				assert_int_equal(row_batch_add(&b, table, keys[i], &meta, row, FLOATS), WEIR_OK);
			}
			CHECK_OK(cold_write(c, &b, &err), err);
			CHECK_OK(cold_read(c, 0, table, keys, ROWS, &found, &err), err);
			assert_int_equal(found.count, ROWS);
			for (size_t i = 0; i < ROWS; i++)
				check_row(&found, i, round);
			row_batch_destroy(&b);
			row_batch_destroy(&found);
		}
	cold_close(c);
	folder_remove(folder);
}

static void a_scan_is_in_order_and_a_snapshot_stays(void **state)
{
	(void)state;
	char folder[FOLDER_BYTES];
	weir_error err = {0};
	folder_create(folder);
	struct cold *c = open_at(folder);
	write_rows(c, 2, 1);
	write_rows(c, 4, 1);
	CHECK_OK(cold_put_header(c, 2, "header", 6, &err), err);
	struct cold_snapshot *s = cold_snapshot_create(c);
	write_rows(c, 2, 2);
	struct cold_scan *scan;
	struct cold_row row;
	CHECK_OK(cold_scan_create(&scan, c, s, 2, COLD_TABLES_ALL, &err), err);
	for (uint64_t i = 1; i <= ROWS; i++) {
		CHECK_OK(cold_scan_next(scan, &row, &err), err);
		assert_int_equal(row.table, 1);
		assert_int_equal(row.key, 3 * i);
		assert_int_equal(row_version(row.bytes), 1);
	}
	assert_int_equal(cold_scan_next(scan, &row, &err), WEIR_E_NOT_FOUND);
	cold_scan_destroy(scan);
	cold_snapshot_destroy(s);
	CHECK_OK(cold_scan_create(&scan, c, NULL, 2, 0, &err), err); /* another table has no rows */
	assert_int_equal(cold_scan_next(scan, &row, &err), WEIR_E_NOT_FOUND);
	cold_scan_destroy(scan);
	cold_close(c);
	folder_remove(folder);
}

static void headers_come_back_after_a_flush(void **state)
{
	(void)state;
	char folder[FOLDER_BYTES];
	weir_error err = {0};
	uint8_t *header;
	size_t bytes;
	folder_create(folder);
	struct cold *c = open_at(folder);
	assert_int_equal(cold_get_header(c, 0xffff, &header, &bytes, &err), WEIR_E_NOT_FOUND);
	CHECK_OK(cold_put_header(c, 0xffff, "one", 3, &err), err);
	CHECK_OK(cold_put_header(c, 0xffff, "second", 6, &err), err);
	CHECK_OK(cold_flush(c, &err), err);
	cold_close(c);
	c = open_at(folder);
	CHECK_OK(cold_get_header(c, 0xffff, &header, &bytes, &err), err);
	assert_int_equal(bytes, 6);
	assert_memory_equal(header, "second", 6);
	free(header);
	CHECK_OK(cold_put_header(c, 0xffff, NULL, 0, &err), err);
	assert_int_equal(cold_get_header(c, 0xffff, &header, &bytes, &err), WEIR_E_NOT_FOUND);
	cold_close(c);
	folder_remove(folder);
}

/* --- Damage */

static void table_file(const char *folder, char *out, size_t bytes)
{
	DIR *d = opendir(folder);
	assert_non_null(d);
	out[0] = 0;
	for (struct dirent *e; (e = readdir(d)) != NULL;)
		if (strstr(e->d_name, ".sst"))
			snprintf(out, bytes, "%s/%s", folder, e->d_name);
	closedir(d);
	assert_true(out[0] != 0);
}

static void flip(const char *path, long at)
{
	FILE *f = fopen(path, "r+b");
	assert_non_null(f);
	assert_int_equal(fseek(f, at, SEEK_SET), 0);
	const int byte = fgetc(f);
	assert_int_equal(fseek(f, at, SEEK_SET), 0);
	assert_int_not_equal(fputc(byte ^ 0x10, f), EOF);
	assert_int_equal(fclose(f), 0);
}

/* Reads everything. Returns the first error. No wrong row may come. */
static weir_status read_all(const char *folder, weir_error *err)
{
	const struct cold_options o = {.path = folder, .threads = 1};
	struct cold *c;
	weir_status s = cold_open(&c, &o, err);
	if (s)
		return s;
	struct row_batch found = {0};
	uint64_t keys[ROWS];
	for (uint64_t i = 0; i < ROWS; i++)
		keys[i] = 3 * (i + 1);
	s = cold_read(c, 2, 1, keys, ROWS, &found, err);
	for (size_t i = 0; i < found.count; i++)
		check_row(&found, i, 1);
	if (!s)
		assert_int_equal(found.count, ROWS);
	row_batch_destroy(&found);
	cold_close(c);
	return s;
}

static void a_flipped_bit_is_named_and_never_served(void **state)
{
	(void)state;
	char folder[FOLDER_BYTES], path[512];
	weir_error err = {0};
	folder_create(folder);
	struct cold *c = open_at(folder);
	write_rows(c, 2, 1);
	CHECK_OK(cold_flush(c, &err), err);
	cold_close(c);
	table_file(folder, path, sizeof path);
	struct stat st;
	assert_int_equal(stat(path, &st), 0);
	uint32_t noticed = 0;
	for (uint32_t i = 0; i < FLIPS; i++) {
		const long at = (long)st.st_size * i / FLIPS;
		flip(path, at);
		err = (weir_error){0};
		const weir_status s = read_all(folder, &err);
		if (s) {
			assert_int_equal(s, WEIR_E_CORRUPT);
			CHECK_CONTAINS(err.text, strrchr(path, '/') + 1);
			noticed++;
		}
		flip(path, at);
	}
	/* The other bits are in parts that a read does not need. */
	assert_true(noticed > FLIPS * 8 / 10);
	assert_int_equal(read_all(folder, &err), WEIR_OK);
	folder_remove(folder);
}

/* --- A full disk */

static uint32_t done_count;
static weir_status last_status;

static void count_done(struct cold_write *w)
{
	done_count++;
	last_status = w->status;
}

static bool private_mounts; /* this process has its own mounts, made before its first thread */

static bool mount_small(const char *folder)
{
	return private_mounts && mount("tmpfs", folder, "tmpfs", 0, "size=64m") == 0;
}

static void fill_disk(const char *path)
{
	static const char zeros[4096];
	FILE *f = fopen(path, "wb");
	assert_non_null(f);
	while (fwrite(zeros, sizeof zeros, 1, f) == 1 && fflush(f) == 0)
		;
	fclose(f);
}

/* RocksDB does not survive a flush without space, so the writer must not ask for one. */
static void rows_written_before_the_disk_filled_are_not_flushed(void **state)
{
	(void)state;
	char folder[FOLDER_BYTES], db[FOLDER_BYTES + 8], big[FOLDER_BYTES + 8];
	folder_create(folder);
	if (!mount_small(folder)) {
		folder_remove(folder);
		skip(); /* needs the right to mount */
	}
	snprintf(db, sizeof db, "%s/db", folder);
	snprintf(big, sizeof big, "%s/big", folder);
	struct cold *c;
	weir_error err = {0};
	assert_int_equal(cold_open(&c, &(struct cold_options){.path = db, .threads = 1, .spare_bytes = 16u << 20}, NULL), WEIR_OK);
	write_rows(c, 2, 1);
	fill_disk(big);
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(cold_flush(c, &err), WEIR_E_NO_SPACE);
	CHECK_CONTAINS(err.text, "left on the disk");
	assert_int_equal(unlink(big), 0);
	assert_int_equal(cold_flush(c, NULL), WEIR_OK);
	cold_close(c);
	assert_int_equal(umount(folder), 0);
	folder_remove(folder);
}

static void a_full_disk_is_waited_out(void **state)
{
	(void)state;
	char folder[FOLDER_BYTES], db[FOLDER_BYTES + 8], big[FOLDER_BYTES + 8];
	folder_create(folder);
	if (!mount_small(folder)) {
		folder_remove(folder);
		skip(); /* needs the right to mount */
	}
	snprintf(db, sizeof db, "%s/db", folder);
	snprintf(big, sizeof big, "%s/big", folder);
	const struct cold_options options = {.path = db, .threads = 1, .spare_bytes = 16u << 20};
	struct cold *c;
	assert_int_equal(cold_open(&c, &options, NULL), WEIR_OK);
	struct task_queue *q = task_queue_create();
	const struct cold_writer_options o = {.cold = c, .retry_ms = 10};
	struct cold_writer *w = cold_writer_create(&o, NULL);
	assert_non_null(w);
	struct cold_write rows = {
	    .kind = COLD_WRITE_ROWS, .rows = {.partition = 2}, .run_on = task_queue_executor(q), .done = count_done};
	struct cold_write flush = {.kind = COLD_WRITE_FLUSH, .run_on = task_queue_executor(q), .done = count_done};
	fill_batch(&rows.rows, 1);
	fill_disk(big);
	done_count = 0;
	cold_writer_submit(w, &rows);
	cold_writer_submit(w, &flush);
	while (!cold_writer_is_stuck(w))
		task_queue_run(q, false);
	assert_int_equal(done_count, 0);
	assert_int_equal(unlink(big), 0);
	while (done_count < 2)
		task_queue_run(q, true);
	assert_int_equal(last_status, WEIR_OK);
	assert_false(cold_writer_is_stuck(w));
	cold_writer_destroy(w);
	cold_close(c);
	weir_error err = {0};
	CHECK_OK(read_all(db, &err), err);
	row_batch_destroy(&rows.rows);
	task_queue_destroy(q);
	assert_int_equal(umount(folder), 0);
	folder_remove(folder);
}

/* Flushes requested together are one flush, behind all writes queued with them. So they do not cost
 * a file and an fsync each. */
static void flushes_that_wait_together_are_one(void **state)
{
	(void)state;
	enum { FLUSHES = 40 };
	char folder[FOLDER_BYTES];
	folder_create(folder);
	struct cold *c = open_at(folder);
	struct task_queue *q = task_queue_create();
	const struct cold_writer_options o = {.cold = c};
	struct cold_writer *w = cold_writer_create(&o, NULL);
	assert_non_null(w);
	static struct cold_write headers[FLUSHES], flushes[FLUSHES];
	done_count = 0;
	for (uint32_t i = 0; i < FLUSHES; i++) {
		headers[i] = (struct cold_write){.kind = COLD_WRITE_HEADER,
		                                 .partition = i,
		                                 .header = "header",
		                                 .header_bytes = 6,
		                                 .run_on = task_queue_executor(q),
		                                 .done = count_done};
		flushes[i] = (struct cold_write){.kind = COLD_WRITE_FLUSH, .run_on = task_queue_executor(q), .done = count_done};
		cold_writer_submit(w, &headers[i]);
		cold_writer_submit(w, &flushes[i]);
	}
	while (done_count < 2 * FLUSHES)
		task_queue_run(q, true);
	assert_int_equal(last_status, WEIR_OK);
	char newest[FOLDER_BYTES + 300];
	table_file(folder, newest, sizeof newest);
	/* RocksDB numbers all files that it creates. */
	assert_in_range(strtoul(strrchr(newest, '/') + 1, NULL, 10), 1, FLUSHES / 2);
	cold_writer_destroy(w);
	cold_close(c);
	c = open_at(folder); /* as after a crash: the files have no log beside them */
	for (uint32_t i = 0; i < FLUSHES; i++) {
		uint8_t *bytes;
		size_t n;
		weir_error err = {0};
		CHECK_OK(cold_get_header(c, i, &bytes, &n, &err), err);
		assert_int_equal(n, 6);
		free(bytes);
	}
	cold_close(c);
	task_queue_destroy(q);
	folder_remove(folder);
}

static bool always(void *arg)
{
	(void)arg;
	return true;
}

static void a_full_disk_is_not_waited_out_by_a_server_that_stops(void **state)
{
	(void)state;
	char folder[FOLDER_BYTES];
	folder_create(folder);
	const struct cold_options options = {.path = folder, .threads = 1, .spare_bytes = UINT64_MAX / 2};
	struct cold *c;
	assert_int_equal(cold_open(&c, &options, NULL), WEIR_OK);
	struct task_queue *q = task_queue_create();
	const struct cold_writer_options o = {.cold = c, .stopping = always};
	struct cold_writer *w = cold_writer_create(&o, NULL);
	struct cold_write items[2];
	done_count = 0;
	for (uint32_t i = 0; i < 2; i++) {
		items[i] = (struct cold_write){
		    .kind = COLD_WRITE_HEADER, .header = "x", .header_bytes = 1, .run_on = task_queue_executor(q), .done = count_done};
		cold_writer_submit(w, &items[i]);
	}
	while (done_count < 2)
		task_queue_run(q, true);
	for (uint32_t i = 0; i < 2; i++) {
		assert_int_equal(items[i].status, WEIR_E_NO_SPACE);
		CHECK_CONTAINS(items[i].err.text, "left on the disk");
	}
	assert_true(cold_writer_is_stuck(w));
	cold_writer_destroy(w);
	cold_close(c);
	task_queue_destroy(q);
	folder_remove(folder);
}

/* --- Other errors */

static void any_other_error_is_final(void **state)
{
	(void)state;
	char folder[FOLDER_BYTES];
	folder_create(folder);
	struct cold *c = open_at(folder);
	cold_close(c);
	const struct cold_options read_only = {.path = folder, .read_only = true};
	assert_int_equal(cold_open(&c, &read_only, NULL), WEIR_OK);
	struct task_queue *q = task_queue_create();
	const struct cold_writer_options o = {.cold = c};
	struct cold_writer *w = cold_writer_create(&o, NULL);
	struct cold_write items[2];
	done_count = 0;
	for (uint32_t i = 0; i < 2; i++) {
		items[i] = (struct cold_write){
		    .kind = COLD_WRITE_HEADER, .header = "x", .header_bytes = 1, .run_on = task_queue_executor(q), .done = count_done};
		cold_writer_submit(w, &items[i]);
	}
	while (done_count < 2)
		task_queue_run(q, true);
	for (uint32_t i = 0; i < 2; i++) {
		assert_int_equal(items[i].status, WEIR_E_IO);
		assert_true(strlen(items[i].err.text) > 0);
	}
	cold_writer_destroy(w);
	cold_close(c);
	task_queue_destroy(q);
	folder_remove(folder);
}

int main(void)
{
	private_mounts = unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(rows_come_back_as_written),
	    cmocka_unit_test(a_scan_is_in_order_and_a_snapshot_stays),
	    cmocka_unit_test(headers_come_back_after_a_flush),
	    cmocka_unit_test(a_flipped_bit_is_named_and_never_served),
	    cmocka_unit_test(any_other_error_is_final),
	    cmocka_unit_test(rows_written_before_the_disk_filled_are_not_flushed),
	    cmocka_unit_test(flushes_that_wait_together_are_one),
	    cmocka_unit_test(a_full_disk_is_waited_out),
	    cmocka_unit_test(a_full_disk_is_not_waited_out_by_a_server_that_stops),
	    cmocka_unit_test(a_removed_partition_takes_rows_again),
	};
	return cmocka_run_group_tests_name("cold", tests, NULL, NULL);
}
