/* The journal on a disk that fails at every step of a small scenario: power cuts that lose, tear
 * and reorder writes, full disks, failed fsyncs, flipped bits. Recovery returns all entries that
 * were reported durable, in order and bit for bit, or names the damage. */
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "server/log/journal_format.h"
#include "tests/rounds.h"
#include "tests/unit/faulty_disk.h"
#include "tests/unit/server/log/journal_fixture.h"

enum { BODY = 900, SEGMENT = 4096, SCENARIO = 24 };

/* What the caller knows of a journal. */
struct life {
	uint64_t appended[FIXTURE_CHANNELS];  /* accepted */
	uint64_t durable[FIXTURE_CHANNELS];   /* reported durable */
	uint64_t truncated[FIXTURE_CHANNELS]; /* not needed below */
};

static struct life new_life(void)
{
	return (struct life){.truncated = {1, 1, 1}};
}

static weir_status open_journal(struct faulty_disk *d, struct journal **j, weir_error *err)
{
	struct journal_options options = {
	    .disk = faulty_disk_interface(d), .directory = "journal", .holder = "the test", .segment_bytes = SEGMENT};
	return journal_open(j, &options, err);
}

static void note_durable(struct journal *j, struct life *life)
{
	for (uint32_t c = 0; c < FIXTURE_CHANNELS; c++)
		life->durable[c] = journal_durable(j, fixture_channels[c]);
}

static weir_status append_next(struct journal *j, struct life *life, uint32_t c, weir_error *err)
{
	weir_status status = fixture_append(j, c, life->appended[c] + 1, 0, BODY, err);
	if (status == WEIR_OK)
		life->appended[c]++;
	return status;
}

/* Appends SCENARIO entries over the channels, with syncs at times and truncations behind them.
 * Stops at the first error. */
static weir_status live(struct journal *j, struct life *life, weir_error *err)
{
	weir_status status = WEIR_OK;
	for (uint32_t i = 0; i < SCENARIO && status == WEIR_OK; i++) {
		status = append_next(j, life, i % FIXTURE_CHANNELS, err);
		if (status == WEIR_OK && i % 5 == 4)
			status = journal_wait(j, err);
		note_durable(j, life);
		for (uint32_t c = 0; c < FIXTURE_CHANNELS && i % 10 == 9 && status == WEIR_OK; c++) {
			life->truncated[c] = life->durable[c] > 2 ? life->durable[c] - 1 : 1;
			journal_truncate_below(j, fixture_channels[c], life->truncated[c]);
		}
	}
	return status;
}

/* Opens and replays. On success, all durable entries are there, and no entry that was never
 * appended. */
static weir_status recover(struct faulty_disk *d, struct journal **j, struct life *life, weir_error *err)
{
	struct fixture_seen seen = fixture_seen_new(BODY);
	for (uint32_t c = 0; c < FIXTURE_CHANNELS; c++) {
		seen.channels[c].first = life->truncated[c];
		seen.channels[c].flushed = life->truncated[c] - 1;
	}
	*j = NULL;
	weir_status status = open_journal(d, j, err);
	if (status == WEIR_OK)
		status = fixture_replay(*j, &seen, err);
	for (uint32_t c = 0; c < FIXTURE_CHANNELS && status == WEIR_OK; c++) {
		if (seen.count && seen.last[c])
			assert_int_equal(seen.first[c], life->truncated[c]);
		assert_true(seen.channels[c].last >= life->durable[c]);
		/* An entry in progress may be whole. */
		assert_true(seen.channels[c].last <= life->appended[c] + 1);
		life->appended[c] = life->durable[c] = seen.channels[c].last;
	}
	return status;
}

static void recover_well(struct faulty_disk *d, struct journal **j, struct life *life)
{
	weir_error err = {0};
	CHECK_OK(recover(d, j, life, &err), err);
}

static void crash(struct faulty_disk *d, struct journal *j, struct life *life, enum faulty_crash how, uint64_t seed)
{
	note_durable(j, life);
	faulty_disk_power_off_at(d, 1);
	(void)journal_close(j, NULL);
	faulty_disk_crash(d, how, seed);
}

static uint64_t steps_of_a_life(void)
{
	struct faulty_disk *d = faulty_disk_create();
	struct life life = new_life();
	struct journal *j;
	weir_error err = {0};
	recover_well(d, &j, &life);
	CHECK_OK(live(j, &life, &err), err);
	fixture_close_journal(j);
	uint64_t steps = faulty_disk_steps(d);
	faulty_disk_destroy(d);
	return steps;
}

