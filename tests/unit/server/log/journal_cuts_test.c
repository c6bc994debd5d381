/* A journal with cuts (journal_history.h) on a disk that fails at every step: power cuts that lose,
 * tear and reorder writes before, in and behind every cut, and a full disk. Recovery always finds
 * the log as it was after one of the operations: with a cut and all entries behind it, or with
 * neither. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/log/journal_format.h"
#include "tests/rounds.h"
#include "tests/unit/faulty_disk.h"
#include "tests/unit/server/log/journal_history.h"

static weir_status begin(struct faulty_disk *d, struct journal **j, struct history *h, weir_error *err)
{
	struct journal_options options = {
	    .disk = faulty_disk_interface(d), .directory = "journal", .holder = "the test", .segment_bytes = HISTORY_SEGMENT};
	*j = NULL;
	weir_status status = journal_open(j, &options, err);
	return status == WEIR_OK ? history_replay(h, *j, err) : status;
}

static weir_status go_on(struct journal *j, struct history *h, weir_error *err)
{
	weir_status status = WEIR_OK;
	while (status == WEIR_OK && h->done < HISTORY_OPS) {
		status = history_step(h, j, err);
		history_forget(h, j);
	}
	return status;
}

/* Runs the history to its end. A reopened journal must hold it. */
static void end_well(struct faulty_disk *d, struct journal *j, struct history *h)
{
	weir_error err = {0};
	CHECK_OK(go_on(j, h, &err), err);
	CHECK_OK(journal_close(j, &err), err);
	h->durable = h->done;
	CHECK_OK(begin(d, &j, h, &err), err);
	assert_int_equal(h->done, HISTORY_OPS);
	CHECK_OK(journal_close(j, &err), err);
}

static void power_off(struct faulty_disk *d, struct journal *j, enum faulty_crash how, uint64_t seed)
{
	faulty_disk_power_off_at(d, 1);
	(void)journal_close(j, NULL);
	faulty_disk_crash(d, how, seed);
}

static uint64_t steps_of_a_life(void)
{
	struct faulty_disk *d = faulty_disk_create();
	struct history h = history_new();
	struct journal *j;
	weir_error err = {0};
	CHECK_OK(begin(d, &j, &h, &err), err);
	end_well(d, j, &h);
	uint64_t steps = faulty_disk_steps(d);
	assert_true(history_cuts(&h) > 10);
	for (uint32_t c = 0; c < FIXTURE_CHANNELS; c++)
		assert_true(h.channels[c].needed > 1);
	faulty_disk_destroy(d);
	return steps;
}

/* The power fails at `step`, and again `again` steps into the recovery (0: it does not). Then all
 * works. */
static void die_at(uint64_t step, uint64_t again, uint64_t seed)
{
	struct faulty_disk *d = faulty_disk_create();
	struct history h = history_new();
	struct journal *j;
	weir_error err = {0};
	enum faulty_crash how = seed == 0 ? CRASH_PROCESS : seed == 1 ? CRASH_UNSYNCED : CRASH_RANDOM;
	faulty_disk_power_off_at(d, step);
	if (begin(d, &j, &h, &err) == WEIR_OK)
		(void)go_on(j, &h, &err);
	power_off(d, j, how, seed);
	if (again) {
		faulty_disk_power_off_at(d, faulty_disk_steps(d) + again);
		if (begin(d, &j, &h, &err) == WEIR_OK)
			(void)go_on(j, &h, &err);
		power_off(d, j, how, seed + 1);
	}
	CHECK_OK(begin(d, &j, &h, &err), err);
	end_well(d, j, &h);
	faulty_disk_destroy(d);
}

static void power_cuts_at_every_step(void **state)
{
	(void)state;
	uint64_t steps = steps_of_a_life();
	assert_true(steps > 100);
	for (uint64_t step = 1; step <= steps; step++)
		/* The first two seeds stand for the crashes that are not random. */
		for (uint64_t seed = 0; seed < 2 + rounds(10); seed++)
			die_at(step, 0, seed);
}

