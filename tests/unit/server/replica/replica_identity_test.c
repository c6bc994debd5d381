/* Starts and ends of a server: which replicas it takes for whole, and its errors for a folder that
 * it cannot use. */
#include <stdio.h>
#include <stdlib.h>

#include "server/log/journal.h"
#include "server/replica/replica_identity.h"
#include "tests/cmocka_check.h"
#include "tests/executor_at_once.h"
#include "tests/folder.h"
#include "tests/unit/faulty_disk.h"

enum { PARTITIONS = 3, BOOT_1 = 1, BOOT_2 = 2 };
#define FOLDER   "folder"
#define PROMISES FOLDER "/PROMISES"

/* --- A clock that does not advance */

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

struct scene {
	struct faulty_disk *faulty;
	struct replica_identity_options o; /* of a server on that disk, in the machine's first boot */
};

static void scene_open(struct scene *s)
{
	s->faulty = faulty_disk_create();
	s->o = (struct replica_identity_options){
	    .disk = faulty_disk_interface(s->faulty),
	    .path = FOLDER,
	    .holder = "server-1, pid 77",
	    .machine_boot = {BOOT_1},
	    .clock = &test_clock,
	    .who = {.uuid = "standing test", .generation = 1, .index = 1, .servers = 2, .partitions = PARTITIONS},
	    .log = VOTE_LOG_CACHED};
}

static void scene_close(struct scene *s)
{
	faulty_disk_destroy(s->faulty);
}

static int set_up(void **state)
{
	scene_open(*state = malloc(sizeof(struct scene)));
	return 0;
}

static int tear_down(void **state)
{
	scene_close(*state);
	free(*state);
	return 0;
}

static void remove_file(struct scene *s, const char *path)
{
	weir_error err = {0};
	CHECK_OK(s->o.disk->ops->remove(s->o.disk, path, &err), err);
}

/* Opens the identity and begins the start. */
static weir_status start(struct replica_identity *s, const struct replica_identity_options *o, weir_error *err)
{
	weir_status status = replica_identity_open(s, o, err);
	return status ? status : folder_begin(s->folder, err);
}

static void open_well(struct replica_identity *s, const struct replica_identity_options *o)
{
	weir_error err = {0};
	CHECK_OK(start(s, o, &err), err);
}

/* Checks the refusal's status and text. Everything is closed again. */
static void refuse(const struct replica_identity_options *o, weir_status status, const char *where, const char *says)
{
	struct replica_identity s;
	weir_error err = {0};
	assert_int_equal(replica_identity_open(&s, o, &err), status);
	CHECK_CONTAINS(err.text, where);
	CHECK_CONTAINS(err.text, says);
	replica_identity_close(&s, false);
}

static void assert_whole(const struct replica_identity *s, bool whole)
{
	for (uint16_t p = 0; p < PARTITIONS; p++)
		assert_int_equal(vote_store_found(s->votes, p).whole, whole);
	assert_int_equal(vote_store_found(s->votes, JOURNAL_LEDGER).whole, whole);
}

struct call {
	struct vote_write write;
	bool done;
};

static void note_done(struct vote_write *w)
{
	((struct call *)w)->done = true;
}

static void submit(struct replica_identity *s, struct call *c, uint16_t partition, struct vote vote)
{
	*c = (struct call){.write = {.partition = partition, .vote = vote, .run_on = EXECUTOR_AT_ONCE, .done = note_done}};
	vote_store_submit(s->votes, &c->write);
}

static void promise_well(struct replica_identity *s, uint16_t partition, struct vote vote)
{
	struct call c;
	submit(s, &c, partition, vote);
	vote_store_stop(s->votes);
	assert_true(c.done);
	CHECK_OK(c.write.status, c.write.err);
}

/* A start that finds its replicas whole or not, and ends. */
static void live(const struct replica_identity_options *o, bool whole, bool clean)
{
	struct replica_identity s;
	open_well(&s, o);
	assert_whole(&s, whole);
	replica_identity_close(&s, clean);
}

/* The first start: at first no replica is whole. Then all are, because their partitions never had a
 * primary. */
