/* Cuts of a journal: entries that a cut or a restart voids, and the segments and durable indices
 * behind it. */
#include <sched.h>
#include <stdio.h>
#include <unistd.h>

#include "common/base/crc32c.h"
#include "tests/unit/faulty_disk.h"
#include "tests/unit/server/log/journal_folder.h"

/* Bytes of the only segment. */
static uint64_t journal_end(struct journal *j)
{
	struct journal_stats stats;
	journal_get_stats(j, &stats);
	assert_int_equal(stats.segments, 1);
	return stats.bytes;
}

static void a_cut_voids_the_entries_above_it(void **state)
{
	(void)state;
	struct fixture_seen seen;
	struct journal *j = reopen(disk_system(), &seen);
	for (uint32_t c = 0; c < FIXTURE_CHANNELS; c++)
		append(j, c, 1, 10);
	fixture_cut(j, 0, 6);
	append_behind_cuts(j, 0, 1, 6, 8);
	fixture_cut(j, 2, 10);
	fixture_cut(j, 2, 1);
	fixture_close_journal(j);
	for (unsigned round = 0; round < 2; round++) {
		j = reopen(disk_system(), &seen);
		assert_true(seen.first[0] == 1 && seen.last[0] == 8 && seen.channels[0].last == 8);
		for (uint64_t i = 1; i <= 8; i++)
			assert_int_equal(seen.cuts[0][i], i > 5);
		assert_true(seen.last[1] == 10 && seen.channels[1].last == 10);
		assert_true(seen.last[2] == 0 && seen.channels[2].last == 0);
		assert_int_equal(journal_durable(j, fixture_channels[0]), 8);
		assert_false(seen.channels[0].restarted || seen.channels[1].restarted || seen.channels[2].restarted);
		fixture_close_journal(j);
	}
	j = reopen(disk_system(), &seen);
	append_behind_cuts(j, 0, 1, 9, 9);
	append_behind_cuts(j, 2, 2, 1, 2);
	fixture_close_journal(j);
	fixture_close_journal(reopen(disk_system(), &seen));
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
	fixture_restart(j, 0, 50);
	append_behind_cuts(j, 0, 1, 50, 52);
	fixture_restart(j, 1, 4);
	append_behind_cuts(j, 1, 1, 4, 5);
	fixture_restart(j, 2, 1);
	fixture_close_journal(j);
	j = reopen(disk_system(), &seen);
	assert_true(seen.first[0] == 50 && seen.last[0] == 52 && seen.channels[0].last == 52);
	assert_true(seen.first[1] == 4 && seen.last[1] == 5 && seen.channels[1].last == 5);
	assert_true(seen.first[2] == 0 && seen.channels[2].last == 0);
	assert_true(seen.channels[0].restarted && seen.channels[1].restarted && seen.channels[2].restarted);
	fixture_close_journal(j);

	/* A restart is not an error when a flush covers more than the log has. */
	weir_error err = {0};
	CHECK_OK(open_journal(disk_system(), &j, &err), err);
	seen = fixture_seen_new(BODY);
	seen.channels[1].first = seen.channels[1].flushed = 8;
	seen.channels[2].first = seen.channels[2].flushed = 8;
	CHECK_OK(fixture_replay(j, &seen, &err), err);
	assert_true(seen.first[1] == 0 && seen.channels[1].last == 5);
	assert_true(seen.first[2] == 0 && seen.channels[2].last == 0);
	append_behind_cuts(j, 2, 1, 1, 1);
	fixture_close_journal(j);
	fixture_close_journal(reopen(disk_system(), &seen));
	assert_int_equal(seen.channels[2].last, 1);
}

