/* The vote store: a promise reported OK is found again after any disk fault. A replica that may
 * have lost the end of its log is not whole. The error for a damaged file names the file. */
#include <stdio.h>
#include <stdlib.h>

#include "common/base/crc32c.h"
#include "common/base/little_endian.h"
#include "server/log/journal.h"
#include "server/replica/vote_store.h"
#include "tests/cmocka_check.h"
#include "tests/unit/faulty_disk.h"
#include "tests/unit/server/replication/task_queue.h"

enum { PARTITIONS = 5, SLOTS = PARTITIONS + 1, FILE_BYTES = VOTES_HEADER_BYTES + SLOTS * VOTES_SLOT_BYTES };
#define FILE_NAME "folder/PROMISES"
#define BOOT_1    "the first boot"
#define BOOT_2    "the second boot"

static struct vote_store_options options_on(struct faulty_disk *d, const char *machine_boot)
{
	struct vote_store_options o = {.disk = faulty_disk_interface(d),
	                               .path = FILE_NAME,
	                               .id = "server 1, test",
	                               .partitions = PARTITIONS,
	                               .log = VOTE_LOG_CACHED,
	                               .stepped = true};
	memcpy(o.machine_boot, machine_boot, strlen(machine_boot));
	return o;
}

static struct vote_store *open_well(const struct vote_store_options *o)
{
	struct vote_store *p;
	weir_error err = {0};
	CHECK_OK(vote_store_open(&p, o, &err), err);
	return p;
}

static struct vote_store *open_new(struct faulty_disk *d)
{
	const struct vote_store_options o = options_on(d, BOOT_1);
	return open_well(&o);
}

static uint16_t partition_of(uint32_t slot)
{
	return slot == PARTITIONS ? JOURNAL_LEDGER : (uint16_t)slot;
}

/* --- Submitting */

struct call {
	struct vote_write write;
	unsigned done;
};

static void run_at_once(void *to, void (*run)(void *arg), void *arg)
{
	(void)to;
	run(arg);
}

static void count_done(struct vote_write *w)
{
	((struct call *)w)->done++;
}

static void submit(struct vote_store *p, struct call *c, uint16_t partition, uint64_t promised, bool whole)
{
	*c = (struct call){.write = {.partition = partition,
	                             .vote = {.promised = promised, .whole = whole},
	                             .run_on = {.post = run_at_once},
	                             .done = count_done}};
	vote_store_submit(p, &c->write);
}

/* The promise of round `round` in a slot. It grows, and `whole` changes. */
static struct vote promise_of(uint32_t slot, uint64_t round)
{
	return (struct vote){.promised = round * 100 + slot, .whole = (round + slot) % 3 != 0};
}

/* Promises in all slots, with one write. */
static weir_status promise_round(struct vote_store *p, uint64_t round, weir_error *err)
{
	struct call calls[SLOTS];
	for (uint32_t i = 0; i < SLOTS; i++)
		submit(p, &calls[i], partition_of(i), promise_of(i, round).promised, promise_of(i, round).whole);
	assert_true(vote_store_write(p));
	for (uint32_t i = 0; i < SLOTS; i++) {
		assert_int_equal(calls[i].done, 1);
		assert_int_equal(calls[i].write.status, calls[0].write.status);
		assert_string_equal(calls[i].write.err.text, calls[0].write.err.text);
	}
	*err = calls[0].write.err;
	return calls[0].write.status;
}

static void promise_well(struct vote_store *p, uint64_t round)
{
	weir_error err = {0};
	CHECK_OK(promise_round(p, round, &err), err);
}

static void assert_found(const struct vote_store *p, uint64_t round, bool kept_whole)
{
	for (uint32_t i = 0; i < SLOTS; i++) {
		const struct vote found = vote_store_found(p, partition_of(i)), expected = promise_of(i, round);
		assert_int_equal(found.promised, expected.promised);
		assert_int_equal(found.whole, expected.whole && kept_whole);
	}
}

/* --- Kept promises */

static void new_replicas_have_promised_nothing(void **state)
{
	(void)state;
	struct faulty_disk *d = faulty_disk_create();
	struct vote_store *p = open_new(d);
	for (uint32_t i = 0; i < SLOTS; i++) {
		assert_int_equal(vote_store_found(p, partition_of(i)).promised, 0);
		/* The former file may be lost, with other data. */
		assert_false(vote_store_found(p, partition_of(i)).whole);
	}
	assert_false(vote_store_write(p));
	vote_store_close(p, true);
	faulty_disk_destroy(d);
}