/* The power fails at `step`, and again at step `again` of the recovery (0: it does not). Then all
 * works. */
static void die_at(uint64_t step, uint64_t again, uint64_t seed)
{
	struct faulty_disk *d = faulty_disk_create();
	struct life life = new_life();
	struct journal *j;
	weir_error err = {0};
	enum faulty_crash how = seed == 0 ? CRASH_PROCESS : seed == 1 ? CRASH_UNSYNCED : CRASH_RANDOM;
	faulty_disk_power_off_at(d, step);
	if (recover(d, &j, &life, &err) == WEIR_OK)
		(void)live(j, &life, &err);
	if (j)
		crash(d, j, &life, how, seed);
	else
		faulty_disk_crash(d, how, seed);
	if (again) {
		faulty_disk_power_off_at(d, faulty_disk_steps(d) + again);
		struct life before = life;
		if (recover(d, &j, &life, &err) != WEIR_OK)
			life = before;
		if (j)
			crash(d, j, &life, how, seed + 1);
		else
			faulty_disk_crash(d, how, seed + 1);
	}
	recover_well(d, &j, &life);
	for (uint32_t i = 0; i < 2 * FIXTURE_CHANNELS; i++)
		CHECK_OK(append_next(j, &life, i % FIXTURE_CHANNELS, &err), err);
	CHECK_OK(journal_wait(j, &err), err);
	crash(d, j, &life, CRASH_UNSYNCED, 0);
	recover_well(d, &j, &life);
	fixture_close_journal(j);
	faulty_disk_destroy(d);
}

static void power_cuts_at_every_step(void **state)
{
	(void)state;
	uint64_t steps = steps_of_a_life();
	assert_true(steps > 50);
	for (uint64_t step = 1; step <= steps; step++)
		/* The first two seeds stand for the crashes that are not random. */
		for (uint64_t seed = 0; seed < 2 + rounds(18); seed++)
			die_at(step, 0, seed);
}

static void power_cuts_during_recovery(void **state)
{
	(void)state;
	uint64_t steps = steps_of_a_life();
	for (uint64_t step = 1; step <= steps; step++)
		for (uint64_t i = 0; i < rounds(6); i++) {
			const uint64_t again = 1 + (step + i) % 6;
			die_at(step, again, 100 * step + again);
		}
}

/* The last entry of a log with one channel is cut at every byte. Then appends follow. */
static void a_torn_tail_at_every_byte(void **state)
{
	(void)state;
	for (uint32_t torn = 0;; torn++) {
		struct faulty_disk *d = faulty_disk_create();
		struct disk *disk = faulty_disk_interface(d);
		struct life life = new_life();
		struct journal *j;
		struct disk_file *f;
		weir_error err = {0};
		uint64_t end;
		struct journal_stats stats;
		recover_well(d, &j, &life);
		CHECK_OK(append_next(j, &life, 0, &err), err);
		CHECK_OK(append_next(j, &life, 0, &err), err);
		journal_get_stats(j, &stats);
		end = stats.bytes;
		crash(d, j, &life, CRASH_PROCESS, 0);
		CHECK_OK(disk->ops->open(disk, "journal/00000001.wal", false, &f, &err), err);
		CHECK_OK(disk->ops->truncate(f, end - torn, &err), err);
		disk->ops->close(f);
		recover_well(d, &j, &life);
		bool first_only = life.appended[0] == 1, none = life.appended[0] == 0;
		assert_int_equal(life.appended[0] == 2, torn == 0);
		for (unsigned i = 0; i < 3; i++)
			CHECK_OK(append_next(j, &life, 0, &err), err);
		CHECK_OK(journal_wait(j, &err), err);
		crash(d, j, &life, CRASH_UNSYNCED, 0);
		recover_well(d, &j, &life);
		assert_int_equal(life.appended[0], (torn == 0 ? 2 : first_only) + 3);
		fixture_close_journal(j);
		faulty_disk_destroy(d);
		if (none)
			break; /* the last entry is gone, the one before it is torn */
	}
}

