/* The space of a journal on disk: only what recovery needs, while it runs and after a clean end. */
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/log/journal_format.h"
#include "tests/unit/faulty_disk.h"
#include "tests/unit/server/log/journal_fixture.h"

/* ENTRIES fill several segments. */
enum { BODY = 3000, SEGMENT = 16 << 10, ENTRIES = 60, LARGE_BODY = 64 << 10 };

/* segment_bytes 0: the default. */
static struct journal *start(struct faulty_disk *d, uint64_t segment_bytes, struct fixture_seen *seen)
{
	struct journal_options options = {
	    .disk = faulty_disk_interface(d), .directory = "journal", .holder = "the test", .segment_bytes = segment_bytes};
	struct journal *j;
	weir_error err = {0};
	CHECK_OK(journal_open(&j, &options, &err), err);
	CHECK_OK(fixture_replay(j, seen, &err), err);
	return j;
}

static struct journal *start_new(struct faulty_disk *d)
{
	struct fixture_seen seen = fixture_seen_new(BODY);
	return start(d, SEGMENT, &seen);
}

static void append(struct journal *j, uint32_t c, uint64_t cuts, uint64_t from, uint64_t to)
{
	fixture_append_range(j, c, cuts, from, to, BODY);
}

static void wait_durable(struct journal *j)
{
	weir_error err = {0};
	CHECK_OK(journal_wait(j, &err), err);
}

/* A flush covers the channel's entries up to `last` before the replay. */
static void flushed(struct fixture_seen *seen, uint32_t c, uint64_t last)
{
	seen->channels[c].first = last + 1;
	seen->channels[c].flushed = last;
}

struct files {
	struct faulty_disk *disk;
	uint64_t bytes;
	uint64_t oldest, newest; /* file numbers */
};

static weir_status note_file(void *arg, const char *name)
{
	struct files *files = arg;
	const uint64_t number = strtoull(name, NULL, 10);
	char path[64];
	if (!strstr(name, ".wal"))
		return WEIR_OK;
	snprintf(path, sizeof path, "journal/%.40s", name);
	files->bytes += fixture_file_bytes(files->disk, path);
	files->newest = number > files->newest ? number : files->newest;
	files->oldest = files->oldest && files->oldest < number ? files->oldest : number;
	return WEIR_OK;
}

static struct files files_of(struct faulty_disk *d)
{
	struct files files = {.disk = d};
	struct disk *disk = faulty_disk_interface(d);
	weir_error err = {0};
	CHECK_OK(disk->ops->list(disk, "journal", note_file, &files, &err), err);
	return files;
}

static void await_one_segment(struct journal *j)
{
	struct journal_stats stats;
	for (journal_get_stats(j, &stats); stats.segments > 1; journal_get_stats(j, &stats))
		sched_yield();
}

static void a_clean_end_leaves_nothing_that_flushes_cover(void **state)
{
	(void)state;
	struct faulty_disk *d = faulty_disk_create();
	struct journal *j = start_new(d);
	append(j, 0, 0, 1, ENTRIES);
	append(j, 2, 0, 1, 3);
	const uint64_t position = journal_position(j);
	journal_truncate_below(j, fixture_channels[0], ENTRIES + 1);
	journal_truncate_below(j, fixture_channels[2], 4);
	fixture_close_journal(j);
	assert_int_equal(files_of(d).bytes, JOURNAL_SEGMENT_HEADER_BYTES + 2 * JOURNAL_ENTRY_HEADER_BYTES);

	/* First round: no append, and the files do not grow. */
	for (uint64_t last = ENTRIES; last < ENTRIES + 3; last++) {
		struct fixture_seen seen = fixture_seen_new(BODY);
		flushed(&seen, 0, last > ENTRIES ? last - 1 : last);
		flushed(&seen, 2, 3);
		j = start(d, SEGMENT, &seen);
		assert_int_equal(seen.channels[0].last, last > ENTRIES ? last - 1 : last);
		assert_int_equal(seen.channels[2].last, 3);
		assert_int_equal(seen.count, 0);
		assert_true(journal_position(j) >= position); /* positions never repeat */
		if (last > ENTRIES)
			append(j, 0, 0, last, last);
		journal_truncate_below(j, fixture_channels[0], last + 1);
		fixture_close_journal(j);
		assert_int_equal(files_of(d).bytes, JOURNAL_SEGMENT_HEADER_BYTES + 2 * JOURNAL_ENTRY_HEADER_BYTES);
	}
	faulty_disk_destroy(d);
}

