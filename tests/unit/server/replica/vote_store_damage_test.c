/* A promise reported OK is found again after a power cut at any step. A damaged file of votes is
 * refused by name. */
#include <stdio.h>
#include <stdlib.h>

#include "common/base/crc32c.h"
#include "common/base/little_endian.h"
#include "tests/unit/server/replica/vote_store_fixture.h"

/* --- Power cuts at every step */

enum { LIVES = 3, ROUNDS = 4 };

struct history {
	uint64_t tried, answered; /* rounds over all lives; the last round reported OK */
	uint64_t lost;            /* highest round promised before the last machine crash */
	bool closing;             /* a clean end is in progress */
	bool maybe_clean;         /* whether a clean end was in progress at the machine crash */
	uint64_t incarnation;     /* the highest of all starts */
};

/* A round is found as a whole: the last one reported OK, or a later one. */
static uint64_t round_found(const struct vote_store *p, const struct history *h)
{
	const uint64_t round = vote_store_found(p, 0).promised / 100;
	assert_true(round >= h->answered && round <= h->tried);
	for (uint32_t i = 0; i < SLOTS; i++)
		assert_int_equal(vote_store_found(p, partition_of(i)).promised, round ? promise_of(i, round).promised : 0);
	return round;
}

static void check_found(const struct vote_store *p, struct history *h)
{
	const uint64_t round = round_found(p, h);
	h->lost = h->lost < round ? h->lost : round;
	for (uint32_t i = 0; i < SLOTS && round; i++) {
		const bool whole = vote_store_found(p, partition_of(i)).whole;
		if (round > h->lost)
			assert_int_equal(whole, promise_of(i, round).whole);
		else if (!h->maybe_clean)
			assert_false(whole);
	}
	assert_true(vote_store_incarnation(p) > h->incarnation);
	h->incarnation = vote_store_incarnation(p);
	h->answered = h->tried = round;
}

/* One start and its end, as far as the disk works. */
static weir_status live(struct faulty_disk *d, const char *machine_boot, struct history *h)
{
	const struct vote_store_options o = options_on(d, machine_boot);
	struct vote_store *p;
	weir_error err = {0};
	weir_status status = vote_store_open(&p, &o, &err);
	if (status)
		return status;
	check_found(p, h);
	for (uint64_t i = 0; i < ROUNDS && !status; i++) {
		h->closing = false;
		status = promise_round(p, ++h->tried, &err);
		h->answered = status ? h->answered : h->tried;
	}
	h->closing = !status;
	vote_store_close(p, !status);
	return status;
}

static uint64_t steps_of_lives(void)
{
	struct faulty_disk *d = faulty_disk_create();
	struct history h = {0};
	for (uint32_t i = 0; i < LIVES; i++)
		assert_int_equal(live(d, BOOT_1, &h), WEIR_OK);
	assert_int_equal(h.answered, LIVES * ROUNDS);
	const uint64_t steps = faulty_disk_steps(d);
	faulty_disk_destroy(d);
	return steps;
}

static void power_off(struct faulty_disk *d, enum faulty_crash how, uint64_t seed, struct history *h)
{
	if (how != CRASH_PROCESS) {
		h->lost = h->tried;
		h->maybe_clean = h->closing;
	}
	faulty_disk_crash(d, how, seed);
}

/* The process or the machine dies at `step`, and again `again` steps later (0: it does not). Then
 * all works. */
static void die_at(uint64_t step, uint64_t again, uint64_t seed)
{
	static const char *const boots[] = {"boot 0", "boot 1", "boot 2"};
	const enum faulty_crash how = seed == 0 ? CRASH_PROCESS : seed == 1 ? CRASH_UNSYNCED : CRASH_RANDOM;
	struct faulty_disk *d = faulty_disk_create();
	struct history h = {0};
	uint32_t boot = 0;
	faulty_disk_power_off_at(d, step);
	while (live(d, boots[boot], &h) == WEIR_OK)
		;
	power_off(d, how, seed, &h);
	boot += how != CRASH_PROCESS;
	if (again) {
		faulty_disk_power_off_at(d, faulty_disk_steps(d) + again);
		while (live(d, boots[boot], &h) == WEIR_OK)
			;
		/* The machine stays up, but data lost in the first crash stays lost. */
		power_off(d, CRASH_PROCESS, seed, &h);
	}
	for (uint32_t i = 0; i < LIVES; i++)
		assert_int_equal(live(d, boots[boot], &h), WEIR_OK);
	faulty_disk_destroy(d);
}

