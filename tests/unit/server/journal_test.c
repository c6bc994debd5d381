/* The journal on a disk that works: round trips, channels and threads, group commit, truncation, locks, versions. */
#include "journal.h"

#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "crc32c.h"
#include "faulty_disk.h"
#include "journal_fixture.h"

enum { BODY = 3000, SEGMENT = 16 << 10 };

static char folder[64];

static int make_folder(void **state)
{
	(void)state;
	snprintf(folder, sizeof folder, "/tmp/weir-journal-XXXXXX");
	return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
	(void)state;
	char command[128];
	snprintf(command, sizeof command, "rm -r %s", folder);
	return system(command);
}

static weir_status open_on(struct disk *disk, struct journal **j, weir_error *err)
{
	char directory[128];
	snprintf(directory, sizeof directory, "%s/journal", folder);
	struct journal_options options = {
	    .disk = disk, .directory = directory, .id = "test", .holder = "the test", .segment_bytes = SEGMENT};
	return journal_open(j, &options, err);
}

static struct journal *reopen(struct disk *disk, struct fixture_seen *seen)
{
	struct journal *j;
	weir_error err = {0};
	*seen = fixture_seen_new(BODY);
	CHECK_OK(open_on(disk, &j, &err), err);
	CHECK_OK(fixture_replay(j, seen, &err), err);
	return j;
}

static void close_well(struct journal *j)
{
	weir_error err = {0};
	CHECK_OK(journal_close(j, &err), err);
}

static void append(struct journal *j, uint32_t c, uint64_t from, uint64_t to)
{
	weir_error err = {0};
	for (uint64_t i = from; i <= to; i++)
		CHECK_OK(fixture_append(j, c, i, BODY, &err), err);
}

static void what_is_appended_is_replayed(void **state)
{
	(void)state;
	struct fixture_seen seen;
	struct journal *j = reopen(disk_system(), &seen);
	assert_int_equal(seen.count, 0);
	for (uint64_t i = 1; i <= 40; i++)
		for (uint32_t c = 0; c < FIXTURE_CHANNELS; c++)
			append(j, c, i, i);
	close_well(j);
	for (unsigned round = 0; round < 3; round++) {
		j = reopen(disk_system(), &seen);
		uint64_t last = 40 + round;
		for (uint32_t c = 0; c < FIXTURE_CHANNELS; c++) {
			assert_int_equal(seen.first[c], 1);
			assert_int_equal(seen.last[c], last);
			assert_int_equal(seen.channels[c].last, last);
			assert_int_equal(journal_durable(j, fixture_channels[c]), last);
			append(j, c, last + 1, last + 1);
		}
		close_well(j);
	}
}

struct appender {
	struct journal *j;
	uint32_t c;
	_Atomic uint64_t told; /* by the watcher */
	pthread_t thread;
};

static void *append_and_wait(void *arg)
{
	struct appender *a = arg;
	weir_error err = {0};
	for (uint64_t i = 1; i <= 100; i++) {
		CHECK_OK(fixture_append(a->j, a->c, i, BODY, &err), err);
		if (i % 10 == 0) {
			CHECK_OK(journal_wait(a->j, &err), err);
			assert_true(journal_durable(a->j, fixture_channels[a->c]) >= i);
			assert_true(a->told >= i);
		}
	}
	return NULL;
}

static void watch(void *ctx, uint16_t channel, uint64_t durable)
{
	struct appender *a = ctx;
	assert_int_equal(channel, fixture_channels[a->c]);
	assert_true(durable > a->told);
	a->told = durable;
}

static void threads_append_to_their_channels(void **state)
{
	(void)state;
	struct fixture_seen seen;
	struct appender appenders[FIXTURE_CHANNELS];
	struct journal *j = reopen(disk_system(), &seen);
	for (uint32_t c = 0; c < FIXTURE_CHANNELS; c++) {
		struct appender *a = &appenders[c];
		a->j = j;
		a->c = c;
		a->told = 0;
		journal_watch(j, fixture_channels[c], watch, a);
		assert_int_equal(pthread_create(&a->thread, NULL, append_and_wait, a), 0);
	}
	for (uint32_t c = 0; c < FIXTURE_CHANNELS; c++)
		pthread_join(appenders[c].thread, NULL);
	close_well(j);
	close_well(reopen(disk_system(), &seen));
	assert_int_equal(seen.count, 300);
}

static void *wait_for_durable(void *arg)
{
	weir_error err = {0};
	CHECK_OK(journal_wait(arg, &err), err);
	return NULL;
}