static void vote_store_of_one_round_share_one_write(void **state)
{
	(void)state;
	struct faulty_disk *d = faulty_disk_create();
	const struct vote_store_options o = options_on(d, BOOT_1);
	struct vote_store *p = open_new(d);
	const uint64_t before = faulty_disk_syncs(d);
	promise_well(p, 1);
	assert_int_equal(faulty_disk_syncs(d), before + 1);
	promise_well(p, 2);
	assert_int_equal(faulty_disk_syncs(d), before + 2);
	assert_false(vote_store_write(p));
	vote_store_close(p, false);
	p = open_well(&o);
	assert_found(p, 2, true);
	vote_store_close(p, false);
	faulty_disk_destroy(d);
}

static void a_promise_never_goes_back(void **state)
{
	(void)state;
	struct faulty_disk *d = faulty_disk_create();
	const struct vote_store_options o = options_on(d, BOOT_1);
	struct call calls[3];
	struct vote_store *p = open_new(d);
	submit(p, &calls[0], 2, 7, true);
	assert_true(vote_store_write(p));
	submit(p, &calls[1], 2, 5, true);
	submit(p, &calls[2], JOURNAL_LEDGER, UINT64_MAX, true);
	assert_true(vote_store_write(p));
	vote_store_close(p, true);
	p = open_well(&o);
	assert_int_equal(vote_store_found(p, 2).promised, 7);
	assert_true(vote_store_found(p, 2).whole);
	assert_int_equal(vote_store_found(p, 3).promised, 0);
	assert_true(vote_store_found(p, JOURNAL_LEDGER).promised == UINT64_MAX);
	vote_store_close(p, true);
	faulty_disk_destroy(d);
}

static void what_is_queued_is_written_by_the_close(void **state)
{
	(void)state;
	for (int stepped = 0; stepped < 2; stepped++) {
		struct faulty_disk *d = faulty_disk_create();
		struct vote_store_options o = options_on(d, BOOT_1);
		struct call c;
		o.stepped = stepped;
		struct vote_store *p = open_well(&o);
		submit(p, &c, 1, 9, false);
		vote_store_close(p, false);
		assert_int_equal(c.done, 1);
		assert_int_equal(c.write.status, WEIR_OK);
		p = open_well(&o);
		assert_int_equal(vote_store_found(p, 1).promised, 9);
		vote_store_close(p, false);
		faulty_disk_destroy(d);
	}
}

/* Requests during a write wait for the next write and share it. */
static void what_comes_during_a_write_shares_the_next(void **state)
{
	(void)state;
	enum { WAITING = 200 };
	static struct call calls[WAITING + 1];
	struct faulty_disk *d = faulty_disk_create();
	struct task_queue *loop = task_queue_create();
	struct vote_store_options o = options_on(d, BOOT_1);
	o.stepped = false;
	struct vote_store *p = open_well(&o);
	const uint64_t before = faulty_disk_syncs(d);
	faulty_disk_hold_syncs(d, true);
	for (uint32_t i = 0; i <= WAITING; i++) {
		calls[i] = (struct call){.write = {.partition = partition_of(i % SLOTS),
		                                   .vote = {.promised = i + 1},
		                                   .run_on = task_queue_executor(loop),
		                                   .done = count_done}};
		vote_store_submit(p, &calls[i].write);
		if (i == 0)
			faulty_disk_await_held_sync(d);
	}
	assert_int_equal(task_queue_run(loop, false), 0);
	faulty_disk_hold_syncs(d, false);
	for (unsigned done = 0; done <= WAITING;)
		done += task_queue_run(loop, true);
	for (uint32_t i = 0; i <= WAITING; i++) {
		assert_int_equal(calls[i].done, 1);
		assert_int_equal(calls[i].write.status, WEIR_OK);
	}
	assert_int_equal(faulty_disk_syncs(d), before + 2);
	vote_store_close(p, true);
	p = open_well(&o);
	for (uint32_t i = 0; i < SLOTS; i++)
		assert_true(vote_store_found(p, partition_of(i)).promised > WAITING + 1 - SLOTS);
	vote_store_close(p, true);
	task_queue_destroy(loop);
	faulty_disk_destroy(d);
}

static void incarnations_grow(void **state)
{
	(void)state;
	struct faulty_disk *d = faulty_disk_create();
	struct vote_store_options o = options_on(d, BOOT_1);
	const uint64_t least[] = {0, 0, 1000, 900, 5000}, expected[] = {1, 2, 1000, 1001, 5000};
	for (uint32_t i = 0; i < 5; i++) {
		o.incarnation_least = least[i];
		struct vote_store *p = open_well(&o);
		assert_int_equal(vote_store_incarnation(p), expected[i]);
		vote_store_close(p, i % 2);
	}
	faulty_disk_destroy(d);
}

