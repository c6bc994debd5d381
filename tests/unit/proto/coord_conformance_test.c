/* The contract of coord.h, on each coordinator: test_coord_conformance memory|etcd. */
#include <stdio.h>
#include <stdlib.h>

#include "tests/cmocka_check.h"
#include "tests/unit/proto/coord_fixture.h"

#define LEASE_MS 6000 /* longer than any pause of a busy machine */

static bool over_etcd;

/* A world with `count` connected sessions. */
static void open_connected(struct world *w, uint32_t count)
{
	world_open(w, over_etcd);
	for (uint32_t i = 0; i < count; i++)
		session_wait_state(session_open(w, LEASE_MS), COORD_CONNECTED);
}

/* --- Records */

static void a_record_is_made_changed_and_deleted_as_guarded(void **state)
{
	(void)state;
	struct world w;
	static struct answer a;
	open_connected(&w, 1);
	struct session *s = &w.sessions[0];

	uint64_t first = put_text(s, "/t/k", "one", 0, false, &a);
	assert_int_not_equal(first, 0);
	read_now(s, "/t/k", &a);
	assert_int_equal(a.status, WEIR_OK);
	assert_int_equal(a.count, 1);
	assert_string_equal(a.records[0].key, "/t/k");
	assert_string_equal(a.records[0].value, "one");
	assert_int_equal(a.records[0].mod_revision, first);
	assert_int_equal(a.records[0].lease, 0);
	assert_true(a.revision >= first);

	/* the record exists: the answer has its value */
	assert_int_equal(put_text(s, "/t/k", "again", 0, false, &a), 0);
	assert_int_equal(a.status, WEIR_OK);
	assert_int_equal(a.count, 1);
	assert_string_equal(a.records[0].value, "one");
	assert_int_equal(a.records[0].mod_revision, first);

	uint64_t second = put_text(s, "/t/k", "two", first, false, &a);
	assert_true(second > first);
	assert_int_equal(put_text(s, "/t/k", "late", first, false, &a), 0);
	assert_string_equal(a.records[0].value, "two");
	assert_int_equal(put_text(s, "/t/k", NULL, first, false, &a), 0);
	uint64_t gone = put_text(s, "/t/k", NULL, second, false, &a);
	assert_true(gone > second);
	read_now(s, "/t/k", &a);
	assert_int_equal(a.count, 0);
	assert_int_equal(put_text(s, "/t/k", "ghost", second, false, &a), 0);
	assert_int_equal(a.count, 0);
	/* deleting a missing record changes nothing */
	assert_int_equal(put_text(s, "/t/k", NULL, ANY, false, &a), gone);
	world_close(&w);
}

static void a_transaction_is_all_or_nothing(void **state)
{
	(void)state;
	struct world w;
	static struct answer a;
	open_connected(&w, 1);
	struct session *s = &w.sessions[0];
	uint64_t x = put_text(s, "/t/x", "x", ANY, false, &a), y = put_text(s, "/t/y", "y", ANY, false, &a);
	struct coord_guard guards[] = {{"/t/none", 0}, {"/t/x", x}, {"/t/y", y}};
	const struct coord_change changes[] = {
	    {.key = "/t/x", .value = "X", .value_bytes = 1}, {.key = "/t/y"}, {.key = "/t/z", .value = "", .value_bytes = 0}};
	struct coord_txn txn = {.guards = guards, .guards_count = 3, .changes = changes, .changes_count = 3};

	guards[1].mod_revision = y;
	txn_now(s, &txn, &a);
	assert_int_equal(a.status, WEIR_OK);
	assert_false(a.applied);
	assert_int_equal(a.count, 2); /* the guarded records that exist */
	assert_string_equal(a.records[0].key, "/t/x");
	assert_string_equal(a.records[1].key, "/t/y");
	read_now(s, "/t/", &a);
	assert_int_equal(a.count, 2);
	assert_string_equal(a.records[0].value, "x");

	guards[1].mod_revision = x;
	txn_now(s, &txn, &a);
	assert_true(a.applied);
	assert_int_equal(a.count, 0);
	uint64_t revision = a.revision;
	read_now(s, "/t/", &a);
	assert_int_equal(a.count, 2);
	assert_string_equal(a.records[0].value, "X");
	assert_string_equal(a.records[1].key, "/t/z");
	assert_int_equal(a.records[1].value_bytes, 0);
	assert_string_equal(a.records[1].value, ""); /* an empty value is not a deletion */
	assert_int_equal(a.records[0].mod_revision, revision);
	assert_int_equal(a.records[1].mod_revision, revision);
	world_close(&w);
}

