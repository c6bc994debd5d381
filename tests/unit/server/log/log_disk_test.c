/* A partition's log on top of a journal: kept entries, checksums, cuts, restarts. */
#include <sched.h>

#include "server/log/journal_format.h"
#include "tests/unit/faulty_disk.h"
#include "tests/unit/server/log/journal_folder.h"

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

static void the_log_on_disk_holds_its_entries(void **state)
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
	fixture_close_journal(j);

	fixture_close_journal(reopen(disk_system(), &seen));
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
	CHECK_OK(open_journal(disk_system(), j, err), *err);
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
	fixture_close_journal(j);

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
	fixture_close_journal(j);

	CHECK_OK(restore(&j, &l, 1, &err), err);
	assert_log(l, 1, 11, 8);
	assert_int_equal(epoch_of(l, 8), 2);
	assert_int_equal(epoch_of(l, 9), 1002);
	l->ops->destroy(l);
	fixture_close_journal(j);

	CHECK_OK(restore(&j, &l, 11, &err), err); /* a flush covers the cut entries, and more */
	assert_log(l, 11, 11, 10);
	CHECK_OK(l->ops->restart(l, 40, &err), err);
	assert_log(l, 40, 39, 39);
	append_to_log(l, 40, 44, 2);
	l->ops->destroy(l);
	fixture_close_journal(j);

	CHECK_OK(restore(&j, &l, 40, &err), err);
	assert_log(l, 40, 44, 41);
	assert_int_equal(epoch_of(l, 40), 2009);
	l->ops->destroy(l);
	fixture_close_journal(j);
}

static void a_failed_append_commits_nothing(void **state)
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
	fixture_close_journal(j);
	faulty_disk_destroy(disk);
}

static void a_cut_of_committed_entries_is_refused(void **state)
{
	(void)state;
	struct fixture_seen seen;
	weir_error err = {0};
	struct log *l;
	struct journal *j = reopen(disk_system(), &seen);
	append(j, 0, 1, 10); /* entry 10 says that 7 is committed */
	fixture_cut(j, 0, 7);
	fixture_close_journal(j);
	assert_int_equal(restore(&j, &l, 1, &err), WEIR_E_CORRUPT);
	CHECK_CONTAINS(err.text, "a cut voids entry 7, entries up to 7 are committed");
	l->ops->destroy(l);
	fixture_close_journal(j);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    IN_JOURNAL_FOLDER(the_log_on_disk_holds_its_entries),     IN_JOURNAL_FOLDER(an_entry_keeps_its_checksum),
	    IN_JOURNAL_FOLDER(the_log_on_disk_is_cut_and_restored),   IN_JOURNAL_FOLDER(a_failed_append_commits_nothing),
	    IN_JOURNAL_FOLDER(a_cut_of_committed_entries_is_refused),
	};
	return cmocka_run_group_tests_name("log_disk", tests, NULL, NULL);
}
