/* The journal on a working disk: round trips, channels and threads, group commit, segments, locks,
 * refusals. */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/crc32c.h"
#include "server/log/journal_format.h"
#include "tests/unit/faulty_disk.h"
#include "tests/unit/server/log/journal_folder.h"

static void appended_entries_are_replayed(void **state)
{
	(void)state;
	struct fixture_seen seen;
	struct journal *j = reopen(disk_system(), &seen);
	assert_int_equal(seen.count, 0);
	for (uint64_t i = 1; i <= 40; i++)
		for (uint32_t c = 0; c < FIXTURE_CHANNELS; c++)
			append(j, c, i, i);
	fixture_close_journal(j);
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
		fixture_close_journal(j);
	}
}

/* Replays a journal that was durable up to `known`. */
static weir_status replay_known(struct disk *disk, uint64_t known, weir_error *err)
{
	struct journal *j;
	struct fixture_seen seen = fixture_seen_new(BODY);
	weir_error ignored = {0};
	CHECK_OK(open_journal_known(disk, known, &j, err), *err);
	weir_status status = fixture_replay(j, &seen, err);
	(void)journal_close(j, &ignored);
	return status;
}

static weir_status note_last(void *arg, const char *name)
{
	char *last = arg;
	if (strstr(name, ".wal") && strcmp(name, last) > 0)
		strcpy(last, name);
	return WEIR_OK;
}

static void cut_last_file(struct disk *disk, uint64_t bytes)
{
	char directory[128], last[64] = "", path[256];
	struct disk_file *file;
	weir_error err = {0};
	snprintf(directory, sizeof directory, "%s/journal", journal_folder);
	CHECK_OK(disk->ops->list(disk, directory, note_last, last, &err), err);
	snprintf(path, sizeof path, "%s/%s", directory, last);
	CHECK_OK(disk->ops->open(disk, path, false, &file, &err), err);
	CHECK_OK(disk->ops->truncate(file, bytes, &err), err);
	disk->ops->close(file);
}

/* A torn tail was never synced. Synced entries that are missing show only if another place keeps
 * the durable position. */
static void a_log_without_its_synced_end_is_stale(void **state)
{
	(void)state;
	struct faulty_disk *f = faulty_disk_create();
	struct disk *disk = faulty_disk_interface(f);
	struct fixture_seen seen;
	struct journal *j = reopen(disk, &seen);
	weir_error err = {0};
	append(j, 0, 1, 3);
	CHECK_OK(journal_wait(j, &err), err);
	const uint64_t synced = journal_durable_position(j);
	append(j, 0, 4, 5);
	assert_int_equal(journal_durable_position(j), synced);
	faulty_disk_crash(f, CRASH_UNSYNCED, 1); /* entries 4 and 5 are lost */
	CHECK_OK(replay_known(disk, synced, &err), err);
	for (int i = 0; i < 2; i++) { /* twice, because the check changes nothing */
		assert_int_equal(replay_known(disk, synced + (64u << 10), &err), WEIR_E_STALE);
		CHECK_CONTAINS(err.text, "its log ends at position");
	}
	CHECK_OK(replay_known(disk, synced, &err), err);
	cut_last_file(disk, 10);
	assert_int_equal(open_journal_known(disk, synced, &j, &err), WEIR_E_STALE);
	CHECK_CONTAINS(err.text, "is cut off: it has 10 bytes");
	faulty_disk_destroy(f);
	f = faulty_disk_create(); /* an empty disk */
	assert_int_equal(replay_known(faulty_disk_interface(f), 1, &err), WEIR_E_STALE);
	faulty_disk_destroy(f);
}

struct appender {
	struct journal *j;
	uint32_t c;
	_Atomic uint64_t told; /* durable index that the watcher got */
	pthread_t thread;
};