/* After a clean end no entry remains that shows the mismatch. */
static void a_database_behind_a_clean_end_is_refused(void **state)
{
	(void)state;
	struct faulty_disk *d = faulty_disk_create();
	struct journal *j = start_new(d);
	append(j, 0, 0, 1, ENTRIES);
	journal_truncate_below(j, fixture_channels[0], ENTRIES + 1);
	fixture_close_journal(j);
	for (uint64_t last = 0; last < ENTRIES; last += ENTRIES / 4) {
		struct fixture_seen seen = fixture_seen_new(BODY);
		struct journal_options options = {
		    .disk = faulty_disk_interface(d), .directory = "journal", .holder = "the test", .segment_bytes = SEGMENT};
		weir_error err = {0};
		flushed(&seen, 0, last);
		CHECK_OK(journal_open(&j, &options, &err), err);
		assert_int_equal(fixture_replay(j, &seen, &err), WEIR_E_CORRUPT);
		CHECK_CONTAINS(err.text, "or the database beside it");
		(void)journal_close(j, NULL);
	}
	faulty_disk_destroy(d);
}

static void a_clean_end_keeps_what_recovery_needs(void **state)
{
	(void)state;
	struct faulty_disk *d = faulty_disk_create();
	struct fixture_seen seen = fixture_seen_new(BODY);
	struct journal *j = start_new(d);
	append(j, 0, 0, 1, ENTRIES);
	append(j, 1, 0, 1, 1);
	append(j, 0, 0, ENTRIES + 1, 2 * ENTRIES);
	wait_durable(j);
	const uint64_t bytes = files_of(d).bytes;
	journal_truncate_below(j, fixture_channels[0], 2 * ENTRIES + 1);
	fixture_close_journal(j); /* the entry of channel 1 is in the middle */
	assert_true(files_of(d).oldest > 1 && files_of(d).bytes < bytes * 3 / 4);
	flushed(&seen, 0, 2 * ENTRIES);
	j = start(d, SEGMENT, &seen);
	assert_true(seen.first[1] == 1 && seen.last[1] == 1 && seen.last[0] == 0);
	fixture_close_journal(j);
	faulty_disk_destroy(d);
}

/* Otherwise a partition that moved away would keep its log here until it returns. */
static void voided_entries_keep_no_segment(void **state)
{
	(void)state;
	struct faulty_disk *d = faulty_disk_create();
	struct fixture_seen seen = fixture_seen_new(BODY);
	struct journal *j = start_new(d);
	append(j, 0, 0, 1, ENTRIES);
	fixture_restart(j, 0, 1);
	append(j, 1, 0, 1, 20);
	wait_durable(j);
	journal_truncate_below(j, fixture_channels[1], 21);
	await_one_segment(j);
	fixture_restart(j, 0, 500); /* behind a snapshot: this log never had its entries */
	append(j, 1, 0, 21, 40);
	wait_durable(j);
	journal_truncate_below(j, fixture_channels[1], 41);
	await_one_segment(j);
	append(j, 0, 2, 500, 501);
	fixture_close_journal(j);
	flushed(&seen, 0, 499);
	flushed(&seen, 1, 40);
	j = start(d, SEGMENT, &seen);
	assert_true(seen.first[0] == 500 && seen.last[0] == 501);
	fixture_close_journal(j);
	faulty_disk_destroy(d);
}

/* The void entries are needed until the restart is durable: a crash may still lose the restart. */
static void a_restart_that_may_be_lost_voids_nothing_yet(void **state)
{
	(void)state;
	struct faulty_disk *d = faulty_disk_create();
	struct fixture_seen seen = fixture_seen_new(BODY);
	struct journal *j = start_new(d);
	append(j, 0, 0, 1, ENTRIES);
	wait_durable(j);
	faulty_disk_hold_syncs(d, true);
	fixture_restart(j, 0, 1);
	journal_sync(j);
	faulty_disk_await_held_sync(d);
	assert_true(files_of(d).oldest == 1 && files_of(d).newest > 2);
	faulty_disk_hold_syncs(d, false);
	await_one_segment(j);
	fixture_close_journal(j);
	j = start(d, SEGMENT, &seen);
	assert_int_equal(seen.channels[0].last, 0);
	fixture_close_journal(j);
	faulty_disk_destroy(d);
}

static void recovery_finds_what_a_restart_has_voided(void **state)
{
	(void)state;
	struct faulty_disk *d = faulty_disk_create();
	struct journal *j = start_new(d);
	append(j, 1, 0, 1, 1);
	append(j, 0, 0, 1, ENTRIES);
	fixture_restart(j, 0, 1);
	fixture_close_journal(j);
	assert_true(files_of(d).oldest == 1 && files_of(d).newest > 2);
	j = start_new(d);
	journal_truncate_below(j, fixture_channels[1], 2);
	fixture_close_journal(j);
	assert_int_equal(files_of(d).bytes, JOURNAL_SEGMENT_HEADER_BYTES + JOURNAL_ENTRY_HEADER_BYTES);
	faulty_disk_destroy(d);
}