/* --- Whole */

static void only_who_has_its_log_is_whole(void **state)
{
	(void)state;
	const struct {
		enum vote_log log, next_log;
		bool clean, same_boot, whole;
	} cases[] = {
	    {VOTE_LOG_CACHED, VOTE_LOG_CACHED, true, false, true},   {VOTE_LOG_CACHED, VOTE_LOG_CACHED, false, true, true},
	    {VOTE_LOG_CACHED, VOTE_LOG_CACHED, false, false, false}, {VOTE_LOG_SYNCED, VOTE_LOG_CACHED, false, false, true},
	    {VOTE_LOG_CACHED, VOTE_LOG_SYNCED, false, false, false}, /* earlier ones did not wait */
	    {VOTE_LOG_MEMORY, VOTE_LOG_MEMORY, true, true, false},   {VOTE_LOG_MEMORY, VOTE_LOG_SYNCED, true, true, false},
	    {VOTE_LOG_SYNCED, VOTE_LOG_MEMORY, true, true, false},
	};
	for (uint32_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct faulty_disk *d = faulty_disk_create();
		struct vote_store_options o = options_on(d, BOOT_1), next = options_on(d, cases[i].same_boot ? BOOT_1 : BOOT_2);
		o.log = cases[i].log;
		next.log = cases[i].next_log;
		struct vote_store *p = open_well(&o);
		promise_well(p, 1);
		vote_store_close(p, cases[i].clean);
		p = open_well(&next);
		assert_found(p, 1, cases[i].whole);
		vote_store_close(p, true);
		faulty_disk_destroy(d);
	}
}

static void a_boot_that_is_not_known_is_no_same_boot(void **state)
{
	(void)state;
	struct faulty_disk *d = faulty_disk_create();
	const struct vote_store_options o = options_on(d, "");
	struct vote_store *p = open_well(&o);
	promise_well(p, 1);
	vote_store_close(p, false);
	p = open_well(&o);
	assert_found(p, 1, false);
	vote_store_close(p, true);
	faulty_disk_destroy(d);
}

/* The machine goes down, and the next process dies at once. Its end looks better: the machine is
 * up, but the log still lacks its end. */
static void a_second_end_that_looks_better_makes_nobody_whole(void **state)
{
	(void)state;
	for (int clean = 0; clean < 2; clean++) {
		struct faulty_disk *d = faulty_disk_create();
		const struct vote_store_options first = options_on(d, BOOT_1), second = options_on(d, BOOT_2);
		struct vote_store *p = open_well(&first);
		promise_well(p, 1);
		vote_store_close(p, false);
		p = open_well(&second);
		vote_store_close(p, clean);
		p = open_well(&second);
		assert_found(p, 1, false);
		promise_well(p, 2); /* replicas became whole since */
		vote_store_close(p, false);
		p = open_well(&second);
		assert_found(p, 2, true);
		vote_store_close(p, false);
		faulty_disk_destroy(d);
	}
}

static void a_log_that_failed_is_not_trusted_on_the_same_boot(void **state)
{
	(void)state;
	const enum vote_log logs[] = {VOTE_LOG_CACHED, VOTE_LOG_SYNCED};
	for (uint32_t i = 0; i < 2; i++) {
		struct faulty_disk *d = faulty_disk_create();
		struct vote_store_options o = options_on(d, BOOT_1);
		weir_error err = {0};
		o.log = logs[i];
		struct vote_store *p = open_well(&o);
		promise_well(p, 1);
		CHECK_OK(vote_store_distrust_log(p, &err), err);
		promise_well(p, 2);
		vote_store_close(p, true);
		p = open_well(&o);
		assert_found(p, 2, logs[i] == VOTE_LOG_SYNCED);
		vote_store_close(p, true);
		faulty_disk_destroy(d);
	}
}

/* --- A disk that fails */

static void a_full_disk_stops_no_promise(void **state)
{
	(void)state;
	struct faulty_disk *d = faulty_disk_create();
	const struct vote_store_options o = options_on(d, BOOT_1);
	struct vote_store *p = open_new(d);
	faulty_disk_overwrite_in_place(d);
	faulty_disk_full_at(d, 1);
	for (uint64_t round = 1; round <= 5; round++)
		promise_well(p, round);
	vote_store_close(p, false);
	p = open_well(&o); /* a start works, too */
	assert_found(p, 5, true);
	promise_well(p, 6);
	vote_store_close(p, true);
	p = open_well(&o);
	assert_found(p, 6, true);
	vote_store_close(p, true);
	faulty_disk_destroy(d);
}

