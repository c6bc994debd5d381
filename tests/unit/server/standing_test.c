/* A start and its end: which of its replicas a server takes for whole, and what it says of a folder that it cannot use. */
#include <stdio.h>
#include <stdlib.h>

#include "cmocka_check.h"
#include "faulty_disk.h"
#include "folder.h"
#include "journal.h"
#include "standing.h"

enum { PARTITIONS = 3, BOOT_1 = 1, BOOT_2 = 2 };
#define FOLDER   "folder"
#define PROMISES FOLDER "/PROMISES"

/* --- A clock that stands still */

static int64_t now_ms = 1000;

static int64_t no_time(const struct clock *self)
{
	(void)self;
	return 0;
}

static int64_t stands_still(const struct clock *self)
{
	(void)self;
	return now_ms * 1000000;
}

static const struct clock_ops clock_ops = {.monotonic_ns = no_time, .wall_ns = stands_still};
static const struct clock test_clock = {.ops = &clock_ops};

/* --- Starts */

static struct standing_options options_on(struct faulty_disk *d, uint8_t boot)
{
	return (struct standing_options){
	    .disk = faulty_disk_interface(d),
	    .path = FOLDER,
	    .holder = "server-1, pid 77",
	    .machine_boot = {boot},
	    .clock = &test_clock,
	    .who = {.uuid = "standing test", .generation = 1, .index = 1, .servers = 2, .partitions = PARTITIONS},
	    .log = PROMISES_LOG_CACHED};
}

static void open_well(struct standing *s, const struct standing_options *o)
{
	weir_error err = {0};
	CHECK_OK(standing_open(s, o, &err), err);
}

/* Refused with that sentence, and nothing stays open. */
static void refuse(const struct standing_options *o, weir_status status, const char *where, const char *says)
{
	struct standing s;
	weir_error err = {0};
	assert_int_equal(standing_open(&s, o, &err), status);
	CHECK_CONTAINS(err.text, where);
	CHECK_CONTAINS(err.text, says);
	standing_close(&s, false);
}

static void assert_whole(const struct standing *s, bool whole)
{
	for (uint16_t p = 0; p < PARTITIONS; p++)
		assert_int_equal(promises_found(s->promises, p).whole, whole);
	assert_int_equal(promises_found(s->promises, JOURNAL_LEDGER).whole, whole);
}

struct call {
	struct promise_write write;
	bool done;
};

static void run_at_once(void *to, void (*run)(void *arg), void *arg)
{
	(void)to;
	run(arg);
}

static void note_done(struct promise_write *w)
{
	((struct call *)w)->done = true;
}

static void submit(struct standing *s, struct call *c, uint16_t partition, struct promise promise)
{
	*c = (struct call){.write = {.partition = partition, .promise = promise, .poster = {.post = run_at_once}, .done = note_done}};
	promises_submit(s->promises, &c->write);
}

static void promise_well(struct standing *s, uint16_t partition, struct promise promise)
{
	struct call c;
	submit(s, &c, partition, promise);
	promises_stop(s->promises);
	assert_true(c.done);
	CHECK_OK(c.write.status, c.write.err);
}

/* A start of that kind finds its replicas whole, or not, and ends. */
static void live(const struct standing_options *o, bool whole, bool clean)
{
	struct standing s;
	open_well(&s, o);
	assert_whole(&s, whole);
	standing_close(&s, clean);
}

/* The first start: of no replica is it known yet that there never was a primary, then of all. */
static void begin(const struct standing_options *o, bool clean)
{
	struct standing s;
	struct call calls[PARTITIONS + 1];
	open_well(&s, o);
	assert_whole(&s, false);
	for (uint16_t p = 0; p <= PARTITIONS; p++)
		submit(&s, &calls[p], p < PARTITIONS ? p : JOURNAL_LEDGER, (struct promise){.whole = true});
	promises_stop(s.promises);
	for (uint16_t p = 0; p <= PARTITIONS; p++)
		assert_true(calls[p].done && !calls[p].write.status);
	standing_close(&s, clean);
}

/* --- Whole */

static void a_new_folder_has_no_whole_replicas(void **state)
{
	(void)state;
	struct faulty_disk *d = faulty_disk_create();
	const struct standing_options o = options_on(d, BOOT_1);
	live(&o, false, true);
	begin(&o, false);
	live(&o, true, false); /* the machine is still up */
	faulty_disk_destroy(d);
}