static void a_name_that_ends_in_a_slash_is_all_below_it(void **state)
{
	(void)state;
	struct world w;
	static struct answer a;
	static char keys[3][WEIR_COORD_TXN_MAX][32];
	static struct coord_change changes[WEIR_COORD_TXN_MAX];
	open_connected(&w, 1);
	struct session *s = &w.sessions[0];
	for (unsigned block = 0; block < 3; block++) {
		for (unsigned i = 0; i < WEIR_COORD_TXN_MAX; i++) {
			snprintf(keys[block][i], sizeof keys[block][i], "/t/a/%04u", 3 * i + (2 - block));
			changes[i] = (struct coord_change){.key = keys[block][i], .value = keys[block][i] + 5, .value_bytes = 4};
		}
		txn_now(s, &(struct coord_txn){.changes = changes, .changes_count = WEIR_COORD_TXN_MAX}, &a);
		assert_true(a.applied);
	}
	put_text(s, "/t/a0", "after", ANY, false, &a);
	put_text(s, "/t/a", "before", ANY, false, &a);
	put_text(s, "/t/a/0005/x", "below", ANY, false, &a);

	read_now(s, "/t/a/", &a);
	assert_int_equal(a.count, 3 * WEIR_COORD_TXN_MAX + 1);
	assert_string_equal(a.records[6].value, "below");
	for (uint32_t i = 1; i < a.count; i++)
		assert_true(strcmp(a.records[i - 1].key, a.records[i].key) < 0);
	read_now(s, "/t/a", &a);
	assert_int_equal(a.count, 1);
	assert_string_equal(a.records[0].value, "before");
	world_close(&w);
}

static void large_values_and_invalid_keys_are_refused(void **state)
{
	(void)state;
	struct world w;
	static struct answer a;
	static char value[WEIR_COORD_VALUE_BYTES_MAX + 1], longest[WEIR_COORD_KEY_BYTES_MAX + 1];
	static struct coord_guard guards[WEIR_COORD_TXN_MAX + 1];
	open_connected(&w, 1);
	struct session *s = &w.sessions[0];
	memset(value, 'v', sizeof value);
	memset(longest, 'k', sizeof longest - 1);
	longest[0] = '/';
	struct coord_change changes[2] = {{.key = "/t/k", .value = value, .value_bytes = sizeof value}, {.key = "/t/k"}};
	struct coord_txn txn = {.guards = guards, .changes = changes, .changes_count = 1};

	txn_now(s, &txn, &a);
	assert_int_equal(a.status, WEIR_E_LIMIT);
	CHECK_CONTAINS(a.refused.text, "/t/k");
	CHECK_CONTAINS(a.refused.text, "4096");
	changes[0].value_bytes--;
	txn_now(s, &txn, &a);
	assert_int_equal(a.status, WEIR_OK);
	read_now(s, "/t/k", &a);
	assert_int_equal(a.records[0].value_bytes, WEIR_COORD_VALUE_BYTES_MAX);

	txn.changes_count = 2;
	txn_now(s, &txn, &a);
	assert_int_equal(a.status, WEIR_E_INVALID);
	CHECK_CONTAINS(a.refused.text, "twice");
	txn.changes_count = 1;
	txn.guards_count = WEIR_COORD_TXN_MAX + 1;
	txn_now(s, &txn, &a);
	assert_int_equal(a.status, WEIR_E_LIMIT);
	txn.guards_count = 0;
	changes[0].key = "/t/";
	txn_now(s, &txn, &a);
	assert_int_equal(a.status, WEIR_E_INVALID);
	changes[0].key = longest;
	txn_now(s, &txn, &a);
	assert_int_equal(a.status, WEIR_E_LIMIT);
	longest[WEIR_COORD_KEY_BYTES_MAX - 1] = '\0';
	txn_now(s, &txn, &a);
	assert_int_equal(a.status, WEIR_OK);
	read_now(s, longest, &a);
	assert_int_equal(a.count, 1);
	read_now(s, "no/slash", &a);
	assert_int_equal(a.status, WEIR_E_INVALID);
	world_close(&w);
}