static void begin(const struct replica_identity_options *o, bool clean)
{
	struct replica_identity s;
	struct call calls[PARTITIONS + 1];
	open_well(&s, o);
	assert_whole(&s, false);
	for (uint16_t p = 0; p <= PARTITIONS; p++)
		submit(&s, &calls[p], p < PARTITIONS ? p : JOURNAL_LEDGER, (struct vote){.whole = true});
	vote_store_stop(s.votes);
	for (uint16_t p = 0; p <= PARTITIONS; p++)
		assert_true(calls[p].done && !calls[p].write.status);
	replica_identity_close(&s, clean);
}

static void assert_promised(const struct replica_identity_options *o, uint16_t partition, uint64_t promised)
{
	struct replica_identity s;
	open_well(&s, o);
	assert_int_equal(vote_store_found(s.votes, partition).promised, promised);
	replica_identity_close(&s, true);
}

/* --- Whole */

static void a_new_folder_has_no_whole_replicas(void **state)
{
	struct scene *s = *state;
	live(&s->o, false, true);
	begin(&s->o, false);
	live(&s->o, true, false); /* the machine has not restarted */
}

static void cut_the_power(struct scene *s, bool clean)
{
	begin(&s->o, clean);
	faulty_disk_crash(s->faulty, CRASH_UNSYNCED, 1);
	s->o.machine_boot[0] = BOOT_2;
	live(&s->o, clean, true);
	live(&s->o, clean, true); /* lost entries do not come back */
}

static void after_a_power_cut_no_replica_is_whole(void **state)
{
	cut_the_power(*state, false);
}

static void after_an_orderly_end_a_power_cut_does_no_harm(void **state)
{
	cut_the_power(*state, true);
}

static void a_log_in_memory_is_lost_with_the_process(void **state)
{
	struct scene *s = *state;
	struct replica_identity identity;
	s->o.log = VOTE_LOG_MEMORY;
	begin(&s->o, true);
	open_well(&identity, &s->o);
	assert_whole(&identity, false);
	promise_well(&identity, 2, (struct vote){.promised = 7, .whole = true});
	replica_identity_close(&identity, true);
	live(&s->o, false, true);
	assert_promised(&s->o, 2, 7);
}

static void starts_are_numbered_upwards(void **state)
{
	struct scene *s = *state;
	static const struct {
		int64_t at_ms;
		uint64_t number;
	} starts[] = {{1000, 1000}, {1000, 1001}, {500, 1002}, {2000, 2000}};
	for (uint32_t i = 0; i < sizeof starts / sizeof *starts; i++) {
		struct replica_identity identity;
		now_ms = starts[i].at_ms;
		open_well(&identity, &s->o);
		assert_int_equal(vote_store_incarnation(identity.votes), starts[i].number);
		replica_identity_close(&identity, i % 2);
	}
}

/* --- Unusable folders */

static void a_second_server_on_the_folder_is_refused(void **state)
{
	struct scene *s = *state;
	struct replica_identity first;
	open_well(&first, &s->o);
	const uint64_t steps = faulty_disk_steps(s->faulty);
	refuse(&s->o, WEIR_E_BUSY, FOLDER "/LOCK", "in use");
	assert_int_equal(faulty_disk_steps(s->faulty), steps);
	promise_well(&first, 1, (struct vote){.promised = 3, .whole = true});
	replica_identity_close(&first, true);
	assert_promised(&s->o, 1, 3);
}

static void replicas_whose_promises_are_gone_are_not_whole(void **state)
{
	struct scene *s = *state;
	begin(&s->o, true);
	remove_file(s, PROMISES);
	live(&s->o, false, true);
	live(&s->o, false, true);
}

/* The folder is refused after some damage. Without the vote store it is a folder without whole
 * replicas. */
static void refuse_spoilt(struct scene *s, weir_status status, const char *where, const char *says)
{
	refuse(&s->o, status, where, says);
	remove_file(s, PROMISES);
	live(&s->o, false, true);
}

static void vote_store_without_an_identity_are_refused(void **state)
{
	struct scene *s = *state;
	begin(&s->o, true);
	remove_file(s, FOLDER "/IDENTITY");
	refuse_spoilt(s, WEIR_E_CORRUPT, FOLDER, "its IDENTITY is missing");
}

static void damaged_promises_are_refused(void **state)
{
	struct scene *s = *state;
	begin(&s->o, true);
	faulty_disk_flip(s->faulty, PROMISES, 70, 3);
	refuse_spoilt(s, WEIR_E_CORRUPT, PROMISES, "put back the file, or remove it");
}