static void a_full_disk_at_every_step(void **state)
{
	(void)state;
	uint64_t steps = steps_of_a_life(), refused = 0;
	for (uint64_t step = 3; step <= steps; step++) { /* the lock file exists from step 3 on */
		struct faulty_disk *d = faulty_disk_create();
		struct life life = new_life();
		struct journal *j;
		weir_error err = {0};
		struct journal_stats stats;
		recover_well(d, &j, &life);
		faulty_disk_full_at(d, step);
		weir_status status = live(j, &life, &err);
		if (status != WEIR_OK) {
			assert_int_equal(status, WEIR_E_NO_SPACE);
			/* The disk stays full. */
			assert_int_equal(append_next(j, &life, 0, &err), WEIR_E_NO_SPACE);
			journal_get_stats(j, &stats);
			assert_true(stats.full >= 2);
			refused++;
		}
		faulty_disk_make_room(d);
		CHECK_OK(live(j, &life, &err), err);
		CHECK_OK(journal_wait(j, &err), err);
		crash(d, j, &life, CRASH_UNSYNCED, step);
		recover_well(d, &j, &life);
		fixture_close_journal(j);
		faulty_disk_destroy(d);
	}
	assert_true(refused > SCENARIO);
}

static void a_full_disk_is_told_with_what_to_do(void **state)
{
	(void)state;
	struct faulty_disk *d = faulty_disk_create();
	struct life life = new_life();
	struct journal *j;
	weir_error err = {0};
	recover_well(d, &j, &life);
	faulty_disk_full_at(d, 1);
	assert_int_equal(append_next(j, &life, 0, &err), WEIR_E_NO_SPACE);
	CHECK_CONTAINS(err.text, "journal/00000001.wal.tmp");
	CHECK_CONTAINS(err.text, "0 bytes are free, the log needs 4096 for its next segment");
	fixture_close_journal(j);
	faulty_disk_destroy(d);
}

struct failure {
	_Atomic uint32_t count;
	weir_status status;
};

static void on_failed(void *ctx, const weir_error *err)
{
	struct failure *f = ctx;
	f->status = err->status;
	f->count++;
}

static void a_failed_sync_is_final(void **state)
{
	(void)state;
	struct faulty_disk *d = faulty_disk_create();
	struct life life = new_life();
	struct fixture_seen seen = fixture_seen_new(BODY);
	struct failure failure = {0};
	struct journal *j;
	weir_error err = {0};
	struct journal_options options = {.disk = faulty_disk_interface(d),
	                                  .directory = "journal",
	                                  .holder = "the test",
	                                  .segment_bytes = SEGMENT,
	                                  .failed = on_failed,
	                                  .ctx = &failure};
	CHECK_OK(journal_open(&j, &options, &err), err);
	CHECK_OK(fixture_replay(j, &seen, &err), err);
	CHECK_OK(append_next(j, &life, 0, &err), err);
	CHECK_OK(journal_wait(j, &err), err);
	CHECK_OK(append_next(j, &life, 0, &err), err);
	faulty_disk_fail_sync_at(d, 1);
	assert_int_equal(journal_wait(j, &err), WEIR_E_IO);
	CHECK_CONTAINS(err.text, "the journal has failed: cannot sync journal/00000001.wal");
	uint64_t syncs = faulty_disk_syncs(d);
	assert_int_equal(append_next(j, &life, 0, &err), WEIR_E_IO);
	assert_int_equal(append_next(j, &life, 1, &err), WEIR_E_IO);
	assert_int_equal(journal_wait(j, &err), WEIR_E_IO);
	while (failure.count == 0)
		sched_yield();
	assert_int_equal(failure.status, WEIR_E_IO);
	note_durable(j, &life);
	assert_int_equal(life.durable[0], 1);
	assert_int_equal(journal_close(j, &err), WEIR_E_IO);
	assert_int_equal(failure.count, 1);
	assert_int_equal(faulty_disk_syncs(d), syncs); /* the journal does not retry fsync */

	/* The page cache still has the second entry, the device does not. Only the device counts. */
	faulty_disk_crash(d, CRASH_PROCESS, 0);
	recover_well(d, &j, &life);
	assert_int_equal(life.appended[0], 1);
	CHECK_OK(append_next(j, &life, 0, &err), err);
	CHECK_OK(journal_wait(j, &err), err);
	crash(d, j, &life, CRASH_UNSYNCED, 0);
	recover_well(d, &j, &life);
	assert_int_equal(life.appended[0], 2);
	fixture_close_journal(j);
	faulty_disk_destroy(d);
}

