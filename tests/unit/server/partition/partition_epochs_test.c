/* The epochs that a partition knows after a recovery are those of its log. */
#include <inttypes.h>
#include <stdio.h>

#include "proto/wire/wire.h"
#include "server/log/journal_format.h"
#include "server/records/epochs.h"
#include "server/snapshot/snapshot_receive.h"
#include "server/store/cold.h"
#include "tests/unit/server/partition/recovery_fixture.h"

/* --- Epochs */

static void check_epochs(const struct world *w, const struct epoch_start *starts, size_t count)
{
	Weir__V1__PartitionState *s = unpack_state(w->n.p);
	assert_int_equal(s->n_epochs, count);
	for (size_t i = 0; i < count; i++) {
		assert_int_equal(s->epochs[i]->epoch, starts[i].epoch);
		assert_int_equal(s->epochs[i]->first, starts[i].first);
	}
	wire_destroy(&s->base);
}

/* {epoch, first entry}... */
#define assert_epochs(w, ...)                                  \
	check_epochs(w, (const struct epoch_start[]){__VA_ARGS__}, \
	             sizeof((const struct epoch_start[]){__VA_ARGS__}) / sizeof(struct epoch_start))

static void restart(struct world *w, enum faulty_crash how)
{
	crash_by(w, how);
	start(w);
	assert_equal_to_twin(w);
	begin(w);
}

static void epochs_begin_where_the_log_says(void **state)
{
	(void)state;
	struct world *w = open_world(false);
	assert_epochs(w, {1, 1});
	for (uint32_t i = 0; i < 3; i++)
		push_rows(w, ASYNC_ROWS, RECORD_ASSIGN);
	restart(w, CRASH_PROCESS);
	assert_epochs(w, {1, 1}, {2, 5});
	flush(w);
	restart(w, CRASH_PROCESS);
	assert_int_equal(w->n.replayed, 0); /* the header alone shows it */
	assert_epochs(w, {1, 1}, {2, 5}, {3, 6});
	restart(w, CRASH_UNSYNCED); /* epoch 3 has never begun */
	assert_epochs(w, {1, 1}, {2, 5}, {4, 6});
	push_rows(w, ASYNC_ROWS, RECORD_ASSIGN);
	weir_error err = {0};
	CHECK_OK(journal_wait(w->n.journal, &err), err);
	restart(w, CRASH_UNSYNCED);
	assert_epochs(w, {1, 1}, {2, 5}, {4, 6}, {5, 8});
	close_world(w);
}

/* Every start creates a segment. */
static void cut_newest_segment(struct world *w, uint64_t bytes)
{
	struct disk *disk = faulty_disk_interface(w->n.disk);
	struct disk_file *file;
	weir_error err = {0};
	char path[64];
	snprintf(path, sizeof path, "journal/%08" PRIu64 ".wal", w->epoch);
	CHECK_OK(disk->ops->open(disk, path, false, &file, &err), err);
	CHECK_OK(disk->ops->truncate(file, bytes, &err), err);
	disk->ops->close(file);
}

static void an_epoch_whose_first_entry_is_torn_has_not_begun(void **state)
{
	(void)state;
	const uint32_t bytes = JOURNAL_ENTRY_HEADER_BYTES + RECORD_HEADER_BYTES;
	struct world *w = open_world(false);
	push_rows(w, ASYNC_ROWS, RECORD_ASSIGN);
	restart(w, CRASH_PROCESS);
	for (uint32_t kept = 0; kept < bytes; kept += 8) {
		crash_by(w, CRASH_PROCESS);
		cut_newest_segment(w, JOURNAL_SEGMENT_HEADER_BYTES + kept);
		start(w);
		assert_int_equal(w->survived, 2);
		assert_equal_to_twin(w);
		begin(w);
		assert_epochs(w, {1, 1}, {w->epoch, 3});
	}
	close_world(w);
}

/* Older servers wrote no entry for the start of an epoch. */
static void an_epoch_that_has_no_first_entry_begins_with_the_first_that_is_of_it(void **state)
{
	(void)state;
	struct world *w = open_world(true);
	for (uint64_t i = 1; i <= 3; i++)
		append_entry(w, i, i);
	die_and_start(w, 3, 0);
	die_and_start(w, 3, 0); /* the start wrote nothing */
	append_entry(w, 4, 4);
	append_entry(w, 5, 5);
	die_and_start(w, 5, 0);
	assert_epochs(w, {1, 1}, {3, 4});
	begin(w);
	assert_epochs(w, {1, 1}, {3, 4}, {4, 6});
	flush(w);
	die_and_start(w, 6, 0);
	assert_epochs(w, {1, 1}, {3, 4}, {4, 6});
	close_world(w);
}

/* --- After an unfinished snapshot: the partition starts anew, the journal still has its old log */

static void leave_unfinished(struct world *w)
{
	struct cold *cold;
	size_t bytes;
	const void *header = snapshot_unfinished(&bytes);
	weir_error err = {0};
	crash_by(w, CRASH_PROCESS);
	CHECK_OK(cold_open(&cold, &(struct cold_options){.path = w->n.folder}, &err), err);
	CHECK_OK(cold_empty_partition(cold, 0, header, bytes, &err), err);
	CHECK_OK(cold_flush(cold, &err), err);
	cold_close(cold);
	forget_above(w, 0);
}

static void entries_before_a_reset_are_not_replayed(void **state)
{
	(void)state;
	struct world *w = open_world(false);
	for (uint32_t i = 0; i < 4; i++)
		push_rows(w, ASYNC_ROWS, RECORD_ASSIGN);
	leave_unfinished(w);
	w->epoch++;
	/* Entries 3 to 5 of the former log are in segments that may go. */
	faulty_disk_keep_removed(w->n.disk);
	node_start(&w->n);
	assert_true(w->n.was_unfinished && appended(w) == 0);
	begin(w);
	push_rows(w, ASYNC_ROWS, RECORD_ASSIGN);
	flush(w);
	restart(w, CRASH_PROCESS);
	assert_int_equal(w->survived, 2);
	assert_int_equal(w->n.replayed, 3);
	assert_epochs(w, {2, 1}, {3, 3});
	close_world(w);
}

/* The first entries have the same indices, and no flush covers them. */
static void entries_before_a_reset_without_a_flush_are_not_replayed(void **state)
{
	(void)state;
	struct world *w = open_world(false);
	for (uint32_t i = 0; i < 4; i++)
		push_rows(w, ASYNC_ROWS, RECORD_ASSIGN);
	leave_unfinished(w);
	w->epoch++;
	faulty_disk_keep_removed(w->n.disk);
	node_start(&w->n);
	begin(w);
	push_rows(w, ASYNC_ROWS, RECORD_ASSIGN);
	restart(w, CRASH_PROCESS);
	assert_int_equal(w->survived, 2);
	assert_int_equal(w->n.replayed, 2);
	assert_epochs(w, {2, 1}, {3, 3});
	close_world(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(epochs_begin_where_the_log_says),
	    cmocka_unit_test(an_epoch_whose_first_entry_is_torn_has_not_begun),
	    cmocka_unit_test(an_epoch_that_has_no_first_entry_begins_with_the_first_that_is_of_it),
	    cmocka_unit_test(entries_before_a_reset_are_not_replayed),
	    cmocka_unit_test(entries_before_a_reset_without_a_flush_are_not_replayed),
	};
	return cmocka_run_group_tests_name("partition_epochs", tests, NULL, NULL);
}