static void vote_store_of_another_server_are_refused(void **state)
{
	struct scene *s = *state;
	struct replica_identity_options other = s->o;
	weir_error err = {0};
	other.path = "other";
	other.who.index = 0;
	begin(&s->o, true);
	begin(&other, true);
	CHECK_OK(disk_copy_file(s->o.disk, "other/PROMISES", PROMISES, &err), err);
	refuse_spoilt(s, WEIR_E_STATE, PROMISES, "is of another job, generation or server");
}

/* The disk is full at step `later` of a start. False: the start has fewer steps. */
static bool fill_disk(uint32_t later)
{
	struct scene s;
	struct replica_identity identity;
	weir_error err = {0};
	scene_open(&s);
	begin(&s.o, true);
	faulty_disk_full_at(s.faulty, faulty_disk_steps(s.faulty) + later);
	const weir_status status = start(&identity, &s.o, &err);
	replica_identity_close(&identity, false);
	if (status) {
		assert_int_equal(status, WEIR_E_NO_SPACE);
		CHECK_CONTAINS(err.text, FOLDER "/");
		faulty_disk_make_room(s.faulty);
		live(&s.o, true, true); /* in the same boot: nothing is lost */
	}
	scene_close(&s);
	return status != WEIR_OK;
}

static void a_failed_write_names_its_file(void **state)
{
	uint32_t later = 1;
	(void)state;
	while (fill_disk(later))
		later++;
	assert_true(later > 6); /* both small files and their names */
}

static uint64_t reserved(const struct scene *s)
{
	struct disk *d = s->o.disk;
	struct disk_file *file;
	uint64_t bytes = 0;
	weir_error err = {0};
	if (d->ops->open(d, FOLDER "/RESERVE", false, &file, &err))
		return 0;
	CHECK_OK(d->ops->size(file, &bytes, &err), err);
	d->ops->close(file);
	return bytes;
}

static void space_is_kept_while_it_runs(void **state)
{
	struct scene *s = *state;
	struct replica_identity identity;
	assert_int_equal(reserved(s), 0);
	open_well(&identity, &s->o);
	assert_int_equal(reserved(s), WEIR_RESERVE_BYTES);
	replica_identity_close(&identity, true);
	assert_int_equal(reserved(s), 0);
}

/* --- A disk that goes back in time */

static uint64_t epoch_after(const struct replica_identity_options *o, uint64_t found)
{
	struct replica_identity s;
	open_well(&s, o);
	assert_int_equal(folder_epoch_found(s.folder), found);
	const uint64_t epoch = folder_epoch(s.folder);
	replica_identity_close(&s, true);
	return epoch;
}

static void a_start_counts_once_it_has_begun(void **state)
{
	struct scene *s = *state;
	struct replica_identity identity;
	weir_error err = {0};
	assert_int_equal(epoch_after(&s->o, 0), 1);
	for (int i = 0; i < 3; i++) { /* an error ends the start before it begins */
		CHECK_OK(replica_identity_open(&identity, &s->o, &err), err);
		assert_int_equal(folder_epoch(identity.folder), 2);
		replica_identity_close(&identity, true);
	}
	assert_int_equal(epoch_after(&s->o, 1), 2);
}

static void a_folder_that_has_not_seen_the_last_start_is_refused(void **state)
{
	struct scene *s = *state;
	assert_int_equal(epoch_after(&s->o, 0), 1);
	assert_int_equal(epoch_after(&s->o, 1), 2);
	s->o.start.epoch_known = 2;
	assert_int_equal(epoch_after(&s->o, 2), 3); /* the newest copy of the folder */
	s->o.start.epoch_known = 5;
	for (int i = 0; i < 5; i++) /* attempts do not change the folder */
		refuse(&s->o, WEIR_E_STALE, "its last start was 3", "start 5 of this server has run");
	s->o.path = "new"; /* a new folder replaces it */
	assert_int_equal(epoch_after(&s->o, 0), 6);
	assert_int_equal(epoch_after(&s->o, 6), 7);
}

static uint64_t incarnation_of(const struct replica_identity_options *o)
{
	struct replica_identity s;
	open_well(&s, o);
	const uint64_t incarnation = vote_store_incarnation(s.votes);
	replica_identity_close(&s, true);
	return incarnation;
}