static void a_failed_write_is_final(void **state)
{
	(void)state;
	struct faulty_disk *d = faulty_disk_create();
	struct life life = new_life();
	struct journal *j;
	weir_error err = {0};
	recover_well(d, &j, &life);
	CHECK_OK(append_next(j, &life, 0, &err), err);
	CHECK_OK(journal_wait(j, &err), err);
	faulty_disk_power_off_at(d, 1);
	assert_int_equal(append_next(j, &life, 0, &err), WEIR_E_IO);
	assert_int_equal(append_next(j, &life, 0, &err), WEIR_E_IO);
	CHECK_CONTAINS(err.text, "the journal has failed: cannot write journal/00000001.wal");
	CHECK_OK(journal_wait(j, &err), err); /* accepted entries are durable */
	assert_int_equal(journal_close(j, &err), WEIR_E_IO);
	faulty_disk_crash(d, CRASH_UNSYNCED, 0);
	recover_well(d, &j, &life);
	assert_int_equal(life.appended[0], 1);
	fixture_close_journal(j);
	faulty_disk_destroy(d);
}

/* A journal without truncations. All entries are durable, and the mark behind them is written.
 * entries_end: of the last segment. */
static struct faulty_disk *durable_journal(struct life *life, uint32_t *segments, uint64_t *entries_end)
{
	struct faulty_disk *d = faulty_disk_create();
	struct journal *j;
	struct journal_stats stats;
	weir_error err = {0};
	char path[64];
	*life = new_life();
	recover_well(d, &j, life);
	for (uint32_t i = 0; i < SCENARIO; i++)
		CHECK_OK(append_next(j, life, i % FIXTURE_CHANNELS, &err), err);
	CHECK_OK(journal_wait(j, &err), err);
	journal_get_stats(j, &stats);
	*segments = (uint32_t)stats.segments;
	*entries_end = stats.bytes - JOURNAL_ENTRY_HEADER_BYTES; /* without the mark */
	crash(d, j, life, CRASH_PROCESS, 0);
	for (uint32_t i = 1; i < *segments; i++) {
		snprintf(path, sizeof path, "journal/%08u.wal", i);
		*entries_end -= fixture_file_bytes(d, path);
	}
	return d;
}

static void a_flipped_bit_is_named(void **state)
{
	(void)state;
	struct life life;
	uint32_t segments;
	uint64_t entries_end;
	struct faulty_disk *d = durable_journal(&life, &segments, &entries_end);
	assert_true(segments >= 3);
	for (uint32_t i = 1; i <= segments; i++) {
		char path[64];
		snprintf(path, sizeof path, "journal/%08u.wal", i);
		uint64_t bytes = i < segments ? fixture_file_bytes(d, path) : entries_end;
		for (uint64_t at = 0; at < bytes; at++) {
			struct journal *j;
			struct life copy = life;
			weir_error err = {0};
			faulty_disk_flip(d, path, at, at % 8);
			assert_int_equal(recover(d, &j, &copy, &err), WEIR_E_CORRUPT);
			CHECK_CONTAINS(err.text, path);
			(void)journal_close(j, NULL);
			faulty_disk_flip(d, path, at, at % 8);
		}
	}
	struct journal *j; /* the journal is unchanged and still opens */
	recover_well(d, &j, &life);
	assert_int_equal(life.appended[0] + life.appended[1] + life.appended[2], SCENARIO);
	fixture_close_journal(j);
	faulty_disk_destroy(d);
}

static void damage_is_told_by_file_place_and_entry(void **state)
{
	(void)state;
	struct life life;
	uint32_t segments;
	uint64_t entries_end;
	struct faulty_disk *d = durable_journal(&life, &segments, &entries_end);
	struct journal *j;
	weir_error err = {0};
	faulty_disk_flip(d, "journal/00000001.wal", JOURNAL_SEGMENT_HEADER_BYTES + JOURNAL_ENTRY_HEADER_BYTES + 10, 3);
	assert_int_equal(recover(d, &j, &life, &err), WEIR_E_CORRUPT);
	CHECK_CONTAINS(err.text,
	               "journal/00000001.wal is damaged at byte 64: partition 0's entry 1 cannot be read: entry payload: crc");
	(void)journal_close(j, NULL);
	faulty_disk_destroy(d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(power_cuts_at_every_step),
	    cmocka_unit_test(power_cuts_during_recovery),
	    cmocka_unit_test(a_torn_tail_at_every_byte),
	    cmocka_unit_test(a_full_disk_at_every_step),
	    cmocka_unit_test(a_full_disk_is_told_with_what_to_do),
	    cmocka_unit_test(a_failed_sync_is_final),
	    cmocka_unit_test(a_failed_write_is_final),
	    cmocka_unit_test(a_flipped_bit_is_named),
	    cmocka_unit_test(damage_is_told_by_file_place_and_entry),
	};
	return cmocka_run_group_tests_name("journal_faults", tests, NULL, NULL);
}