static void after_a_power_cut_only_an_orderly_end_leaves_whole_replicas(void **state)
{
	(void)state;
	for (int clean = 0; clean < 2; clean++) {
		struct faulty_disk *d = faulty_disk_create();
		const struct standing_options before = options_on(d, BOOT_1), after = options_on(d, BOOT_2);
		begin(&before, clean);
		faulty_disk_crash(d, CRASH_UNSYNCED, 1);
		live(&after, clean, true);
		live(&after, clean, true); /* what was lost does not come back */
		faulty_disk_destroy(d);
	}
}

static void a_log_in_memory_is_lost_with_the_process(void **state)
{
	(void)state;
	struct faulty_disk *d = faulty_disk_create();
	struct standing_options o = options_on(d, BOOT_1);
	struct standing s;
	o.log = PROMISES_LOG_MEMORY;
	begin(&o, true);
	open_well(&s, &o);
	assert_whole(&s, false);
	promise_well(&s, 2, (struct promise){.promised = 7, .whole = true});
	standing_close(&s, true);
	open_well(&s, &o);
	assert_whole(&s, false);
	assert_int_equal(promises_found(s.promises, 2).promised, 7);
	standing_close(&s, true);
	faulty_disk_destroy(d);
}

static void starts_are_numbered_upwards(void **state)
{
	(void)state;
	struct faulty_disk *d = faulty_disk_create();
	const struct standing_options o = options_on(d, BOOT_1);
	const int64_t at_ms[] = {1000, 1000, 500, 2000};
	const uint64_t expected[] = {1000, 1001, 1002, 2000};
	for (uint32_t i = 0; i < 4; i++) {
		struct standing s;
		now_ms = at_ms[i];
		open_well(&s, &o);
		assert_int_equal(promises_incarnation(s.promises), expected[i]);
		standing_close(&s, i % 2);
	}
	faulty_disk_destroy(d);
}

/* --- What cannot be used */

static void a_second_server_on_the_folder_is_refused(void **state)
{
	(void)state;
	struct faulty_disk *d = faulty_disk_create();
	const struct standing_options o = options_on(d, BOOT_1);
	struct standing s;
	open_well(&s, &o);
	const uint64_t steps = faulty_disk_steps(d);
	refuse(&o, WEIR_E_BUSY, FOLDER "/LOCK", "in use");
	assert_int_equal(faulty_disk_steps(d), steps);
	promise_well(&s, 1, (struct promise){.promised = 3, .whole = true});
	standing_close(&s, true);
	open_well(&s, &o);
	assert_int_equal(promises_found(s.promises, 1).promised, 3);
	standing_close(&s, true);
	faulty_disk_destroy(d);
}

static void replicas_whose_promises_are_gone_are_not_whole(void **state)
{
	(void)state;
	struct faulty_disk *d = faulty_disk_create();
	struct disk *disk = faulty_disk_interface(d);
	const struct standing_options o = options_on(d, BOOT_1);
	weir_error err = {0};
	begin(&o, true);
	CHECK_OK(disk->ops->remove(disk, PROMISES, &err), err);
	live(&o, false, true);
	live(&o, false, true);
	faulty_disk_destroy(d);
}

static void promises_without_an_identity_are_refused(void **state)
{
	(void)state;
	struct faulty_disk *d = faulty_disk_create();
	struct disk *disk = faulty_disk_interface(d);
	const struct standing_options o = options_on(d, BOOT_1);
	weir_error err = {0};
	begin(&o, true);
	CHECK_OK(disk->ops->remove(disk, FOLDER "/IDENTITY", &err), err);
	refuse(&o, WEIR_E_CORRUPT, FOLDER, "its IDENTITY is missing");
	faulty_disk_destroy(d);
}

static void damaged_promises_are_refused(void **state)
{
	(void)state;
	struct faulty_disk *d = faulty_disk_create();
	struct disk *disk = faulty_disk_interface(d);
	const struct standing_options o = options_on(d, BOOT_1);
	weir_error err = {0};
	begin(&o, true);
	faulty_disk_flip(d, PROMISES, 70, 3);
	refuse(&o, WEIR_E_CORRUPT, PROMISES, "put back the file, or remove it");
	CHECK_OK(disk->ops->remove(disk, PROMISES, &err), err); /* as it says */
	live(&o, false, true);
	faulty_disk_destroy(d);
}