static void power_cuts_at_every_step(void **state)
{
	(void)state;
	const uint64_t steps = steps_of_lives();
	assert_true(steps > 4 * LIVES * ROUNDS);
	for (uint64_t step = 1; step <= steps; step++)
		for (uint64_t seed = 0; seed < 12; seed++)
			die_at(step, 0, seed);
}

static void power_cuts_at_every_step_of_the_next_start(void **state)
{
	(void)state;
	const uint64_t steps = steps_of_lives();
	for (uint64_t step = 1; step <= steps; step++)
		for (uint64_t again = 1; again <= 16; again++)
			die_at(step, again, (step + again) % 8);
}

/* --- Damage */

static struct faulty_disk *disk_with_votes(void)
{
	struct faulty_disk *d = faulty_disk_create();
	struct vote_store *p = open_new(d);
	promise_well(p, 1);
	vote_store_close(p, true);
	return d;
}

static void read_file(struct faulty_disk *d, uint8_t out[FILE_BYTES])
{
	char *bytes;
	size_t n;
	weir_error err = {0};
	CHECK_OK(disk_read_file(faulty_disk_interface(d), FILE_NAME, FILE_BYTES, &bytes, &n, &err), err);
	assert_int_equal(n, FILE_BYTES);
	memcpy(out, bytes, n);
	free(bytes);
}

static void replace_file(struct faulty_disk *d, const uint8_t *bytes, size_t n)
{
	weir_error err = {0};
	CHECK_OK(disk_write_file(faulty_disk_interface(d), FILE_NAME, bytes, n, &err), err);
}

/* The error names the file and the problem. The file stays as it is. */
static void refuse(struct faulty_disk *d, weir_status status, const char *says)
{
	const struct vote_store_options o = options_on(d, BOOT_1);
	struct vote_store *p;
	weir_error err = {0};
	const uint64_t steps = faulty_disk_steps(d);
	assert_int_equal(vote_store_open(&p, &o, &err), status);
	assert_null(p);
	CHECK_CONTAINS(err.text, FILE_NAME);
	CHECK_CONTAINS(err.text, says);
	assert_int_equal(faulty_disk_steps(d), steps);
}

static void a_flipped_bit_is_refused(void **state)
{
	(void)state;
	struct faulty_disk *d = disk_with_votes();
	for (uint64_t at = 0; at < FILE_BYTES; at++)
		for (unsigned bit = 0; bit < 8; bit++) {
			faulty_disk_flip(d, FILE_NAME, at, bit);
			refuse(d, WEIR_E_CORRUPT, "damaged");
			faulty_disk_flip(d, FILE_NAME, at, bit);
		}
	const struct vote_store_options o = options_on(d, BOOT_2);
	struct vote_store *p = open_well(&o);
	assert_found(p, 1, true);
	vote_store_close(p, true);
	faulty_disk_destroy(d);
}

static void a_file_of_another_length_is_refused(void **state)
{
	(void)state;
	uint8_t bytes[FILE_BYTES + 1] = {0};
	struct faulty_disk *d = disk_with_votes();
	struct disk *disk = faulty_disk_interface(d);
	struct disk_file *f;
	weir_error err = {0};
	read_file(d, bytes);
	CHECK_OK(disk->ops->open(disk, FILE_NAME, false, &f, &err), err);
	for (uint64_t n = FILE_BYTES; n-- > 0;) {
		CHECK_OK(disk->ops->truncate(f, n, &err), err);
		refuse(d, WEIR_E_CORRUPT, "damaged");
	}
	disk->ops->close(f);
	replace_file(d, bytes, FILE_BYTES + 1);
	refuse(d, WEIR_E_CORRUPT, "damaged");
	faulty_disk_destroy(d);
}