/* --- Watches */

static void a_watch_tells_each_change_once_in_order(void **state)
{
	(void)state;
	struct world w;
	static struct answer a;
	static struct watched all, one;
	open_connected(&w, 2);
	struct session *s = &w.sessions[0], *other = &w.sessions[1];
	uint64_t from = put_text(s, "/t/k", "before", ANY, false, &a) + 1;
	/* before the watch, and in its first answer */
	uint64_t k = put_text(s, "/t/k", "first", ANY, false, &a);
	watch_begin(s, "/t/", from, &all);
	watch_begin(s, "/t/k", k + 1, &one);
	put_text(other, "/elsewhere", "x", ANY, false, &a);
	const struct coord_change changes[] = {{.key = "/t/l", .value = "both", .value_bytes = 4},
	                                       {.key = "/t/k", .value = "both", .value_bytes = 4}};
	txn_now(other, &(struct coord_txn){.changes = changes, .changes_count = 2}, &a);
	uint64_t both = a.revision;
	put_text(other, "/t/k", NULL, ANY, false, &a);
	put_text(other, "/t/l", "last", ANY, false, &a);
	watched_wait(&all, 5);
	watched_wait(&one, 2);

	static const char *const expected[] = {"first", "both", "both", "(deleted)", "last"};
	assert_int_equal(all.count, 5);
	for (int i = 0; i < 5; i++)
		assert_string_equal(all.events[i].value, expected[i]);
	assert_int_equal(all.events[0].mod_revision, k);
	assert_int_equal(all.events[1].mod_revision, both);
	assert_int_equal(all.events[2].mod_revision, both);
	assert_string_equal(all.events[3].key, "/t/k");
	assert_int_equal(all.events[4].mod_revision, a.revision);
	assert_int_equal(one.count, 2);
	assert_string_equal(one.events[1].value, "(deleted)");

	watch_end(&one);
	put_text(other, "/t/k", "unheard", ANY, false, &a);
	watched_wait(&all, 6);
	assert_int_equal(one.count, 2);
	watch_end(&all);
	world_close(&w);
}

static void a_watch_may_be_stopped_from_inside_it_and_at_once(void **state)
{
	(void)state;
	struct world w;
	static struct answer a;
	static struct watched stopping, kept, brief;
	open_connected(&w, 1);
	struct session *s = &w.sessions[0];
	uint64_t revision = put_text(s, "/t/k", "0", ANY, false, &a);
	stopping.stop_at_once = true;
	watch_begin(s, "/t/", revision + 1, &stopping);
	watch_begin(s, "/t/", revision + 1, &kept);
	watch_begin(s, "/t/", revision + 1, &brief);
	watch_end(&brief);
	put_text(s, "/t/k", "1", ANY, false, &a);
	put_text(s, "/t/k", "2", ANY, false, &a);
	watched_wait(&kept, 2);
	watched_wait(&stopping, 1);
	world_close(&w);
	assert_int_equal(stopping.calls, 1);
	assert_int_equal(brief.calls, 0);
}

/* One session increments a counter while its coordinator is killed and restarted; a watch of
 * another session sees each value once. */