static void *append_and_wait(void *arg)
{
	struct appender *a = arg;
	weir_error err = {0};
	for (uint64_t i = 1; i <= 100; i++) {
		CHECK_OK(fixture_append(a->j, a->c, i, 0, BODY, &err), err);
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
	fixture_close_journal(j);
	fixture_close_journal(reopen(disk_system(), &seen));
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
	append(j, 0, 1, 1); /* creates the segment */
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
	fixture_close_journal(j);
	faulty_disk_destroy(disk);
}

static void the_interval_syncs_by_itself(void **state)
{
	(void)state;
	struct journal *j;
	struct fixture_seen seen = fixture_seen_new(BODY);
	weir_error err = {0};
	struct journal_options options = {
	    .disk = disk_system(), .directory = journal_folder, .holder = "the test", .sync_interval_ms = 1};
	CHECK_OK(journal_open(&j, &options, &err), err);
	CHECK_OK(fixture_replay(j, &seen, &err), err);
	append(j, 1, 1, 5);
	while (journal_durable(j, fixture_channels[1]) < 5)
		sched_yield();
	fixture_close_journal(j);
}

static void segments_go_when_no_channel_needs_them(void **state)
{
	(void)state;
	struct faulty_disk *disk = faulty_disk_create();
	struct fixture_seen seen;
	struct journal *j = reopen(faulty_disk_interface(disk), &seen);
	weir_error err = {0};
	append(j, 1, 1, 1);
	append(j, 0, 1, 60);
	CHECK_OK(journal_wait(j, &err), err);
	uint64_t segments = segments_of(j);
	assert_true(segments >= 4);
	journal_truncate_below(j, fixture_channels[0], 31);
	assert_true(journal_is_kept_by(j, fixture_channels[0]) && journal_is_kept_by(j, fixture_channels[1]));
	/* The oldest segment has the other channel's only entry. */
	assert_int_equal(segments_of(j), segments);
	journal_truncate_below(j, fixture_channels[1], 2);
	assert_false(journal_is_kept_by(j, fixture_channels[1]));
	while (segments_of(j) == segments)
		sched_yield();
	fixture_close_journal(j);

	seen = fixture_seen_new(BODY);
	seen.channels[0].first = seen.channels[0].flushed = 31;
	seen.channels[1].first = 2;
	CHECK_OK(open_journal(faulty_disk_interface(disk), &j, &err), err);
	CHECK_OK(fixture_replay(j, &seen, &err), err);
	assert_int_equal(seen.first[0], 31);
	assert_int_equal(seen.last[0], 60);
	assert_int_equal(seen.last[1], 0);
	assert_int_equal(seen.channels[1].last, 1);
	append(j, 1, 2, 2);
	fixture_close_journal(j);

	CHECK_OK(open_journal(faulty_disk_interface(disk), &j, &err), err);
	seen = fixture_seen_new(BODY);
	assert_int_equal(fixture_replay(j, &seen, &err), WEIR_E_CORRUPT);
	CHECK_CONTAINS(err.text, "ends before 1");
	fixture_close_journal(j);
	faulty_disk_destroy(disk);
}

static void entries_that_a_flush_proves_must_be_there(void **state)
{
	(void)state;
	struct fixture_seen seen;
	struct journal *j = reopen(disk_system(), &seen);
	weir_error err = {0};
	append(j, 0, 1, 5);
	fixture_close_journal(j);
	CHECK_OK(open_journal(disk_system(), &j, &err), err);
	seen = fixture_seen_new(BODY);
	seen.channels[0].flushed = 7;
	assert_int_equal(fixture_replay(j, &seen, &err), WEIR_E_CORRUPT);
	CHECK_CONTAINS(err.text, "partition 0's entry 6 up to 7 are missing");
	fixture_close_journal(j);
	CHECK_OK(open_journal(disk_system(), &j, &err), err);
	seen = fixture_seen_new(BODY);
	seen.channels[1].flushed = 2;
	assert_int_equal(fixture_replay(j, &seen, &err), WEIR_E_CORRUPT);
	CHECK_CONTAINS(err.text, "partition 7's entry 1 up to 2 are missing");
	fixture_close_journal(j);
}

static void entries_of_a_strange_partition_are_refused(void **state)
{
	(void)state;
	struct fixture_seen seen;
	struct journal *j = reopen(disk_system(), &seen);
	weir_error err = {0};
	append(j, 1, 1, 1);
	fixture_close_journal(j);
	CHECK_OK(open_journal(disk_system(), &j, &err), err);
	seen = fixture_seen_new(BODY);
	seen.channels[1].channel = 8;
	assert_int_equal(fixture_replay(j, &seen, &err), WEIR_E_CORRUPT);
	CHECK_CONTAINS(err.text, "partition 7's entry 1 is not of this server");
	fixture_close_journal(j);
}

/* A child process holds the journal until the parent closes the pipe. */
static pid_t hold_in_child(int ready, int go)
{
	pid_t child = fork();
	if (child != 0)
		return child;
	struct journal *j;
	char byte = 0;
	if (open_journal(disk_system(), &j, NULL) == WEIR_OK && write(ready, &byte, 1) == 1)
		(void)!read(go, &byte, 1);
	_exit(0);
}

static void a_journal_in_use_is_refused(void **state)
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
	assert_int_equal(open_journal(disk_system(), &j, &err), WEIR_E_BUSY);
	CHECK_CONTAINS(err.text, "journal/LOCK: it is in use by the test");
	assert_int_equal(write(go[1], "", 1), 1);
	assert_int_equal(waitpid(child, &ended, 0), child);
	struct fixture_seen seen;
	fixture_close_journal(reopen(disk_system(), &seen));
	for (unsigned i = 0; i < 2; i++) {
		close(ready[i]);
		close(go[i]);
	}
}

