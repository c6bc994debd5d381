/* Records of replicas in the coordinator: the number of calls, the notices to replicas, and the
 * replacement of a lost session. */
#include "tests/cmocka_check.h"
#include "tests/unit/server/coord/coord_records_world.h"

static void read_all(struct server *s)
{
	for (uint32_t p = 0; p < PARTITIONS; p++)
		coord_records_read(&s->askers[p].client);
}

/* --- Asking */

static void the_first_record_is_put_once(void **state)
{
	(void)state;
	struct world *w = open_world(true);
	read_all(&w->servers[0]);
	read_all(&w->servers[1]);
	settle(w, 100);
	for (uint32_t p = 0; p < PARTITIONS; p++) {
		const struct asker *a = &w->servers[0].askers[p], *b = &w->servers[1].askers[p];
		assert_true(a->reads == 1 && a->known && b->reads == 1 && b->known);
		assert_true(a->record.revision == b->record.revision && a->record.primary == MEMBER_NONE);
	}
	close_world(w);
}

static void a_replica_without_a_vote_puts_nothing(void **state)
{
	(void)state;
	struct world *w = open_world(false);
	read_all(&w->servers[0]);
	settle(w, 100);
	assert_int_equal(w->servers[0].txns, 0);
	assert_true(w->servers[0].askers[0].reads == 1 && !w->servers[0].askers[0].known);
	close_world(w);
}

static void all_records_are_read_at_once(void **state)
{
	(void)state;
	struct world *w = open_world(true);
	read_all(&w->servers[0]);
	settle(w, 100);
	const uint32_t before = w->servers[0].ranges;
	read_all(&w->servers[0]);
	settle(w, 100);
	assert_int_equal(w->servers[0].ranges, before + 1);
	for (uint32_t p = 0; p < PARTITIONS; p++)
		assert_true(w->servers[0].askers[p].reads == 2 && w->servers[0].askers[p].known);
	close_world(w);
}

static void a_change_by_another_teaches(void **state)
{
	(void)state;
	struct world *w = open_world(true);
	struct asker *a = &w->servers[0].askers[3], *b = &w->servers[1].askers[3];
	const struct replica_record first = read_one(w, a);
	const uint32_t told = b->told;
	coord_memory_freeze(w->servers[1].coord, true);
	struct replica_record next = record_of(first.revision, 1, 0);
	coord_records_change(&a->client, &next);
	settle(w, 10);
	assert_true(a->changes == 1 && a->known && a->record.primary == 0 && a->record.revision > first.revision);
	assert_int_equal(a->learned.revision, a->record.revision); /* by the watch, too */
	next.primary = 1;
	coord_records_change(&b->client, &next);
	settle(w, 10);
	assert_true(b->changes == 1 && b->known && b->told == told);
	assert_true(b->record.primary == 0 && b->record.revision == a->record.revision);
	coord_memory_freeze(w->servers[1].coord, false);
	settle(w, 10);
	assert_int_equal(b->learned.revision, a->record.revision);
	close_world(w);
}

static void an_absent_coordinator_leaves_changes_unknown(void **state)
{
	(void)state;
	struct world *w = open_world(true);
	struct server *s = &w->servers[0];
	const struct replica_record first = read_one(w, &s->askers[0]);
	const struct replica_record next = record_of(first.revision, 1, 0);
	coord_memory_down(w->coordinator, true);
	coord_records_read(&s->askers[1].client);
	coord_records_change(&s->askers[0].client, &next);
	settle(w, TIMEOUT_MS - 100);
	assert_true(s->askers[1].reads == 0 && s->askers[0].changes == 0);
	settle(w, 200);
	assert_true(s->askers[1].reads == 1 && !s->askers[1].known);
	assert_true(s->askers[0].changes == 1 && !s->askers[0].known);
	coord_memory_down(w->coordinator, false);
	assert_int_equal(read_one(w, &s->askers[0]).revision, first.revision);
	close_world(w);
}

static void records_that_a_watch_missed_are_read(void **state)
{
	(void)state;
	struct world *w = open_world(true);
	struct asker *a = &w->servers[0].askers[3], *b = &w->servers[1].askers[3];
	const struct replica_record first = read_one(w, a), next = record_of(first.revision, 1, 0);
	coord_memory_freeze(w->servers[1].coord, true);
	coord_records_change(&a->client, &next);
	settle(w, 10);
	coord_memory_compact(w->coordinator, coord_memory_revision(w->coordinator));
	coord_memory_freeze(w->servers[1].coord, false);
	settle(w, 10);
	assert_int_equal(b->learned.revision, a->record.revision);
	const struct replica_record after = record_of(a->record.revision, 2, 1);
	coord_records_change(&a->client, &after); /* the watch works again */
	settle(w, 10);
	assert_int_equal(b->learned.epoch, 2);
	close_world(w);
}

static void a_lost_lease_is_replaced(void **state)
{
	(void)state;
	struct world *w = open_world(true);
	struct server *s = &w->servers[0];
	const struct replica_record first = read_one(w, &s->askers[3]), next = record_of(first.revision, 1, 0);
	coord_memory_delay(s->coord, 500);
	coord_records_read(&s->askers[4].client);
	settle(w, 50);
	coord_memory_expire(s->coord);
	settle(w, 50);
	assert_int_equal(s->sessions, 2);
	/* It was in progress when the lease ended. */
	assert_true(s->askers[4].reads == 1 && !s->askers[4].known);
	coord_records_change(&w->servers[1].askers[3].client, &next);
	settle(w, 20);
	assert_int_equal(s->askers[3].learned.epoch, 1);
	assert_int_equal(read_one(w, &s->askers[4]).epoch, 0);
	close_world(w);
}