static void a_watch_survives_restarts_without_a_gap_or_a_repetition(void **state)
{
	(void)state;
	enum { LAST = 60 };
	struct world w;
	static struct answer a, pending;
	static struct watched watched;
	char text[16];
	open_connected(&w, 2);
	struct session *writer = &w.sessions[0], *reader = &w.sessions[1];
	uint64_t revision = put_text(writer, "/t/counter", "0", 0, false, &a);
	watch_begin(reader, "/t/", revision + 1, &watched);
	for (int value = 0, kills = 0; value < LAST;) {
		struct coord_guard guard = {"/t/counter", revision};
		snprintf(text, sizeof text, "%d", value + 1);
		struct coord_change change = {.key = "/t/counter", .value = text, .value_bytes = strlen(text)};
		txn_start(writer, &(struct coord_txn){.guards = &guard, .guards_count = 1, .changes = &change, .changes_count = 1}, 20000,
		          &pending);
		if (value == 15 * (kills + 1)) {
			world_down(&w);
			world_up(&w);
			kills++;
		}
		answer_wait(&pending);
		read_now(writer, "/t/counter", &a); /* the outcome of the lost call is unknown */
		assert_int_equal(a.status, WEIR_OK);
		assert_int_equal(a.count, 1);
		value = atoi(a.records[0].value);
		revision = a.records[0].mod_revision;
	}
	watched_wait(&watched, LAST);
	assert_int_equal(watched.count, LAST);
	for (int i = 0; i < LAST; i++)
		assert_int_equal(atoi(watched.events[i].value), i + 1);
	assert_int_equal(watched.missed, 0);
	assert_int_equal(reader->losses, 0);
	assert_int_equal(writer->losses, 0);
	world_close(&w);
}

static void a_compacted_watch_says_that_it_missed_something(void **state)
{
	(void)state;
	struct world w;
	static struct answer a;
	static struct watched watched, again;
	open_connected(&w, 2);
	struct session *reader = &w.sessions[0], *writer = &w.sessions[1];
	uint64_t revision = put_text(writer, "/t/k", "0", ANY, false, &a);
	watch_begin(reader, "/t/", revision + 1, &watched);
	put_text(writer, "/t/k", "1", ANY, false, &a);
	watched_wait(&watched, 1);

	session_part(reader);
	read_now(writer, "/t/k", &a); /* the session has reconnected */
	/* the only missed change is a deletion, at the compacted revision */
	put_text(writer, "/t/k", NULL, ANY, false, &a);
	world_compact(&w, a.revision);
	session_rejoin(reader);
	watched_wait_missed(&watched);
	assert_int_equal(watched.count, 1);
	watch_end(&watched);

	read_now(reader, "/t/", &a);
	assert_int_equal(a.status, WEIR_OK);
	assert_int_equal(a.count, 0);
	watch_begin(reader, "/t/", a.revision + 1, &again);
	put_text(writer, "/t/k", "3", ANY, false, &a);
	watched_wait(&again, 1);
	assert_string_equal(again.events[0].value, "3");
	assert_int_equal(again.missed, 0);
	assert_int_equal(watched.missed, 1);
	world_close(&w);
}

/* --- Leases */

static void a_paused_session_loses_its_lease_and_is_told_once(void **state)
{
	(void)state;
	struct world w;
	static struct answer a, late;
	static struct watched seen, deaf;
	open_connected(&w, 1);
	struct session *other = &w.sessions[0], *paused = session_open(&w, 1000);
	session_wait_state(paused, COORD_CONNECTED);
	uint64_t revision = put_text(paused, "/t/alive", "yes", 0, true, &a);
	put_text(paused, "/t/kept", "yes", 0, false, &a);
	watch_begin(other, "/t/", a.revision + 1, &seen);
	watch_begin(paused, "/t/", a.revision + 1, &deaf);
	read_now(other, "/t/alive", &a);
	assert_int_equal(a.records[0].mod_revision, revision);
	assert_int_not_equal(a.records[0].lease, 0);

	int64_t before = world_now_ns(&w);
	session_stall(paused, true);
	watched_wait(&seen, 1);
	assert_string_equal(seen.events[0].key, "/t/alive");
	assert_string_equal(seen.events[0].value, "(deleted)");
	int64_t gone = world_now_ns(&w);
	session_stall(paused, false);
	read_start(paused, "/t/kept", 20000, &late);
	answer_wait(&late); /* before or after the session learns of the loss */
	assert_true(late.status == WEIR_OK || late.status == WEIR_E_STALE);
	while (put_text(paused, "/t/zombie", "boo", ANY, true, &a) == 0 && a.status != WEIR_E_STALE)
		assert_true(a.status == WEIR_E_UNAVAILABLE || a.status == WEIR_E_TIMEOUT);
	assert_int_equal(a.status, WEIR_E_STALE);
	while (paused->losses == 0)
		put_text(other, "/t/tick", "1", ANY, false, &a);
	assert_int_equal(paused->losses, 1);
	assert_true(paused->held_until_ns > before);
	assert_true(paused->held_until_ns <= gone + 1000000);

	read_now(paused, "/t/kept", &a);
	assert_int_equal(a.status, WEIR_E_STALE);
	CHECK_CONTAINS(a.refused.text, "lease");
	read_now(other, "/t/", &a);
	/* the paused session's writes do not appear */
	assert_string_equal(a.records[0].key, "/t/kept");
	uint32_t heard = deaf.count;
	put_text(other, "/t/last", "1", ANY, false, &a);
	watched_wait(&seen, 2);
	world_close(&w);
	assert_int_equal(deaf.count, heard);
	assert_int_equal(paused->losses, 1);
}