static void promises_of_another_server_are_refused(void **state)
{
	(void)state;
	struct faulty_disk *d = faulty_disk_create();
	struct disk *disk = faulty_disk_interface(d);
	const struct standing_options o = options_on(d, BOOT_1);
	struct standing_options other = o;
	weir_error err = {0};
	other.path = "other";
	other.who.index = 0;
	begin(&o, true);
	begin(&other, true);
	CHECK_OK(disk_copy_file(disk, "other/PROMISES", PROMISES, &err), err);
	refuse(&o, WEIR_E_STATE, PROMISES, "is of another job, generation or server");
	faulty_disk_destroy(d);
}

static void what_cannot_be_written_is_named(void **state)
{
	(void)state;
	for (uint32_t later = 1;; later++) {
		struct faulty_disk *d = faulty_disk_create();
		const struct standing_options o = options_on(d, BOOT_1);
		struct standing s;
		weir_error err = {0};
		begin(&o, true);
		faulty_disk_full_at(d, faulty_disk_steps(d) + later);
		const weir_status status = standing_open(&s, &o, &err);
		standing_close(&s, false);
		if (status) {
			assert_int_equal(status, WEIR_E_NO_SPACE);
			CHECK_CONTAINS(err.text, FOLDER "/");
			faulty_disk_make_room(d);
			live(&o, true, true); /* on the same boot: nothing was lost */
		}
		faulty_disk_destroy(d);
		if (!status) {
			assert_true(later > 6); /* both small files and their names */
			break;
		}
	}
}

/* --- Going back */

static weir_status set_aside(const struct standing_options *o, const char *aside, uint64_t generation, bool *done,
                             weir_error *err)
{
	struct folder_identity who = o->who;
	who.generation = generation;
	return folder_set_aside(o->disk, o->path, aside, o->holder, &who, done, err);
}

static void a_folder_of_an_earlier_generation_is_put_aside(void **state)
{
	(void)state;
	char folder[FOLDER_BYTES], path[FOLDER_BYTES + 16], aside[FOLDER_BYTES + 32];
	struct faulty_disk *none = faulty_disk_create();
	struct standing_options o = options_on(none, BOOT_1);
	struct standing s;
	weir_error err = {0};
	bool done = true;
	folder_create(folder);
	snprintf(path, sizeof path, "%s/server-1", folder);
	snprintf(aside, sizeof aside, "%s/before-g2/server-1", folder);
	o.disk = disk_system(); /* which renames folders */
	o.path = path;
	CHECK_OK(set_aside(&o, aside, 2, &done, &err), err);
	assert_false(done); /* there is none */
	open_well(&s, &o);
	assert_int_equal(set_aside(&o, aside, 2, &done, &err), WEIR_E_BUSY); /* in use */
	standing_close(&s, false);
	CHECK_OK(set_aside(&o, aside, 1, &done, &err), err);
	assert_false(done); /* it is ours */
	CHECK_OK(set_aside(&o, aside, 2, &done, &err), err);
	assert_true(done);
	o.who.generation = 2;
	begin(&o, true); /* a new one in its place */
	CHECK_OK(set_aside(&o, aside, 2, &done, &err), err);
	assert_false(done);
	assert_int_equal(set_aside(&o, aside, 3, &done, &err), WEIR_E_EXISTS); /* never over another */
	CHECK_CONTAINS(err.text, "before-g2/server-1 is there already");
	o.who.uuid[0]++;
	CHECK_OK(set_aside(&o, aside, 3, &done, &err), err);
	assert_false(done); /* another job's: the start refuses it */
	faulty_disk_destroy(none);
	folder_remove(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_new_folder_has_no_whole_replicas),
	    cmocka_unit_test(after_a_power_cut_only_an_orderly_end_leaves_whole_replicas),
	    cmocka_unit_test(a_log_in_memory_is_lost_with_the_process),
	    cmocka_unit_test(starts_are_numbered_upwards),
	    cmocka_unit_test(a_second_server_on_the_folder_is_refused),
	    cmocka_unit_test(replicas_whose_promises_are_gone_are_not_whole),
	    cmocka_unit_test(promises_without_an_identity_are_refused),
	    cmocka_unit_test(damaged_promises_are_refused),
	    cmocka_unit_test(promises_of_another_server_are_refused),
	    cmocka_unit_test(what_cannot_be_written_is_named),
	    cmocka_unit_test(a_folder_of_an_earlier_generation_is_put_aside),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