static void the_watch_begins_once_the_coordinator_answers(void **state)
{
	(void)state;
	struct world *w = open_world(true);
	struct asker *a = &w->servers[0].askers[3], *b = &w->servers[1].askers[3];
	coord_memory_cut(w->servers[1].coord, true);
	settle(w, 2 * TIMEOUT_MS);
	const struct replica_record first = read_one(w, a), next = record_of(first.revision, 1, 0);
	coord_memory_cut(w->servers[1].coord, false);
	tick(w);
	settle(w, 10);
	assert_int_equal(b->learned.revision, first.revision);
	coord_records_change(&a->client, &next);
	settle(w, 10);
	assert_int_equal(b->learned.epoch, 1);
	close_world(w);
}

static void on_put(void *arg, const struct coord_answer *answer)
{
	(void)arg;
	assert_true(!answer->status && answer->applied);
}

static void an_unreadable_record_counts_as_absent(void **state)
{
	(void)state;
	struct world *w = open_world(true);
	struct server *s = &w->servers[0];
	static const uint8_t uuid[16] = "authority";
	char prefix[WEIR_COORD_KEY_BYTES_MAX], key[WEIR_COORD_KEY_BYTES_MAX];
	coord_records_prefix(uuid, 7, prefix);
	coord_records_key(prefix, COORD_RECORDS_PARTITION, 3, key);
	const struct coord_change change = {.key = key, .value = "?", .value_bytes = 1};
	const struct coord_txn txn = {.changes = &change, .changes_count = 1};
	assert_int_equal(coord_txn(s->coord, &txn, TIMEOUT_MS, on_put, NULL, NULL), WEIR_OK);
	settle(w, 10);
	read_all(s);
	settle(w, 10);
	for (uint32_t p = 0; p < PARTITIONS; p++)
		assert_true(s->askers[p].reads == 1 && s->askers[p].known == (p != 3));
	assert_int_equal(s->askers[3].told, 0);
	close_world(w);
}

struct placed {
	struct coord_records_placing change;
	uint32_t ended;
};

static void on_placing_ended(struct coord_records_placing *change)
{
	((struct placed *)change->arg)->ended++;
}

static weir_status place(struct world *w, struct server *s, uint16_t partition, struct assignment record)
{
	struct placed p = {.change = {.partition = partition,
	                              .record = record,
	                              .run_on = task_queue_executor(s->loop),
	                              .done = on_placing_ended,
	                              .arg = &p}};
	coord_records_place(s->records, &p.change);
	settle(w, 100);
	assert_int_equal(p.ended, 1);
	return p.change.status;
}

/* The second of two changes from the same revision is refused. Every server learns the first
 * one. */
static void an_assignment_changes_one_at_a_time(void **state)
{
	(void)state;
	struct world *w = open_world(true);
	assert_int_equal(place(w, &w->servers[0], 5, hosts_of(0, 0, 1)), WEIR_OK);
	for (uint32_t i = 0; i < SERVERS; i++)
		assert_true(w->servers[i].placed.revision && w->servers[i].placed.primary == 1);
	assert_int_equal(place(w, &w->servers[1], 5, hosts_of(0, 0, 2)), WEIR_E_STALE);
	assert_int_equal(w->servers[1].placed.primary, 1);
	assert_int_equal(place(w, &w->servers[1], 5, hosts_of(w->servers[1].placed.revision, 0, 2)), WEIR_OK);
	for (uint32_t i = 0; i < SERVERS; i++)
		assert_int_equal(w->servers[i].placed.primary, 2);
	close_world(w);
}

/* A server without replicas learns every record, and up to which revision it has seen them. */
static void every_record_is_seen_by_all(void **state)
{
	(void)state;
	struct world *w = open_hosts(1, true);
	struct server *host = &w->servers[0], *other = &w->servers[1];
	read_all(host);
	settle(w, 100);
	for (uint32_t p = 0; p < PARTITIONS; p++)
		assert_int_equal(other->seen[p].revision, host->askers[p].record.revision);
	struct replica_record next = host->askers[3].record;
	next.primary = 1;
	next.epoch = 5;
	coord_records_change(&host->askers[3].client, &next);
	settle(w, 100);
	assert_true(host->seen[3].epoch == 5 && host->seen[3].primary == 1);
	assert_true(other->seen[3].epoch == 5 && other->seen[3].primary == 1);
	assert_int_equal(other->seen[3].revision, host->askers[3].record.revision);
	assert_int_equal(other->caught_up, coord_memory_revision(w->coordinator));
	close_world(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(an_assignment_changes_one_at_a_time),
	    cmocka_unit_test(the_first_record_is_put_once),
	    cmocka_unit_test(a_replica_without_a_vote_puts_nothing),
	    cmocka_unit_test(all_records_are_read_at_once),
	    cmocka_unit_test(a_change_by_another_teaches),
	    cmocka_unit_test(an_absent_coordinator_leaves_changes_unknown),
	    cmocka_unit_test(records_that_a_watch_missed_are_read),
	    cmocka_unit_test(a_lost_lease_is_replaced),
	    cmocka_unit_test(the_watch_begins_once_the_coordinator_answers),
	    cmocka_unit_test(an_unreadable_record_counts_as_absent),
	    cmocka_unit_test(every_record_is_seen_by_all),
	};
	return cmocka_run_group_tests_name("coord_records_session", tests, NULL, NULL);
}