static void one_sync_serves_all_that_wait(void **state)
{
	(void)state;
	struct faulty_disk *disk = faulty_disk_create();
	struct fixture_seen seen;
	struct journal *j = reopen(faulty_disk_interface(disk), &seen);
	struct journal_stats stats;
	pthread_t waiting[FIXTURE_CHANNELS];
	append(j, 0, 1, 1); /* the segment is begun */
	uint64_t syncs = faulty_disk_syncs(disk);
	faulty_disk_hold_syncs(disk, true);
	journal_sync(j);
	faulty_disk_await_held_sync(disk);
	append(j, 0, 2, 3);
	append(j, 1, 1, 2);
	append(j, 2, 1, 1);
	for (uint32_t i = 0; i < FIXTURE_CHANNELS; i++)
		assert_int_equal(pthread_create(&waiting[i], NULL, wait_for_durable, j), 0);
	assert_int_equal(journal_durable(j, fixture_channels[0]), 0);
	faulty_disk_hold_syncs(disk, false);
	for (uint32_t i = 0; i < FIXTURE_CHANNELS; i++)
		pthread_join(waiting[i], NULL);
	assert_int_equal(journal_durable(j, fixture_channels[0]), 3);
	assert_int_equal(journal_durable(j, fixture_channels[2]), 1);
	assert_int_equal(faulty_disk_syncs(disk), syncs + 2);
	journal_get_stats(j, &stats);
	assert_int_equal(stats.appends, 6);
	close_well(j);
	faulty_disk_destroy(disk);
}

static void the_interval_syncs_by_itself(void **state)
{
	(void)state;
	struct journal *j;
	struct fixture_seen seen = fixture_seen_new(BODY);
	weir_error err = {0};
	struct journal_options options = {.disk = disk_system(), .directory = folder, .holder = "the test", .sync_interval_ms = 1};
	CHECK_OK(journal_open(&j, &options, &err), err);
	CHECK_OK(fixture_replay(j, &seen, &err), err);
	append(j, 1, 1, 5);
	while (journal_durable(j, fixture_channels[1]) < 5)
		sched_yield();
	close_well(j);
}

static uint64_t segments_of(struct journal *j)
{
	struct journal_stats stats;
	journal_get_stats(j, &stats);
	return stats.segments;
}

static void segments_go_when_no_channel_needs_them(void **state)
{
	(void)state;
	struct faulty_disk *disk = faulty_disk_create();
	struct fixture_seen seen;
	struct journal *j = reopen(faulty_disk_interface(disk), &seen);
	weir_error err = {0};
	uint16_t channel;
	uint64_t below;
	append(j, 1, 1, 1);
	append(j, 0, 1, 60);
	CHECK_OK(journal_wait(j, &err), err);
	uint64_t segments = segments_of(j);
	assert_true(segments >= 4);
	journal_truncate_below(j, fixture_channels[0], 31);
	assert_true(journal_oldest(j, &channel, &below)); /* the other channel's only entry is in the oldest segment */
	assert_int_equal(channel, fixture_channels[1]);
	assert_int_equal(below, 2);
	journal_truncate_below(j, channel, below);
	while (segments_of(j) == segments)
		sched_yield();
	while (journal_oldest(j, &channel, &below) && below <= 31)
		sched_yield();
	close_well(j);

	seen = fixture_seen_new(BODY);
	seen.channels[0].first = seen.channels[0].flushed = 31;
	seen.channels[1].first = 2;
	CHECK_OK(open_on(faulty_disk_interface(disk), &j, &err), err);
	CHECK_OK(fixture_replay(j, &seen, &err), err);
	assert_int_equal(seen.first[0], 31);
	assert_int_equal(seen.last[0], 60);
	assert_int_equal(seen.last[1], 0);
	assert_int_equal(seen.channels[1].last, 1);
	append(j, 1, 2, 2);
	close_well(j);

	CHECK_OK(open_on(faulty_disk_interface(disk), &j, &err), err);
	seen = fixture_seen_new(BODY);
	assert_int_equal(fixture_replay(j, &seen, &err), WEIR_E_CORRUPT);
	CHECK_CONTAINS(err.text, "1 is needed first");
	close_well(j);
	faulty_disk_destroy(disk);
}

static void what_a_flush_proves_must_be_there(void **state)
{
	(void)state;
	struct fixture_seen seen;
	struct journal *j = reopen(disk_system(), &seen);
	weir_error err = {0};
	append(j, 0, 1, 5);
	close_well(j);
	CHECK_OK(open_on(disk_system(), &j, &err), err);
	seen = fixture_seen_new(BODY);
	seen.channels[0].flushed = 7;
	assert_int_equal(fixture_replay(j, &seen, &err), WEIR_E_CORRUPT);
	CHECK_CONTAINS(err.text, "partition 0's entry 6 up to 7 are missing");
	close_well(j);
	CHECK_OK(open_on(disk_system(), &j, &err), err);
	seen = fixture_seen_new(BODY);
	seen.channels[1].flushed = 2;
	assert_int_equal(fixture_replay(j, &seen, &err), WEIR_E_CORRUPT);
	CHECK_CONTAINS(err.text, "partition 7's entry 1 up to 2 are missing");
	close_well(j);
}