/* An idle job reserves little space. A busy job rarely starts a file. */
static void segments_grow(void **state)
{
	(void)state;
	struct faulty_disk *d = faulty_disk_create();
	struct fixture_seen seen = fixture_seen_new(BODY);
	struct journal *j = start(d, 0, &seen);
	uint64_t last = 0;
	for (uint64_t number = 1; number <= 3; number++) {
		const uint64_t before = files_of(d).bytes, begun = WEIR_JOURNAL_FIRST_BYTES << (number - 1);
		for (weir_error err = {0}; files_of(d).newest < number; last++)
			CHECK_OK(fixture_append(j, 0, last + 1, 0, LARGE_BODY, &err), err);
		assert_in_range(files_of(d).bytes, before + begun - 2 * LARGE_BODY * (number > 1),
		                /* The segment before is cut to its end. */
		                before + begun);
	}
	fixture_close_journal(j);
	faulty_disk_destroy(d);
}

/* On a full disk a clean end still frees the space it can. */
static void a_full_disk_lets_a_journal_end(void **state)
{
	(void)state;
	struct faulty_disk *d = faulty_disk_create();
	struct fixture_seen seen = fixture_seen_new(BODY);
	struct journal *j = start_new(d);
	append(j, 0, 0, 1, ENTRIES);
	wait_durable(j);
	faulty_disk_full_at(d, faulty_disk_steps(d) + 1);
	journal_truncate_below(j, fixture_channels[0], ENTRIES + 1);
	fixture_close_journal(j);
	assert_true(files_of(d).bytes <= SEGMENT);
	faulty_disk_make_room(d);
	flushed(&seen, 0, ENTRIES);
	j = start(d, SEGMENT, &seen);
	assert_int_equal(seen.channels[0].last, ENTRIES);
	append(j, 0, 0, ENTRIES + 1, ENTRIES + 1);
	fixture_close_journal(j);
	faulty_disk_destroy(d);
}

/* The power fails at every step of a clean end. The journal must recover. */
static void a_clean_end_may_be_cut_off_anywhere(void **state)
{
	(void)state;
	bool ended = false;
	uint32_t cut_off = 0;
	for (uint64_t step = 1; !ended; step++)
		for (uint64_t seed = 0; seed < 12; seed++) {
			struct faulty_disk *d = faulty_disk_create();
			struct fixture_seen seen = fixture_seen_new(BODY);
			struct journal *j = start_new(d);
			append(j, 0, 0, 1, ENTRIES);
			append(j, 1, 0, 1, 5);
			wait_durable(j);
			const uint64_t position = journal_position(j);
			faulty_disk_power_off_at(d, faulty_disk_steps(d) + step);
			journal_truncate_below(j, fixture_channels[0], ENTRIES + 1);
			journal_truncate_below(j, fixture_channels[1], 6);
			ended = journal_close(j, NULL) == WEIR_OK;
			cut_off += !ended;
			faulty_disk_crash(d, seed == 0 ? CRASH_PROCESS : seed == 1 ? CRASH_UNSYNCED : CRASH_RANDOM, seed);
			flushed(&seen, 0, ENTRIES);
			flushed(&seen, 1, 5);
			j = start(d, SEGMENT, &seen);
			assert_true(seen.channels[0].last == ENTRIES && seen.channels[1].last == 5);
			assert_true(journal_position(j) >= position);
			append(j, 0, 0, ENTRIES + 1, ENTRIES + 2);
			append(j, 1, 0, 6, 6);
			fixture_close_journal(j);
			seen = fixture_seen_new(BODY);
			flushed(&seen, 0, ENTRIES);
			flushed(&seen, 1, 5);
			j = start(d, SEGMENT, &seen);
			assert_true(seen.channels[0].last == ENTRIES + 2 && seen.channels[1].last == 6);
			fixture_close_journal(j);
			faulty_disk_destroy(d);
		}
	assert_true(cut_off > 12);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_clean_end_leaves_nothing_that_flushes_cover),
	    cmocka_unit_test(a_database_behind_a_clean_end_is_refused),
	    cmocka_unit_test(a_clean_end_keeps_what_recovery_needs),
	    cmocka_unit_test(recovery_finds_what_a_restart_has_voided),
	    cmocka_unit_test(segments_grow),
	    cmocka_unit_test(a_full_disk_lets_a_journal_end),
	    cmocka_unit_test(a_clean_end_may_be_cut_off_anywhere),
	    cmocka_unit_test(a_restart_that_may_be_lost_voids_nothing_yet),
	    cmocka_unit_test(voided_entries_keep_no_segment),
	};
	return cmocka_run_group_tests_name("journal_space", tests, NULL, NULL);
}