/* The first entries of a void channel are gone. Replay does not ask for them. */
static void a_void_channel_is_restarted(void **state)
{
	(void)state;
	struct fixture_seen seen;
	weir_error err = {0};
	struct journal *j = reopen(disk_system(), &seen);
	fixture_restart(j, 0, 50);
	append_behind_cuts(j, 0, 1, 50, 52);
	append(j, 1, 1, 3);
	fixture_cut(j, 0, 52);
	fixture_close_journal(j);
	CHECK_OK(open_journal(disk_system(), &j, &err), err);
	seen = fixture_seen_new(BODY);
	seen.channels[0].is_void = true;
	/* Otherwise replay would miss the entries. */
	seen.channels[0].first = seen.channels[0].flushed = 60;
	CHECK_OK(fixture_replay(j, &seen, &err), err);
	assert_true(seen.first[0] == 0 && seen.cuts[0][50] == 0);
	assert_true(seen.first[1] == 1 && seen.last[1] == 3);
	fixture_restart(j, 0, 1);
	append(j, 0, 1, 2);
	fixture_close_journal(j);
	fixture_close_journal(reopen(disk_system(), &seen));
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
	fixture_cut(j, 0, 4); /* the old entry 4 is being synced, the new one is not */
	append_behind_cuts(j, 0, 1, 4, 5);
	assert_int_equal(journal_durable(j, fixture_channels[0]), 2);
	faulty_disk_hold_syncs(disk, false);
	while (journal_durable(j, fixture_channels[1]) == 0) /* published after channel 0 */
		sched_yield();
	assert_int_equal(journal_durable(j, fixture_channels[0]), 3);
	CHECK_OK(journal_wait(j, &err), err);
	assert_int_equal(journal_durable(j, fixture_channels[0]), 5);
	fixture_cut(j, 0, 2);
	assert_int_equal(journal_durable(j, fixture_channels[0]), 1);
	fixture_restart(j, 0, 9);
	/* Not even the restart is durable. */
	assert_int_equal(journal_durable(j, fixture_channels[0]), 0);
	CHECK_OK(journal_wait(j, &err), err);
	assert_int_equal(journal_durable(j, fixture_channels[0]), 8);
	fixture_restart(j, 0, 4);
	assert_int_equal(journal_durable(j, fixture_channels[0]), 0);
	CHECK_OK(journal_wait(j, &err), err);
	assert_int_equal(journal_durable(j, fixture_channels[0]), 3);
	fixture_close_journal(j);
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
static void entries_cut_before_their_notice_are_not_reported(void **state)
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
	fixture_cut(j, 0, 2);
	gate.open = true;
	while (journal_durable(j, fixture_channels[0]) == 0)
		sched_yield();
	assert_int_equal(journal_durable(j, fixture_channels[0]), 1);
	fixture_close_journal(j);
}

static void void_entries_keep_no_segment(void **state)
{
	(void)state;
	struct fixture_seen seen;
	struct journal *j = reopen(disk_system(), &seen);
	weir_error err = {0};
	append(j, 0, 1, 3);
	fixture_cut(j, 0, 2);
	append(j, 1, 1, 60);
	assert_true(segments_of(j) >= 3);
	journal_truncate_below(j, fixture_channels[0], 2);
	journal_truncate_below(j, fixture_channels[1], 61);
	while (segments_of(j) > 1)
		sched_yield();
	append_behind_cuts(j, 0, 1, 2, 2);
	fixture_close_journal(j);
	CHECK_OK(open_journal(disk_system(), &j, &err), err);
	seen = fixture_seen_new(BODY);
	seen.channels[0].first = 2;
	seen.channels[1].first = 61;
	CHECK_OK(fixture_replay(j, &seen, &err), err);
	assert_true(seen.first[0] == 2 && seen.last[0] == 2 && seen.cuts[0][2] == 1);
	assert_int_equal(seen.channels[1].last, 60);
	fixture_close_journal(j);
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
	fixture_cut(j, 0, 58);
	append_behind_cuts(j, 0, 1, 58, 62);
	journal_truncate_below(j, fixture_channels[0], 61);
	while (segments_of(j) >= segments)
		sched_yield();
	fixture_close_journal(j);
	CHECK_OK(open_journal(disk_system(), &j, &err), err);
	seen = fixture_seen_new(BODY);
	seen.channels[0].first = 61;
	seen.channels[0].flushed = 60;
	CHECK_OK(fixture_replay(j, &seen, &err), err);
	assert_true(seen.first[0] == 61 && seen.last[0] == 62 && seen.cuts[0][61] == 1);
	fixture_close_journal(j);
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
	fixture_restart(j, 0, 20);
	append_behind_cuts(j, 0, 1, 20, 60);
	assert_true(segments_of(j) > 1 && journal_is_kept_by(j, fixture_channels[0]));
	assert_false(journal_is_kept_by(j, fixture_channels[1]));
	fixture_close_journal(j);
	CHECK_OK(open_journal(disk_system(), &j, &err), err);
	seen = fixture_seen_new(BODY);
	seen.channels[0].first = 20;
	CHECK_OK(fixture_replay(j, &seen, &err), err);
	assert_true(seen.first[0] == 20 && seen.last[0] == 60 && seen.cuts[0][20] == 1);
	fixture_close_journal(j);
}