static void entries_of_a_strange_partition_are_refused(void **state)
{
	(void)state;
	struct fixture_seen seen;
	struct journal *j = reopen(disk_system(), &seen);
	weir_error err = {0};
	append(j, 1, 1, 1);
	close_well(j);
	CHECK_OK(open_on(disk_system(), &j, &err), err);
	seen = fixture_seen_new(BODY);
	seen.channels[1].channel = 8;
	assert_int_equal(fixture_replay(j, &seen, &err), WEIR_E_CORRUPT);
	CHECK_CONTAINS(err.text, "partition 7's entry 1 is not of this server");
	close_well(j);
}

/* A child holds the journal until its end of the pipe is closed. */
static pid_t hold_in_child(int ready, int go)
{
	pid_t child = fork();
	if (child != 0)
		return child;
	struct journal *j;
	char byte = 0;
	if (open_on(disk_system(), &j, NULL) == WEIR_OK && write(ready, &byte, 1) == 1)
		(void)!read(go, &byte, 1);
	_exit(0);
}

static void another_process_has_it(void **state)
{
	(void)state;
	int ready[2], go[2], ended;
	char byte;
	struct journal *j;
	weir_error err = {0};
	assert_int_equal(pipe(ready), 0);
	assert_int_equal(pipe(go), 0);
	pid_t child = hold_in_child(ready[1], go[0]);
	assert_true(child > 0);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	assert_int_equal(open_on(disk_system(), &j, &err), WEIR_E_BUSY);
	CHECK_CONTAINS(err.text, "journal/LOCK: it is in use by the test");
	assert_int_equal(write(go[1], "", 1), 1);
	assert_int_equal(waitpid(child, &ended, 0), child);
	struct fixture_seen seen;
	close_well(reopen(disk_system(), &seen));
	for (unsigned i = 0; i < 2; i++) {
		close(ready[i]);
		close(go[i]);
	}
}

/* Writes number n at offset `at` of a segment's header and makes its checksum right. */
static void patch_header(const char *name, size_t at, uint32_t n)
{
	char path[256];
	uint8_t header[64];
	weir_error err = {0};
	struct disk *disk = disk_system();
	struct disk_file *f;
	size_t got;
	snprintf(path, sizeof path, "%s/journal/%s", folder, name);
	CHECK_OK(disk->ops->open(disk, path, false, &f, &err), err);
	CHECK_OK(disk->ops->read_at(f, 0, header, sizeof header, &got, &err), err);
	memcpy(header + at, &n, sizeof n);
	memset(header + 4, 0, 4);
	n = crc32c(0, header, sizeof header);
	memcpy(header + 4, &n, sizeof n);
	CHECK_OK(disk->ops->write_at(f, 0, header, sizeof header, &err), err);
	disk->ops->close(f);
}

static void files_of_others_are_refused(void **state)
{
	(void)state;
	struct fixture_seen seen;
	struct journal *j = reopen(disk_system(), &seen);
	weir_error err = {0};
	append(j, 0, 1, 20);
	assert_true(segments_of(j) >= 3);
	close_well(j);
	patch_header("00000002.wal", 8, 2);
	assert_int_equal(open_on(disk_system(), &j, &err), WEIR_E_VERSION);
	CHECK_CONTAINS(err.text, "journal/00000002.wal: format version 2, this program reads version 1");
	patch_header("00000002.wal", 8, 1);
	patch_header("00000002.wal", 32, 0); /* nobody's: its name is four bytes, then zeros */
	CHECK_OK(open_on(disk_system(), &j, &err), err);
	CHECK_OK(journal_close(j, &err), err);
	patch_header("00000002.wal", 32, 77);
	assert_int_equal(open_on(disk_system(), &j, &err), WEIR_E_CORRUPT);
	CHECK_CONTAINS(err.text, "journal/00000002.wal belongs to another server's journal");
	char path[256];
	snprintf(path, sizeof path, "%s/journal/00000002.wal", folder);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(open_on(disk_system(), &j, &err), WEIR_E_CORRUPT);
	CHECK_CONTAINS(err.text, "segments 2 to 2 are missing");
}