static void closing_gives_the_lease_back(void **state)
{
	(void)state;
	struct world w;
	static struct answer a;
	static struct watched seen;
	open_connected(&w, 1);
	struct session *other = &w.sessions[0], *leaving = session_open(&w, 10 * WORLD_PATIENCE_MS);
	session_wait_state(leaving, COORD_CONNECTED);
	put_text(leaving, "/t/b", "1", 0, true, &a);
	put_text(leaving, "/t/a", "1", 0, true, &a);
	watch_begin(other, "/t/", a.revision + 1, &seen);
	session_close(leaving);
	watched_wait(&seen, 2);
	assert_string_equal(seen.events[0].value, "(deleted)");
	assert_string_equal(seen.events[1].value, "(deleted)");
	assert_int_equal(seen.events[0].mod_revision, seen.events[1].mod_revision);
	assert_int_equal(leaving->losses, 0);
	world_close(&w);
}

static void a_lease_survives_a_restart_of_the_coordinator(void **state)
{
	(void)state;
	struct world w;
	static struct answer a;
	open_connected(&w, 1);
	struct session *s = &w.sessions[0];
	put_text(s, "/t/alive", "yes", 0, true, &a);
	world_down(&w);
	session_wait_state(s, COORD_AWAY);
	world_up(&w);
	session_wait_state(s, COORD_CONNECTED); /* its renewal was answered */
	read_now(s, "/t/alive", &a);
	assert_int_equal(a.count, 1);
	assert_int_equal(s->losses, 0);
	world_close(&w);
}

/* --- Away */

static void an_absent_coordinator_is_a_state_and_never_a_hang(void **state)
{
	(void)state;
	struct world w;
	static struct answer brief, patient, leased, guarded;
	world_open(&w, over_etcd);
	world_down(&w);
	struct session *s = session_open(&w, LEASE_MS);
	session_wait_state(s, COORD_AWAY);
	assert_int_equal(s->states, 1);
	if (over_etcd)
		CHECK_CONTAINS(s->text, w.process.address);

	struct coord_change change = {.key = "/t/early", .value = "bird", .value_bytes = 4, .leased = true};
	txn_start(s, &(struct coord_txn){.changes = &change, .changes_count = 1}, WORLD_PATIENCE_MS / 2, &leased);
	read_start(s, "/t/patient", WORLD_PATIENCE_MS / 2, &patient);
	read_start(s, "/t/brief", 200, &brief);
	txn_start(s, &(struct coord_txn){.changes = &change, .changes_count = 1}, 0, &guarded);
	answer_wait(&brief);
	answer_wait(&guarded);
	assert_int_equal(brief.status, WEIR_E_UNAVAILABLE);
	assert_int_equal(guarded.status, WEIR_E_UNAVAILABLE);
	CHECK_CONTAINS(brief.text, "/t/brief");
	if (over_etcd)
		CHECK_CONTAINS(brief.text, w.process.address);
	print_message("%s\n%s\n", s->text, brief.text);
	assert_int_equal(patient.done + leased.done, 0);

	world_up(&w);
	session_wait_state(s, COORD_CONNECTED);
	answer_wait(&patient);
	answer_wait(&leased);
	assert_int_equal(patient.status, WEIR_OK);
	assert_int_equal(leased.status, WEIR_OK);
	read_now(s, "/t/early", &brief);
	assert_int_equal(brief.count, 1);
	assert_int_not_equal(brief.records[0].lease, 0); /* the call waited for the lease */
	world_close(&w);
}