/* The folder is lost and the clock is behind: the coordinator's incarnation counts. */
static void a_start_has_the_incarnation_that_it_was_given(void **state)
{
	struct scene *s = *state;
	const uint64_t wall_ms = (uint64_t)now_ms;
	assert_int_equal(incarnation_of(&s->o), wall_ms); /* no incarnation given */
	s->o.path = "new";
	s->o.incarnation_least = wall_ms + 5001;
	assert_int_equal(incarnation_of(&s->o), wall_ms + 5001);
	s->o.incarnation_least = wall_ms + 1; /* the start follows the one that its folder knows */
	assert_int_equal(incarnation_of(&s->o), wall_ms + 5002);
	s->o.path = "newer";
	assert_int_equal(incarnation_of(&s->o), wall_ms + 1);
}

static void a_folder_is_there_once_it_was_opened(void **state)
{
	struct scene *s = *state;
	bool there;
	weir_error err = {0};
	CHECK_OK(folder_is_there(s->o.disk, FOLDER, &there, &err), err);
	assert_false(there);
	live(&s->o, false, true);
	CHECK_OK(folder_is_there(s->o.disk, FOLDER, &there, &err), err);
	assert_true(there);
}

/* --- Rewind */

static weir_status set_aside(const struct replica_identity_options *o, const char *aside, uint64_t generation, bool *done,
                             weir_error *err)
{
	struct folder_identity who = o->who;
	who.generation = generation;
	return folder_set_aside(o->disk, o->path, aside, o->holder, &who, done, err);
}

static void set_aside_well(const struct replica_identity_options *o, const char *aside, uint64_t generation, bool expected)
{
	weir_error err = {0};
	bool done = !expected;
	CHECK_OK(set_aside(o, aside, generation, &done, &err), err);
	assert_int_equal(done, expected);
}

static void a_folder_of_an_earlier_generation_is_put_aside(void **state)
{
	struct replica_identity_options o = ((struct scene *)*state)->o;
	char folder[FOLDER_BYTES], path[FOLDER_BYTES + 16], aside[FOLDER_BYTES + 32];
	struct replica_identity s;
	weir_error err = {0};
	bool done;
	folder_create(folder);
	snprintf(path, sizeof path, "%s/server-1", folder);
	snprintf(aside, sizeof aside, "%s/before-g2/server-1", folder);
	o.disk = disk_system(); /* the real disk can rename folders */
	o.path = path;
	set_aside_well(&o, aside, 2, false); /* the folder does not exist */
	open_well(&s, &o);
	assert_int_equal(set_aside(&o, aside, 2, &done, &err), WEIR_E_BUSY); /* the folder is in use */
	replica_identity_close(&s, false);
	set_aside_well(&o, aside, 1, false); /* the folder has our generation */
	set_aside_well(&o, aside, 2, true);
	o.who.generation = 2;
	begin(&o, true); /* a new folder in its place */
	set_aside_well(&o, aside, 2, false);
	/* Never replaces another folder. */
	assert_int_equal(set_aside(&o, aside, 3, &done, &err), WEIR_E_EXISTS);
	CHECK_CONTAINS(err.text, "before-g2/server-1 is there already");
	o.who.uuid[0]++;
	set_aside_well(&o, aside, 3, false); /* of another job: the start refuses it */
	folder_remove(folder);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(a_new_folder_has_no_whole_replicas),
	    TEST(after_a_power_cut_no_replica_is_whole),
	    TEST(after_an_orderly_end_a_power_cut_does_no_harm),
	    TEST(a_log_in_memory_is_lost_with_the_process),
	    TEST(starts_are_numbered_upwards),
	    TEST(a_second_server_on_the_folder_is_refused),
	    TEST(replicas_whose_promises_are_gone_are_not_whole),
	    TEST(vote_store_without_an_identity_are_refused),
	    TEST(damaged_promises_are_refused),
	    TEST(vote_store_of_another_server_are_refused),
	    cmocka_unit_test(a_failed_write_names_its_file),
	    TEST(space_is_kept_while_it_runs),
	    TEST(a_start_counts_once_it_has_begun),
	    TEST(a_folder_that_has_not_seen_the_last_start_is_refused),
	    TEST(a_start_has_the_incarnation_that_it_was_given),
	    TEST(a_folder_is_there_once_it_was_opened),
	    TEST(a_folder_of_an_earlier_generation_is_put_aside),
	};
	return cmocka_run_group_tests_name("standing", tests, NULL, NULL);
}
