/* The journal on a working disk: round trips, channels and threads, group commit, truncation,
 * locks, versions. */
#include "server/log/journal.h"

#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/crc32c.h"
#include "server/log/journal_format.h"
#include "tests/unit/faulty_disk.h"
#include "tests/unit/server/log/journal_fixture.h"

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

/* durable_known: the position up to which the journal was durable. */
static weir_status open_known(struct disk *disk, uint64_t durable_known, struct journal **j, weir_error *err)
{
	char directory[128];
	snprintf(directory, sizeof directory, "%s/journal", folder);
	struct journal_options options = {.disk = disk,
	                                  .directory = directory,
	                                  .id = "test",
	                                  .holder = "the test",
	                                  .segment_bytes = SEGMENT,
	                                  .durable_known = durable_known};
	return journal_open(j, &options, err);
}

static weir_status open_on(struct disk *disk, struct journal **j, weir_error *err)
{
	return open_known(disk, 0, j, err);
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
		CHECK_OK(fixture_append(j, c, i, 0, BODY, &err), err);
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

/* Replays a journal that was durable up to `known`. */
static weir_status replay_known(struct disk *disk, uint64_t known, weir_error *err)
{
	struct journal *j;
	struct fixture_seen seen = fixture_seen_new(BODY);
	weir_error ignored = {0};
	CHECK_OK(open_known(disk, known, &j, err), *err);
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
	snprintf(directory, sizeof directory, "%s/journal", folder);
	CHECK_OK(disk->ops->list(disk, directory, note_last, last, &err), err);
	snprintf(path, sizeof path, "%s/%s", directory, last);
	CHECK_OK(disk->ops->open(disk, path, false, &file, &err), err);
	CHECK_OK(disk->ops->truncate(file, bytes, &err), err);
	disk->ops->close(file);
}

/* A torn tail was never synced. Synced entries that are missing show only if another place keeps
 * the durable position. */
static void a_log_that_lost_its_synced_end_has_gone_back(void **state)
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
	assert_int_equal(open_known(disk, synced, &j, &err), WEIR_E_STALE);
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

/* Bytes of the only segment. */
static uint64_t journal_end(struct journal *j)
{
	struct journal_stats stats;
	journal_get_stats(j, &stats);
	assert_int_equal(stats.segments, 1);
	return stats.bytes;
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
	CHECK_CONTAINS(err.text, "ends before 1");
	close_well(j);
	faulty_disk_destroy(disk);
}

/* --- Cuts */

static void append_after(struct journal *j, uint32_t c, uint64_t cuts, uint64_t from, uint64_t to)
{
	weir_error err = {0};
	for (uint64_t i = from; i <= to; i++)
		CHECK_OK(fixture_append(j, c, i, cuts, BODY, &err), err);
}

static void cut(struct journal *j, uint32_t c, uint64_t next)
{
	weir_error err = {0};
	CHECK_OK(journal_cut(j, fixture_channels[c], (struct journal_cut){.next = next}, &err), err);
}

static void restart(struct journal *j, uint32_t c, uint64_t first)
{
	weir_error err = {0};
	CHECK_OK(journal_cut(j, fixture_channels[c], (struct journal_cut){.next = first, .restart = true}, &err), err);
}

static void a_cut_voids_what_is_above_it(void **state)
{
	(void)state;
	struct fixture_seen seen;
	struct journal *j = reopen(disk_system(), &seen);
	for (uint32_t c = 0; c < FIXTURE_CHANNELS; c++)
		append(j, c, 1, 10);
	cut(j, 0, 6);
	append_after(j, 0, 1, 6, 8);
	cut(j, 2, 10);
	cut(j, 2, 1);
	close_well(j);
	for (unsigned round = 0; round < 2; round++) {
		j = reopen(disk_system(), &seen);
		assert_true(seen.first[0] == 1 && seen.last[0] == 8 && seen.channels[0].last == 8);
		for (uint64_t i = 1; i <= 8; i++)
			assert_int_equal(seen.cuts[0][i], i > 5);
		assert_true(seen.last[1] == 10 && seen.channels[1].last == 10);
		assert_true(seen.last[2] == 0 && seen.channels[2].last == 0);
		assert_int_equal(journal_durable(j, fixture_channels[0]), 8);
		assert_false(seen.channels[0].restarted || seen.channels[1].restarted || seen.channels[2].restarted);
		close_well(j);
	}
	j = reopen(disk_system(), &seen);
	append_after(j, 0, 1, 9, 9);
	append_after(j, 2, 2, 1, 2);
	close_well(j);
	close_well(reopen(disk_system(), &seen));
	assert_true(seen.channels[0].last == 9 && seen.cuts[0][9] == 1);
	assert_true(seen.channels[2].last == 2 && seen.cuts[2][1] == 2 && seen.cuts[2][2] == 2);
}

static void a_restart_begins_anywhere(void **state)
{
	(void)state;
	struct fixture_seen seen;
	struct journal *j = reopen(disk_system(), &seen);
	append(j, 0, 1, 10);
	append(j, 1, 1, 10);
	append(j, 2, 1, 10);
	restart(j, 0, 50);
	append_after(j, 0, 1, 50, 52);
	restart(j, 1, 4);
	append_after(j, 1, 1, 4, 5);
	restart(j, 2, 1);
	close_well(j);
	j = reopen(disk_system(), &seen);
	assert_true(seen.first[0] == 50 && seen.last[0] == 52 && seen.channels[0].last == 52);
	assert_true(seen.first[1] == 4 && seen.last[1] == 5 && seen.channels[1].last == 5);
	assert_true(seen.first[2] == 0 && seen.channels[2].last == 0);
	assert_true(seen.channels[0].restarted && seen.channels[1].restarted && seen.channels[2].restarted);
	close_well(j);

	/* A restart is not an error when a flush covers more than the log has. */
	weir_error err = {0};
	CHECK_OK(open_on(disk_system(), &j, &err), err);
	seen = fixture_seen_new(BODY);
	seen.channels[1].first = seen.channels[1].flushed = 8;
	seen.channels[2].first = seen.channels[2].flushed = 8;
	CHECK_OK(fixture_replay(j, &seen, &err), err);
	assert_true(seen.first[1] == 0 && seen.channels[1].last == 5);
	assert_true(seen.first[2] == 0 && seen.channels[2].last == 0);
	append_after(j, 2, 1, 1, 1);
	close_well(j);
	close_well(reopen(disk_system(), &seen));
	assert_int_equal(seen.channels[2].last, 1);
}

/* The first entries of a void channel are gone. Replay does not ask for them. */
static void a_void_channel_is_restarted(void **state)
{
	(void)state;
	struct fixture_seen seen;
	weir_error err = {0};
	struct journal *j = reopen(disk_system(), &seen);
	restart(j, 0, 50);
	append_after(j, 0, 1, 50, 52);
	append(j, 1, 1, 3);
	cut(j, 0, 52);
	close_well(j);
	CHECK_OK(open_on(disk_system(), &j, &err), err);
	seen = fixture_seen_new(BODY);
	seen.channels[0].is_void = true;
	/* Otherwise replay would miss the entries. */
	seen.channels[0].first = seen.channels[0].flushed = 60;
	CHECK_OK(fixture_replay(j, &seen, &err), err);
	assert_true(seen.first[0] == 0 && seen.cuts[0][50] == 0);
	assert_true(seen.first[1] == 1 && seen.last[1] == 3);
	restart(j, 0, 1);
	append(j, 0, 1, 2);
	close_well(j);
	close_well(reopen(disk_system(), &seen));
	assert_true(seen.first[0] == 1 && seen.channels[0].last == 2 && seen.channels[1].last == 3);
}

static void the_durable_index_goes_back_only_by_a_cut(void **state)
{
	(void)state;
	struct faulty_disk *disk = faulty_disk_create();
	struct fixture_seen seen;
	struct journal *j = reopen(faulty_disk_interface(disk), &seen);
	weir_error err = {0};
	append(j, 0, 1, 2);
	CHECK_OK(journal_wait(j, &err), err);
	append(j, 0, 3, 4);
	append(j, 1, 1, 1);
	faulty_disk_hold_syncs(disk, true);
	journal_sync(j);
	faulty_disk_await_held_sync(disk);
	cut(j, 0, 4); /* the old entry 4 is being synced, the new one is not */
	append_after(j, 0, 1, 4, 5);
	assert_int_equal(journal_durable(j, fixture_channels[0]), 2);
	faulty_disk_hold_syncs(disk, false);
	while (journal_durable(j, fixture_channels[1]) == 0) /* published after channel 0 */
		sched_yield();
	assert_int_equal(journal_durable(j, fixture_channels[0]), 3);
	CHECK_OK(journal_wait(j, &err), err);
	assert_int_equal(journal_durable(j, fixture_channels[0]), 5);
	cut(j, 0, 2);
	assert_int_equal(journal_durable(j, fixture_channels[0]), 1);
	restart(j, 0, 9);
	/* Not even the restart is durable. */
	assert_int_equal(journal_durable(j, fixture_channels[0]), 0);
	CHECK_OK(journal_wait(j, &err), err);
	assert_int_equal(journal_durable(j, fixture_channels[0]), 8);
	restart(j, 0, 4);
	assert_int_equal(journal_durable(j, fixture_channels[0]), 0);
	CHECK_OK(journal_wait(j, &err), err);
	assert_int_equal(journal_durable(j, fixture_channels[0]), 3);
	close_well(j);
	faulty_disk_destroy(disk);
}

struct gate {
	_Atomic bool entered, open;
};

static void wait_at_gate(void *ctx, uint16_t channel, uint64_t durable)
{
	struct gate *g = ctx;
	(void)channel, (void)durable;
	g->entered = true;
	while (!g->open)
		sched_yield();
}

/* The end of a segment makes entries durable. A cut voids them before the watcher runs. */
static void what_is_cut_before_it_is_told_is_never_told(void **state)
{
	(void)state;
	struct fixture_seen seen;
	struct gate gate = {false, false};
	struct journal *j = reopen(disk_system(), &seen);
	uint64_t last = 0;
	journal_watch(j, fixture_channels[1], wait_at_gate, &gate);
	append(j, 1, 1, 1);
	journal_sync(j);
	while (!gate.entered)
		sched_yield();
	while (segments_of(j) == 1) {
		last++;
		append(j, 0, last, last);
	}
	assert_true(last > 2);
	cut(j, 0, 2);
	gate.open = true;
	while (journal_durable(j, fixture_channels[0]) == 0)
		sched_yield();
	assert_int_equal(journal_durable(j, fixture_channels[0]), 1);
	close_well(j);
}

static void void_entries_keep_no_segment(void **state)
{
	(void)state;
	struct fixture_seen seen;
	struct journal *j = reopen(disk_system(), &seen);
	weir_error err = {0};
	append(j, 0, 1, 3);
	cut(j, 0, 2);
	append(j, 1, 1, 60);
	assert_true(segments_of(j) >= 3);
	journal_truncate_below(j, fixture_channels[0], 2);
	journal_truncate_below(j, fixture_channels[1], 61);
	while (segments_of(j) > 1)
		sched_yield();
	append_after(j, 0, 1, 2, 2);
	close_well(j);
	CHECK_OK(open_on(disk_system(), &j, &err), err);
	seen = fixture_seen_new(BODY);
	seen.channels[0].first = 2;
	seen.channels[1].first = 61;
	CHECK_OK(fixture_replay(j, &seen, &err), err);
	assert_true(seen.first[0] == 2 && seen.last[0] == 2 && seen.cuts[0][2] == 1);
	assert_int_equal(seen.channels[1].last, 60);
	close_well(j);
}

/* The cut and the entries behind it are all that remains of a channel with void entries. */
static void a_journal_may_begin_with_a_cut(void **state)
{
	(void)state;
	struct fixture_seen seen;
	struct journal *j = reopen(disk_system(), &seen);
	weir_error err = {0};
	append(j, 0, 1, 60);
	const uint64_t segments = segments_of(j);
	assert_true(segments >= 3);
	cut(j, 0, 58);
	append_after(j, 0, 1, 58, 62);
	journal_truncate_below(j, fixture_channels[0], 61);
	while (segments_of(j) >= segments)
		sched_yield();
	close_well(j);
	CHECK_OK(open_on(disk_system(), &j, &err), err);
	seen = fixture_seen_new(BODY);
	seen.channels[0].first = 61;
	seen.channels[0].flushed = 60;
	CHECK_OK(fixture_replay(j, &seen, &err), err);
	assert_true(seen.first[0] == 61 && seen.last[0] == 62 && seen.cuts[0][61] == 1);
	close_well(j);
}

static void a_restart_is_needed_again_from_its_first_entry(void **state)
{
	(void)state;
	struct fixture_seen seen;
	struct journal *j = reopen(disk_system(), &seen);
	weir_error err = {0};
	append(j, 0, 1, 60);
	journal_truncate_below(j, fixture_channels[0], 61);
	while (segments_of(j) > 1)
		sched_yield();
	restart(j, 0, 20);
	append_after(j, 0, 1, 20, 60);
	assert_true(segments_of(j) > 1 && journal_is_kept_by(j, fixture_channels[0]));
	assert_false(journal_is_kept_by(j, fixture_channels[1]));
	close_well(j);
	CHECK_OK(open_on(disk_system(), &j, &err), err);
	seen = fixture_seen_new(BODY);
	seen.channels[0].first = 20;
	CHECK_OK(fixture_replay(j, &seen, &err), err);
	assert_true(seen.first[0] == 20 && seen.last[0] == 60 && seen.cuts[0][20] == 1);
	close_well(j);
}

/* The void entries and their cut are in different segments. */
static void cuts_reach_over_segments(void **state)
{
	(void)state;
	struct fixture_seen seen;
	struct journal *j = reopen(disk_system(), &seen);
	append(j, 0, 1, 60);
	cut(j, 0, 11);
	append_after(j, 0, 1, 11, 70);
	cut(j, 0, 41);
	append_after(j, 0, 2, 41, 42);
	assert_true(segments_of(j) >= 6);
	close_well(j);
	close_well(reopen(disk_system(), &seen));
	assert_int_equal(seen.channels[0].last, 42);
	for (uint64_t i = 1; i <= 42; i++)
		assert_int_equal(seen.cuts[0][i], i > 40 ? 2 : i > 10 ? 1 : 0);
}

/* Changes the header of an entry in the file at `offset`, and repairs its checksum. */
static void patch_entry(const char *name, uint64_t offset, size_t at, uint64_t n)
{
	char path[256];
	uint8_t header[96];
	uint32_t crc;
	weir_error err = {0};
	struct disk *disk = disk_system();
	struct disk_file *f;
	size_t got;
	snprintf(path, sizeof path, "%s/journal/%s", folder, name);
	CHECK_OK(disk->ops->open(disk, path, false, &f, &err), err);
	CHECK_OK(disk->ops->read_at(f, offset, header, sizeof header, &got, &err), err);
	memcpy(header + at, &n, sizeof n);
	memset(header + 4, 0, 4);
	crc = crc32c(0, header, sizeof header);
	memcpy(header + 4, &crc, sizeof crc);
	CHECK_OK(disk->ops->write_at(f, offset, header, sizeof header, &err), err);
	disk->ops->close(f);
}

static void cuts_that_cannot_be_are_refused(void **state)
{
	(void)state;
	static const struct {
		size_t at;
		uint64_t n;
		const char *text;
	} wrongs[] = {
	    {32, 3, "partition 7's cut to entry 3 follows 1"},
	    {32, 0, "cut of channel 7 at 0"},
	    {40, 1024, "cut of channel 1024 at 2"},
	    {40, 8, "partition 8's cut to entry 2 is not of this server"},
	    {80, 3, "index 2, committed up to 3"},
	};
	for (size_t i = 0; i < sizeof wrongs / sizeof *wrongs; i++) {
		struct fixture_seen seen;
		struct journal *j = reopen(disk_system(), &seen);
		weir_error err = {0};
		char path[256];
		append(j, 1, 1, 1);
		const uint64_t offset = journal_end(j);
		cut(j, 1, 2);
		close_well(j);
		patch_entry("00000001.wal", offset, wrongs[i].at, wrongs[i].n);
		CHECK_OK(open_on(disk_system(), &j, &err), err);
		seen = fixture_seen_new(BODY);
		assert_int_equal(fixture_replay(j, &seen, &err), WEIR_E_CORRUPT);
		CHECK_CONTAINS(err.text, wrongs[i].text);
		close_well(j);
		snprintf(path, sizeof path, "%s/journal/00000001.wal", folder);
		assert_int_equal(unlink(path), 0);
	}
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

/* A child process holds the journal until the parent closes the pipe. */
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

/* Writes n at offset `at` of a segment's header, and repairs its checksum. */
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
	patch_header("00000002.wal", 8, 3);
	assert_int_equal(open_on(disk_system(), &j, &err), WEIR_E_VERSION);
	CHECK_CONTAINS(err.text, "journal/00000002.wal: format version 3, this program reads versions 1 to 2; use a newer Weir");
	patch_header("00000002.wal", 8, 2);
	patch_header("00000002.wal", 32, 0); /* belongs to nobody: a name of four bytes, then zeros */
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
	e.body.left = WEIR_ENTRY_BYTES_MAX - JOURNAL_ENTRY_HEADER_BYTES - RECORD_HEADER_BYTES + 1;
	assert_int_equal(journal_append(j, 0, &e, &err), WEIR_E_LIMIT);
	e.body.left--; /* now it fits, but it is larger than a segment here */
	CHECK_OK(journal_append(j, 0, &e, &err), err);
	message_release(m);
	close_well(j);
}

static void append_to_log(struct log *l, uint64_t from, uint64_t to, uint64_t cuts)
{
	weir_error err = {0};
	float rates[4];
	for (uint64_t i = from; i <= to; i++) {
		struct log_entry e = fixture_entry(0, i, cuts, BODY, rates);
		CHECK_OK(l->ops->append(l, &e, &err), err);
		message_release(e.message);
	}
}

static void the_log_on_disk_holds_what_it_is_given(void **state)
{
	(void)state;
	struct fixture_seen seen;
	struct journal *j = reopen(disk_system(), &seen);
	struct log *l = log_disk_create(j, 0, 1);
	assert_non_null(l);
	append_to_log(l, 1, 10, 0);
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

static weir_status restore_entry(void *ctx, uint16_t channel, const struct log_entry *e, weir_error *err)
{
	assert_int_equal(channel, 0);
	return log_disk_restore(ctx, e, err);
}

static weir_status restore_cut(void *ctx, uint16_t channel, const struct journal_cut *c, weir_error *err)
{
	assert_int_equal(channel, 0);
	return log_disk_restore_cut(ctx, c, err);
}

/* Opens the journal of one channel with a log from `first` on into *l. Returns the status of the
 * replay. */
static weir_status restore(struct journal **j, struct log **l, uint64_t first, weir_error *err)
{
	CHECK_OK(open_on(disk_system(), j, err), *err);
	*l = log_disk_create(*j, 0, first);
	assert_non_null(*l);
	struct journal_channel c = {.first = first, .flushed = first - 1};
	const struct journal_reader reader = {.entry = restore_entry, .cut = restore_cut, .ctx = *l};
	weir_status status = journal_replay(*j, &c, 1, &reader, err);
	if (status == WEIR_OK)
		assert_int_equal((*l)->ops->last(*l), c.last);
	return status;
}

static uint32_t payload_crc(const struct log_entry *e)
{
	uint8_t head[JOURNAL_HEAD_BYTES_MAX];
	struct journal_entry_header h;
	struct log_entry unknown = *e;
	weir_error err = {0};
	CHECK_OK(journal_describe(e, 0, &h, &err), err);
	unknown.has_payload_crc = false;
	return journal_payload_crc(&unknown, &h, head, journal_put_head(head, &unknown));
}

/* The log stores the checksum that came with the entry, or computes one. A wrong checksum that came
 * with an entry shows when the entry is read. */
static void an_entry_keeps_its_checksum(void **state)
{
	(void)state;
	struct fixture_seen seen;
	weir_error err = {0};
	struct log *l;
	struct journal *j = reopen(disk_system(), &seen);
	l = log_disk_create(j, 0, 1);
	append_to_log(l, 1, 9, 0);
	for (uint64_t i = 1; i <= 9; i++) {
		assert_true(l->ops->get(l, i)->has_payload_crc);
		assert_int_equal(l->ops->get(l, i)->payload_crc, payload_crc(l->ops->get(l, i)));
	}
	float rates[4];
	struct log_entry e = fixture_entry(0, 10, 0, BODY, rates);
	e.has_payload_crc = true;
	e.payload_crc = payload_crc(&e) ^ 1;
	CHECK_OK(l->ops->append(l, &e, &err), err);
	message_release(e.message);
	append_to_log(l, 11, 12, 0);
	l->ops->destroy(l);
	close_well(j);

	assert_int_equal(restore(&j, &l, 1, &err), WEIR_E_CORRUPT);
	CHECK_CONTAINS(err.text, "entry payload: crc");
	l->ops->destroy(l);
	(void)journal_close(j, &err);
}

static void assert_log(const struct log *l, uint64_t first, uint64_t last, uint64_t committed)
{
	assert_int_equal(l->ops->first(l), first);
	assert_int_equal(l->ops->last(l), last);
	assert_int_equal(l->ops->committed(l), committed);
}

static uint64_t epoch_of(struct log *l, uint64_t index)
{
	const struct log_entry *e = l->ops->get(l, index);
	assert_non_null(e);
	assert_int_equal(e->index, index);
	return e->epoch;
}

static void the_log_on_disk_is_cut_and_restored(void **state)
{
	(void)state;
	struct fixture_seen seen;
	weir_error err = {0};
	struct log *l;
	struct journal *j = reopen(disk_system(), &seen);
	l = log_disk_create(j, 0, 1);
	assert_non_null(l);
	append_to_log(l, 1, 10, 0);
	assert_log(l, 1, 10, 7);
	CHECK_OK(l->ops->truncate_above(l, 10, &err), err); /* nothing to cut */
	CHECK_OK(l->ops->truncate_above(l, 8, &err), err);
	assert_log(l, 1, 8, 7);
	assert_null(l->ops->get(l, 9));
	append_to_log(l, 9, 11, 1);
	assert_int_equal(epoch_of(l, 9), 1002);
	l->ops->destroy(l);
	close_well(j);

	CHECK_OK(restore(&j, &l, 1, &err), err);
	assert_log(l, 1, 11, 8);
	assert_int_equal(epoch_of(l, 8), 2);
	assert_int_equal(epoch_of(l, 9), 1002);
	l->ops->destroy(l);
	close_well(j);

	CHECK_OK(restore(&j, &l, 11, &err), err); /* a flush covers the cut entries, and more */
	assert_log(l, 11, 11, 10);
	CHECK_OK(l->ops->restart(l, 40, &err), err);
	assert_log(l, 40, 39, 39);
	append_to_log(l, 40, 44, 2);
	l->ops->destroy(l);
	close_well(j);

	CHECK_OK(restore(&j, &l, 40, &err), err);
	assert_log(l, 40, 44, 41);
	assert_int_equal(epoch_of(l, 40), 2009);
	l->ops->destroy(l);
	close_well(j);
}

static void what_could_not_be_appended_was_not_committed(void **state)
{
	(void)state;
	struct faulty_disk *disk = faulty_disk_create();
	struct fixture_seen seen;
	struct journal *j = reopen(faulty_disk_interface(disk), &seen);
	weir_error err = {0};
	float rates[4];
	struct log *l = log_disk_create(j, 0, 1);
	append_to_log(l, 1, 2, 0);
	faulty_disk_full_at(disk, 1);
	/* The entry says that it is committed itself. */
	struct log_entry e = fixture_entry(0, 3, 0, BODY, rates);
	assert_int_equal(l->ops->append(l, &e, &err), WEIR_E_NO_SPACE);
	message_release(e.message);
	assert_log(l, 1, 2, 2);
	assert_int_equal(l->ops->restart(l, 9, &err), WEIR_E_NO_SPACE);
	assert_log(l, 1, 2, 2);
	faulty_disk_make_room(disk);
	CHECK_OK(l->ops->restart(l, 9, &err), err);
	assert_log(l, 9, 8, 8);
	l->ops->destroy(l);
	close_well(j);
	faulty_disk_destroy(disk);
}

static void a_cut_of_what_is_committed_is_refused(void **state)
{
	(void)state;
	struct fixture_seen seen;
	weir_error err = {0};
	struct log *l;
	struct journal *j = reopen(disk_system(), &seen);
	append(j, 0, 1, 10); /* entry 10 says that 7 is committed */
	cut(j, 0, 7);
	close_well(j);
	assert_int_equal(restore(&j, &l, 1, &err), WEIR_E_CORRUPT);
	CHECK_CONTAINS(err.text, "a cut voids entry 7, entries up to 7 are committed");
	l->ops->destroy(l);
	close_well(j);
}

/* Returns the file's bytes as hexadecimal text, 16 in a line. The caller frees it. */
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

/* Writes a segment from the hexadecimal text of a golden file. */
static void lay_golden(const char *golden, const char *name)
{
	char path[256], *text;
	uint8_t bytes[4096];
	size_t n, count = 0;
	weir_error err = {0};
	struct disk *disk = disk_system();
	struct disk_file *f;
	CHECK_OK(disk_read_file(disk, golden, 1 << 20, &text, &n, &err), err);
	for (char *at = text, *end; count < sizeof bytes; at = end, count++) {
		bytes[count] = (uint8_t)strtoul(at, &end, 16);
		if (end == at)
			break;
	}
	free(text);
	snprintf(path, sizeof path, "%s/journal", folder);
	CHECK_OK(disk->ops->make_dirs(disk, path, &err), err);
	snprintf(path, sizeof path, "%s/journal/%s", folder, name);
	CHECK_OK(disk->ops->open(disk, path, true, &f, &err), err);
	CHECK_OK(disk->ops->write_at(f, 0, bytes, count, &err), err);
	disk->ops->close(f);
}

static void a_journal_of_version_1_is_read_and_goes_on(void **state)
{
	(void)state;
	enum { GOLDEN_BODY = 30 };
	struct fixture_seen seen = fixture_seen_new(GOLDEN_BODY);
	struct journal *j;
	weir_error err = {0};
	lay_golden(GOLDEN_DIR "/journal_segment_v1.hex", "00000001.wal");
	CHECK_OK(open_on(disk_system(), &j, &err), err);
	seen.all_committed = true;
	CHECK_OK(fixture_replay(j, &seen, &err), err);
	assert_true(seen.channels[0].last == 0 && seen.channels[1].last == 1 && seen.channels[2].last == 1);
	for (uint64_t i = 2; i <= 5; i++)
		CHECK_OK(fixture_append(j, 1, i, 0, GOLDEN_BODY, &err), err);
	cut(j, 1, 2);
	CHECK_OK(fixture_append(j, 1, 2, 1, GOLDEN_BODY, &err), err);
	close_well(j);
	CHECK_OK(open_on(disk_system(), &j, &err), err);
	seen = fixture_seen_new(GOLDEN_BODY);
	CHECK_OK(fixture_replay(j, &seen, &err), err);
	assert_true(seen.channels[1].last == 2 && seen.cuts[1][2] == 1 && seen.channels[2].last == 1);
	close_well(j);
}

/* A partition's entry, the ledger's, their cuts, an entry behind one cut, and the mark behind
 * all. */
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
	CHECK_OK(fixture_append(j, 1, 1, 0, GOLDEN_BODY, &err), err);
	CHECK_OK(fixture_append(j, 2, 1, 0, GOLDEN_BODY, &err), err);
	cut(j, 1, 1);
	restart(j, 2, 9);
	CHECK_OK(fixture_append(j, 2, 9, 1, GOLDEN_BODY, &err), err);
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
	    cmocka_unit_test(a_log_that_lost_its_synced_end_has_gone_back),
	    IN_FOLDER(another_process_has_it), /* first, because it forks */
	    IN_FOLDER(what_is_appended_is_replayed),
	    IN_FOLDER(threads_append_to_their_channels),
	    IN_FOLDER(one_sync_serves_all_that_wait),
	    IN_FOLDER(the_interval_syncs_by_itself),
	    IN_FOLDER(segments_go_when_no_channel_needs_them),
	    IN_FOLDER(what_a_flush_proves_must_be_there),
	    IN_FOLDER(entries_of_a_strange_partition_are_refused),
	    IN_FOLDER(files_of_others_are_refused),
	    IN_FOLDER(an_entry_too_large_is_refused),
	    IN_FOLDER(a_cut_voids_what_is_above_it),
	    IN_FOLDER(a_restart_begins_anywhere),
	    IN_FOLDER(a_void_channel_is_restarted),
	    IN_FOLDER(the_durable_index_goes_back_only_by_a_cut),
	    IN_FOLDER(what_is_cut_before_it_is_told_is_never_told),
	    IN_FOLDER(void_entries_keep_no_segment),
	    IN_FOLDER(a_journal_may_begin_with_a_cut),
	    IN_FOLDER(a_restart_is_needed_again_from_its_first_entry),
	    IN_FOLDER(cuts_reach_over_segments),
	    IN_FOLDER(cuts_that_cannot_be_are_refused),
	    IN_FOLDER(the_log_on_disk_holds_what_it_is_given),
	    IN_FOLDER(an_entry_keeps_its_checksum),
	    IN_FOLDER(the_log_on_disk_is_cut_and_restored),
	    IN_FOLDER(what_could_not_be_appended_was_not_committed),
	    IN_FOLDER(a_cut_of_what_is_committed_is_refused),
	    IN_FOLDER(a_journal_of_version_1_is_read_and_goes_on),
	    IN_FOLDER(the_bytes_are_those_of_the_format),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