static void a_silent_coordinator_is_noticed(void **state)
{
	(void)state;
	struct world w;
	static struct answer asked, changed, after;
	open_connected(&w, 1);
	struct session *s = &w.sessions[0];
	world_silent(&w, true);
	struct coord_change change = {.key = "/t/k", .value = "?", .value_bytes = 1};
	read_start(s, "/t/", 1000, &asked);
	txn_start(s, &(struct coord_txn){.changes = &change, .changes_count = 1}, 1000, &changed);
	answer_wait(&asked);
	answer_wait(&changed);
	assert_true(asked.status == WEIR_E_TIMEOUT || asked.status == WEIR_E_UNAVAILABLE);
	assert_true(changed.status == WEIR_E_TIMEOUT || changed.status == WEIR_E_UNAVAILABLE);
	session_wait_state(s, COORD_AWAY);
	print_message("%s\n%s\n", s->text, changed.text);
	world_silent(&w, false);
	session_wait_state(s, COORD_CONNECTED);
	read_now(s, "/t/", &after);
	assert_int_equal(after.status, WEIR_OK);
	world_close(&w);
}

static void closing_ends_what_is_in_progress(void **state)
{
	(void)state;
	struct world w;
	static struct answer answers[4];
	static struct watched watched;
	open_connected(&w, 1);
	struct session *s = &w.sessions[0];
	watch_begin(s, "/t/", 2, &watched);
	world_silent(&w, true);
	session_wait_state(s, COORD_AWAY);
	struct coord_change change = {.key = "/t/k", .value = "?", .value_bytes = 1};
	for (int i = 0; i < 3; i++)
		read_start(s, "/t/", WORLD_PATIENCE_MS, &answers[i]);
	txn_start(s, &(struct coord_txn){.changes = &change, .changes_count = 1}, WORLD_PATIENCE_MS, &answers[3]);
	session_close(s);
	for (int i = 0; i < 4; i++) {
		assert_int_equal(answers[i].done, 1);
		assert_int_equal(answers[i].status, WEIR_E_CANCELLED);
	}
	world_close(&w);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_record_is_made_changed_and_deleted_as_guarded),
	    cmocka_unit_test(a_transaction_is_all_or_nothing),
	    cmocka_unit_test(a_name_that_ends_in_a_slash_is_all_below_it),
	    cmocka_unit_test(large_values_and_invalid_keys_are_refused),
	    cmocka_unit_test(a_watch_tells_each_change_once_in_order),
	    cmocka_unit_test(a_watch_may_be_stopped_from_inside_it_and_at_once),
	    cmocka_unit_test(a_watch_survives_restarts_without_a_gap_or_a_repetition),
	    cmocka_unit_test(a_compacted_watch_says_that_it_missed_something),
	    cmocka_unit_test(a_paused_session_loses_its_lease_and_is_told_once),
	    cmocka_unit_test(closing_gives_the_lease_back),
	    cmocka_unit_test(a_lease_survives_a_restart_of_the_coordinator),
	    cmocka_unit_test(an_absent_coordinator_is_a_state_and_never_a_hang),
	    cmocka_unit_test(a_silent_coordinator_is_noticed),
	    cmocka_unit_test(closing_ends_what_is_in_progress),
	};
	if (argc != 2 || (strcmp(argv[1], "memory") != 0 && strcmp(argv[1], "etcd") != 0)) {
		fprintf(stderr, "usage: %s memory|etcd\n", argv[0]);
		return 2;
	}
	over_etcd = strcmp(argv[1], "etcd") == 0;
	return cmocka_run_group_tests_name("coord_conformance", tests, NULL, NULL);
}