/* The beginning of one file and the end of another. No write of ours leaves such a file. */
static void a_torn_file_is_refused(void **state)
{
	(void)state;
	enum { INCARNATION_ENDS = 56, EVERY = 8 }; /* both files have the same bytes before */
	uint8_t before[FILE_BYTES], after[FILE_BYTES], torn[FILE_BYTES];
	struct faulty_disk *d = disk_with_votes();
	const struct vote_store_options o = options_on(d, BOOT_1);
	read_file(d, before);
	struct vote_store *p = open_well(&o);
	promise_well(p, 2);
	vote_store_close(p, false);
	read_file(d, after);
	for (size_t at = INCARNATION_ENDS; at < FILE_BYTES; at += EVERY) {
		memcpy(torn, after, at);
		memcpy(torn + at, before + at, FILE_BYTES - at);
		replace_file(d, torn, sizeof torn);
		refuse(d, WEIR_E_CORRUPT, "damaged");
	}
	replace_file(d, after, sizeof after);
	p = open_well(&o);
	assert_found(p, 2, true);
	vote_store_close(p, true);
	faulty_disk_destroy(d);
}

/* Changes a field of the file's header and repairs the checksum. */
static void change_field(struct faulty_disk *d, size_t at, uint8_t value)
{
	uint8_t bytes[FILE_BYTES];
	read_file(d, bytes);
	bytes[at] = value;
	put32(bytes + 60, 0);
	put32(bytes + 60, crc32c(0, bytes, sizeof bytes));
	replace_file(d, bytes, sizeof bytes);
}

static void files_of_others_are_refused(void **state)
{
	(void)state;
	const struct {
		size_t at;
		uint8_t value;
		weir_status status;
		const char *says;
	} cases[] = {{8, VOTES_VERSION + 1, WEIR_E_VERSION, "version 2"},
	             {12, SLOTS + 3, WEIR_E_STATE, "of a job of 8 partitions, this one has 5"},
	             {16, 'x', WEIR_E_STATE, "another job, generation or server"},
	             {56, 2, WEIR_E_CORRUPT, "damaged"},
	             {57, VOTE_LOG_SYNCED + 1, WEIR_E_CORRUPT, "damaged"}};
	for (uint32_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct faulty_disk *d = disk_with_votes();
		change_field(d, cases[i].at, cases[i].value);
		refuse(d, cases[i].status, cases[i].says);
		faulty_disk_destroy(d);
	}
}

/* The next incarnation would not be larger. */
static void the_last_of_all_incarnations_is_refused(void **state)
{
	(void)state;
	struct faulty_disk *d = disk_with_votes();
	for (size_t at = 48; at < 56; at++)
		change_field(d, at, 0xff);
	refuse(d, WEIR_E_CORRUPT, "damaged");
	faulty_disk_destroy(d);
}

/* --- Golden bytes */

static void the_bytes_are_those_of_the_format(void **state)
{
	(void)state;
	uint8_t bytes[FILE_BYTES];
	char text[3 * FILE_BYTES + 1], *golden;
	size_t n, at = 0;
	weir_error err = {0};
	struct faulty_disk *d = disk_with_votes();
	read_file(d, bytes);
	for (size_t i = 0; i < FILE_BYTES; i++)
		at += (size_t)snprintf(text + at, sizeof text - at, "%02x%c", bytes[i], i % 16 == 15 ? '\n' : ' ');
	CHECK_OK(disk_read_file(disk_system(), GOLDEN_DIR "/vote_store.hex", 1 << 20, &golden, &n, &err), err);
	assert_string_equal(text, golden);
	free(golden);
	faulty_disk_destroy(d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(power_cuts_at_every_step),
	    cmocka_unit_test(power_cuts_at_every_step_of_the_next_start),
	    cmocka_unit_test(a_flipped_bit_is_refused),
	    cmocka_unit_test(a_file_of_another_length_is_refused),
	    cmocka_unit_test(a_torn_file_is_refused),
	    cmocka_unit_test(files_of_others_are_refused),
	    cmocka_unit_test(the_last_of_all_incarnations_is_refused),
	    cmocka_unit_test(the_bytes_are_those_of_the_format),
	};
	return cmocka_run_group_tests_name("vote_store_damage", tests, NULL, NULL);
}