/* Writes n at offset `at` of a segment's header, and repairs its checksum. */
static void patch_header(const char *name, size_t at, uint32_t n)
{
	char path[256];
	uint8_t header[64];
	weir_error err = {0};
	struct disk *disk = disk_system();
	struct disk_file *f;
	size_t got;
	snprintf(path, sizeof path, "%s/journal/%s", journal_folder, name);
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
	fixture_close_journal(j);
	patch_header("00000002.wal", 8, 3);
	assert_int_equal(open_journal(disk_system(), &j, &err), WEIR_E_VERSION);
	CHECK_CONTAINS(err.text, "journal/00000002.wal: format version 3, this program reads versions 1 to 2; use a newer Weir");
	patch_header("00000002.wal", 8, 2);
	patch_header("00000002.wal", 32, 0); /* belongs to nobody: a name of four bytes, then zeros */
	CHECK_OK(open_journal(disk_system(), &j, &err), err);
	CHECK_OK(journal_close(j, &err), err);
	patch_header("00000002.wal", 32, 77);
	assert_int_equal(open_journal(disk_system(), &j, &err), WEIR_E_CORRUPT);
	CHECK_CONTAINS(err.text, "journal/00000002.wal belongs to another server's journal");
	char path[256];
	snprintf(path, sizeof path, "%s/journal/00000002.wal", journal_folder);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(open_journal(disk_system(), &j, &err), WEIR_E_CORRUPT);
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
	e.body.left = WEIR_ENTRY_BYTES_MAX - JOURNAL_ENTRY_HEADER_BYTES - RECORD_HEADER_BYTES + 1;
	assert_int_equal(journal_append(j, 0, &e, &err), WEIR_E_LIMIT);
	e.body.left--; /* now it fits, but it is larger than a segment here */
	CHECK_OK(journal_append(j, 0, &e, &err), err);
	message_release(m);
	fixture_close_journal(j);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_log_without_its_synced_end_is_stale),
	    IN_JOURNAL_FOLDER(a_journal_in_use_is_refused), /* first, because it forks */
	    IN_JOURNAL_FOLDER(appended_entries_are_replayed),
	    IN_JOURNAL_FOLDER(threads_append_to_their_channels),
	    IN_JOURNAL_FOLDER(one_sync_serves_all_that_wait),
	    IN_JOURNAL_FOLDER(the_interval_syncs_by_itself),
	    IN_JOURNAL_FOLDER(segments_go_when_no_channel_needs_them),
	    IN_JOURNAL_FOLDER(entries_that_a_flush_proves_must_be_there),
	    IN_JOURNAL_FOLDER(entries_of_a_strange_partition_are_refused),
	    IN_JOURNAL_FOLDER(files_of_others_are_refused),
	    IN_JOURNAL_FOLDER(an_entry_too_large_is_refused),
	};
	return cmocka_run_group_tests_name("journal", tests, NULL, NULL);
}