/* On a file system that copies overwritten data. */
static void on_a_full_disk_nothing_is_promised_until_there_is_room(void **state)
{
	(void)state;
	struct faulty_disk *d = faulty_disk_create();
	const struct vote_store_options o = options_on(d, BOOT_1);
	weir_error err = {0};
	faulty_disk_cannot_exchange(d);
	struct vote_store *p = open_new(d), *refused;
	promise_well(p, 1);
	/* The steps are: create, write and rename the file. */
	for (uint64_t later = 1; later <= 3; later++) {
		faulty_disk_full_at(d, faulty_disk_steps(d) + later);
		assert_int_equal(promise_round(p, 2, &err), WEIR_E_NO_SPACE);
		CHECK_CONTAINS(err.text, FILE_NAME);
		faulty_disk_make_room(d);
	}
	promise_well(p, 3);
	vote_store_close(p, false);
	p = open_well(&o);
	assert_found(p, 3, true);
	vote_store_close(p, false);
	faulty_disk_full_at(d, 1);
	assert_int_equal(vote_store_open(&refused, &o, &err), WEIR_E_NO_SPACE);
	assert_null(refused);
	faulty_disk_make_room(d);
	p = open_well(&o);
	assert_found(p, 3, true);
	vote_store_close(p, false);
	faulty_disk_destroy(d);
}

static void a_full_disk_leaves_the_last_promise(void **state)
{
	(void)state;
	struct faulty_disk *d = faulty_disk_create();
	const struct vote_store_options o = options_on(d, BOOT_1);
	weir_error err = {0};
	struct vote_store *p = open_new(d);
	promise_well(p, 1);
	faulty_disk_full_at(d, 1);
	assert_int_equal(promise_round(p, 2, &err), WEIR_E_NO_SPACE);
	vote_store_close(p, true); /* the mark of a clean end does not fit either */
	faulty_disk_make_room(d);
	p = open_well(&o);
	assert_found(p, 1, true);
	vote_store_close(p, true);
	faulty_disk_destroy(d);
}

static void a_failed_sync_is_final(void **state)
{
	(void)state;
	struct faulty_disk *d = faulty_disk_create();
	const struct vote_store_options o = options_on(d, BOOT_1);
	weir_error err = {0}, again = {0};
	struct vote_store *p = open_new(d);
	promise_well(p, 1);
	faulty_disk_fail_sync_at(d, 1);
	assert_int_equal(promise_round(p, 2, &err), WEIR_E_IO);
	CHECK_CONTAINS(err.text, FILE_NAME);
	assert_int_equal(promise_round(p, 3, &again), WEIR_E_IO);
	assert_string_equal(again.text, err.text);
	assert_int_equal(vote_store_distrust_log(p, &again), WEIR_E_IO);
	vote_store_close(p, true);
	faulty_disk_crash(d, CRASH_UNSYNCED, 1);
	p = open_well(&o);
	assert_found(p, 1, true);
	vote_store_close(p, true);
	faulty_disk_destroy(d);
}

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

static void what_is_not_ours_is_refused(void **state)
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
	    cmocka_unit_test(new_replicas_have_promised_nothing),
	    cmocka_unit_test(vote_store_of_one_round_share_one_write),
	    cmocka_unit_test(a_promise_never_goes_back),
	    cmocka_unit_test(what_is_queued_is_written_by_the_close),
	    cmocka_unit_test(what_comes_during_a_write_shares_the_next),
	    cmocka_unit_test(incarnations_grow),
	    cmocka_unit_test(only_who_has_its_log_is_whole),
	    cmocka_unit_test(a_boot_that_is_not_known_is_no_same_boot),
	    cmocka_unit_test(a_second_end_that_looks_better_makes_nobody_whole),
	    cmocka_unit_test(a_log_that_failed_is_not_trusted_on_the_same_boot),
	    cmocka_unit_test(a_full_disk_stops_no_promise),
	    cmocka_unit_test(on_a_full_disk_nothing_is_promised_until_there_is_room),
	    cmocka_unit_test(a_full_disk_leaves_the_last_promise),
	    cmocka_unit_test(a_failed_sync_is_final),
	    cmocka_unit_test(power_cuts_at_every_step),
	    cmocka_unit_test(power_cuts_at_every_step_of_the_next_start),
	    cmocka_unit_test(a_flipped_bit_is_refused),
	    cmocka_unit_test(a_file_of_another_length_is_refused),
	    cmocka_unit_test(a_torn_file_is_refused),
	    cmocka_unit_test(what_is_not_ours_is_refused),
	    cmocka_unit_test(the_last_of_all_incarnations_is_refused),
	    cmocka_unit_test(the_bytes_are_those_of_the_format),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