static void an_entry_too_large_is_refused(void **state)
{
	(void)state;
	struct fixture_seen seen;
	struct journal *j = reopen(disk_system(), &seen);
	weir_error err = {0};
	uint8_t *data;
	struct message *m = message_alloc(WEIR_MESSAGE_BYTES_MAX + 8, &data);
	assert_non_null(m);
	memset(data, 0, m->bytes);
	struct log_entry e = {.index = 1, .message = m, .body = cursor_at(m)};
	assert_int_equal(journal_append(j, 0, &e, &err), WEIR_E_LIMIT);
	e.body.left = WEIR_MESSAGE_BYTES_MAX; /* larger than a segment here */
	CHECK_OK(journal_append(j, 0, &e, &err), err);
	message_release(m);
	close_well(j);
}

static void the_log_on_disk_restores_its_entries(void **state)
{
	(void)state;
	struct fixture_seen seen;
	struct journal *j = reopen(disk_system(), &seen);
	weir_error err = {0};
	float rates[4];
	struct log *l = log_disk_create(j, 0, 1);
	assert_non_null(l);
	for (uint64_t i = 1; i <= 10; i++) {
		struct log_entry e = fixture_entry(0, i, BODY, rates);
		CHECK_OK(l->ops->append(l, &e, &err), err);
		message_release(e.message);
	}
	l->ops->release_below(l, 5);
	assert_null(l->ops->get(l, 4));
	assert_int_equal(l->ops->get(l, 5)->index, 5);
	assert_int_equal(l->ops->first(l), 5);
	assert_int_equal(l->ops->last(l), 10);
	assert_true(l->ops->durable(l) < 10);
	l->ops->sync(l);
	while (l->ops->durable(l) < 10)
		sched_yield();
	l->ops->destroy(l);
	close_well(j);

	close_well(reopen(disk_system(), &seen));
	assert_int_equal(seen.last[0], 10);
}

/* The file's bytes as hexadecimal text, 16 a line; malloc'ed. */
static char *file_as_hex(struct disk *disk, const char *path)
{
	char *bytes;
	size_t count, at = 0;
	weir_error err = {0};
	CHECK_OK(disk_read_file(disk, path, 1 << 20, &bytes, &count, &err), err);
	char *text = malloc(3 * count + 1);
	assert_non_null(text);
	for (size_t i = 0; i < count; i++)
		at += (size_t)sprintf(text + at, "%02x%c", (uint8_t)bytes[i], i % 16 == 15 || i + 1 == count ? '\n' : ' ');
	free(bytes);
	return text;
}

/* A partition's entry, the ledger's, and the mark behind them. */
static void the_bytes_are_those_of_the_format(void **state)
{
	(void)state;
	enum { GOLDEN_BODY = 30 };
	struct faulty_disk *disk = faulty_disk_create();
	struct fixture_seen seen = fixture_seen_new(GOLDEN_BODY);
	struct journal *j;
	char path[128], *golden, *text;
	size_t bytes;
	weir_error err = {0};
	CHECK_OK(open_on(faulty_disk_interface(disk), &j, &err), err);
	CHECK_OK(fixture_replay(j, &seen, &err), err);
	CHECK_OK(fixture_append(j, 1, 1, GOLDEN_BODY, &err), err);
	CHECK_OK(fixture_append(j, 2, 1, GOLDEN_BODY, &err), err);
	close_well(j);
	snprintf(path, sizeof path, "%s/journal/00000001.wal", folder);
	text = file_as_hex(faulty_disk_interface(disk), path);
	CHECK_OK(disk_read_file(disk_system(), GOLDEN_DIR "/journal_segment.hex", 1 << 20, &golden, &bytes, &err), err);
	assert_string_equal(text, golden);
	free(golden);
	free(text);
	faulty_disk_destroy(disk);
}

int main(void)
{
#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)
	const struct CMUnitTest tests[] = {
	    IN_FOLDER(another_process_has_it), /* first: it forks */
	    IN_FOLDER(what_is_appended_is_replayed),
	    IN_FOLDER(threads_append_to_their_channels),
	    IN_FOLDER(one_sync_serves_all_that_wait),
	    IN_FOLDER(the_interval_syncs_by_itself),
	    IN_FOLDER(segments_go_when_no_channel_needs_them),
	    IN_FOLDER(what_a_flush_proves_must_be_there),
	    IN_FOLDER(entries_of_a_strange_partition_are_refused),
	    IN_FOLDER(files_of_others_are_refused),
	    IN_FOLDER(an_entry_too_large_is_refused),
	    IN_FOLDER(the_log_on_disk_restores_its_entries),
	    IN_FOLDER(the_bytes_are_those_of_the_format),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