static void power_cuts_during_recovery_and_behind_it(void **state)
{
	(void)state;
	uint64_t steps = steps_of_a_life();
	for (uint64_t step = 1; step <= steps; step++)
		for (uint64_t i = 0; i < rounds(6); i++) {
			const uint64_t again = 1 + 2 * ((step + i) % 6);
			die_at(step, again, 100 * step + again);
		}
}

static void a_full_disk_at_every_step(void **state)
{
	(void)state;
	uint64_t steps = steps_of_a_life(), refused = 0;
	for (uint64_t step = 3; step <= steps; step++) { /* the lock file exists from step 3 on */
		struct faulty_disk *d = faulty_disk_create();
		struct history h = history_new();
		struct journal *j;
		weir_error err = {0};
		CHECK_OK(begin(d, &j, &h, &err), err);
		faulty_disk_full_at(d, step);
		weir_status status = go_on(j, &h, &err);
		if (status != WEIR_OK)
			assert_int_equal(status, WEIR_E_NO_SPACE);
		refused += status != WEIR_OK;
		faulty_disk_make_room(d);
		end_well(d, j, &h);
		faulty_disk_destroy(d);
	}
	assert_true(refused > HISTORY_OPS / 2);
}

/* --- Damage */

struct names {
	char paths[64][64];
	uint32_t count;
};

static weir_status note_segment(void *arg, const char *name)
{
	struct names *n = arg;
	if (strstr(name, ".wal")) {
		assert_true(n->count < 64);
		snprintf(n->paths[n->count++], sizeof n->paths[0], "journal/%.40s", name);
	}
	return WEIR_OK;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(a, b);
}

static void refuse_flip(struct faulty_disk *d, const char *path, uint64_t at, const struct history *h)
{
	struct history copy = *h;
	struct journal *j;
	weir_error err = {0};
	faulty_disk_flip(d, path, at, at % 8);
	assert_int_equal(begin(d, &j, &copy, &err), WEIR_E_CORRUPT);
	CHECK_CONTAINS(err.text, path);
	(void)journal_close(j, NULL);
	faulty_disk_flip(d, path, at, at % 8);
}

/* All but the last mark: the journal has no record of it. */
static void a_flipped_bit_is_named(void **state)
{
	(void)state;
	enum { STRIDE = 13 };
	struct faulty_disk *d = faulty_disk_create();
	struct disk *disk = faulty_disk_interface(d);
	struct history h = history_new();
	struct names names = {.count = 0};
	struct journal *j;
	weir_error err = {0};
	CHECK_OK(begin(d, &j, &h, &err), err);
	CHECK_OK(go_on(j, &h, &err), err);
	CHECK_OK(journal_close(j, &err), err);
	h.durable = h.done;
	CHECK_OK(disk->ops->list(disk, "journal", note_segment, &names, &err), err);
	qsort(names.paths, names.count, sizeof names.paths[0], by_name);
	assert_true(names.count >= 3);
	for (uint32_t i = 0; i < names.count; i++) {
		uint64_t bytes = fixture_file_bytes(d, names.paths[i]);
		if (i + 1 == names.count)
			bytes -= JOURNAL_ENTRY_HEADER_BYTES;
		for (uint64_t at = i; at < bytes; at += STRIDE)
			refuse_flip(d, names.paths[i], at, &h);
	}
	CHECK_OK(begin(d, &j, &h, &err), err); /* the journal is unchanged */
	end_well(d, j, &h);
	faulty_disk_destroy(d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(power_cuts_at_every_step),
	    cmocka_unit_test(power_cuts_during_recovery_and_behind_it),
	    cmocka_unit_test(a_full_disk_at_every_step),
	    cmocka_unit_test(a_flipped_bit_is_named),
	};
	return cmocka_run_group_tests_name("journal_cuts", tests, NULL, NULL);
}