/* The void entries and their cut are in different segments. */
static void cuts_reach_over_segments(void **state)
{
	(void)state;
	struct fixture_seen seen;
	struct journal *j = reopen(disk_system(), &seen);
	append(j, 0, 1, 60);
	fixture_cut(j, 0, 11);
	append_behind_cuts(j, 0, 1, 11, 70);
	fixture_cut(j, 0, 41);
	append_behind_cuts(j, 0, 2, 41, 42);
	assert_true(segments_of(j) >= 6);
	fixture_close_journal(j);
	fixture_close_journal(reopen(disk_system(), &seen));
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
	snprintf(path, sizeof path, "%s/journal/%s", journal_folder, name);
	CHECK_OK(disk->ops->open(disk, path, false, &f, &err), err);
	CHECK_OK(disk->ops->read_at(f, offset, header, sizeof header, &got, &err), err);
	memcpy(header + at, &n, sizeof n);
	memset(header + 4, 0, 4);
	crc = crc32c(0, header, sizeof header);
	memcpy(header + 4, &crc, sizeof crc);
	CHECK_OK(disk->ops->write_at(f, offset, header, sizeof header, &err), err);
	disk->ops->close(f);
}

static void impossible_cuts_are_refused(void **state)
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
		fixture_cut(j, 1, 2);
		fixture_close_journal(j);
		patch_entry("00000001.wal", offset, wrongs[i].at, wrongs[i].n);
		CHECK_OK(open_journal(disk_system(), &j, &err), err);
		seen = fixture_seen_new(BODY);
		assert_int_equal(fixture_replay(j, &seen, &err), WEIR_E_CORRUPT);
		CHECK_CONTAINS(err.text, wrongs[i].text);
		fixture_close_journal(j);
		snprintf(path, sizeof path, "%s/journal/00000001.wal", journal_folder);
		assert_int_equal(unlink(path), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    IN_JOURNAL_FOLDER(a_cut_voids_the_entries_above_it),
	    IN_JOURNAL_FOLDER(a_restart_begins_anywhere),
	    IN_JOURNAL_FOLDER(a_void_channel_is_restarted),
	    IN_JOURNAL_FOLDER(the_durable_index_goes_back_only_by_a_cut),
	    IN_JOURNAL_FOLDER(entries_cut_before_their_notice_are_not_reported),
	    IN_JOURNAL_FOLDER(void_entries_keep_no_segment),
	    IN_JOURNAL_FOLDER(a_journal_may_begin_with_a_cut),
	    IN_JOURNAL_FOLDER(a_restart_is_needed_again_from_its_first_entry),
	    IN_JOURNAL_FOLDER(cuts_reach_over_segments),
	    IN_JOURNAL_FOLDER(impossible_cuts_are_refused),
	};
	return cmocka_run_group_tests_name("journal_truncation", tests, NULL, NULL);
}
