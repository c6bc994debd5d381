/* Generations and processes in the coordinator: of several starts, one goes on. */
#include "tests/cmocka_check.h"
#include "tests/unit/server/coord/coord_records_world.h"

/* Two processes are server 0. The first one is registered when the second one starts. */
static struct world *open_twins(const char *first, const char *second, bool same_incarnation)
{
	struct world *w = create_world();
	w->same_incarnation = same_incarnation;
	w->addresses[0] = first;
	w->addresses[1] = second;
	open_server(w, 0, false, false);
	settle(w, 100);
	open_server(w, 1, false, false);
	settle(w, 100);
	return w;
}

static void note_succession(struct coord_records_succession *x)
{
	*(bool *)x->arg = true;
}

static void say_next(struct server *s, struct coord_records_succession *x, const struct rewind_record *r, bool *done)
{
	*done = false;
	*x = (struct coord_records_succession){
	    .record = *r, .run_on = task_queue_executor(s->loop), .done = note_succession, .arg = done};
	coord_records_succeed(s->records, x);
}

static void a_generation_is_followed_by_one_other(void **state)
{
	(void)state;
	struct world *w = open_world(true);
	struct coord_records_succession x[SERVERS];
	bool done[SERVERS];
	const struct rewind_record first = next_of(8, "ck-first"), second = next_of(8, "ck-second");
	settle(w, 100);
	assert_int_equal(w->servers[0].nexts, 0);
	say_next(&w->servers[0], &x[0], &first, &done[0]); /* both at once */
	say_next(&w->servers[1], &x[1], &second, &done[1]);
	settle(w, 100);
	assert_true(done[0] && done[1]);
	const uint32_t late = x[0].status == WEIR_E_EXISTS ? 0 : 1;
	assert_int_equal(x[1 - late].status, WEIR_OK);
	assert_int_equal(x[late].status, WEIR_E_EXISTS);
	assert_true(same_next(&x[late].record, &x[1 - late].record));
	for (uint32_t i = 0; i < SERVERS; i++)
		assert_true(w->servers[i].nexts > 0 && same_next(&w->servers[i].next, &x[0].record));
	close_world(w);
}

static void the_next_generation_is_unknown_while_the_coordinator_is_away(void **state)
{
	(void)state;
	struct world *w = open_world(true);
	struct coord_records_succession x;
	bool done;
	const struct rewind_record next = next_of(8, "ck");
	settle(w, 100);
	coord_memory_down(w->coordinator, true);
	say_next(&w->servers[0], &x, &next, &done);
	settle(w, TIMEOUT_MS + 100);
	assert_true(done);
	assert_int_equal(x.status, WEIR_E_UNAVAILABLE);
	coord_memory_down(w->coordinator, false);
	settle(w, 100);
	say_next(&w->servers[0], &x, &next, &done);
	settle(w, 100);
	/* The first attempt may have succeeded. */
	assert_true(done && (x.status == WEIR_OK || x.status == WEIR_E_EXISTS));
	assert_true(same_next(&w->servers[1].next, &next));
	close_world(w);
}

/* A session that opens later reads the record. */
static void a_later_server_reads_the_next_generation(void **state)
{
	(void)state;
	struct world *w = open_world(true);
	struct coord_records_succession x;
	bool done;
	const struct rewind_record next = next_of(8, "ck");
	settle(w, 100);
	coord_memory_freeze(w->servers[1].coord, true); /* its watch receives nothing */
	say_next(&w->servers[0], &x, &next, &done);
	settle(w, 100);
	assert_true(done && w->servers[0].nexts > 0);
	assert_int_equal(w->servers[1].nexts, 0);
	coord_memory_expire(w->servers[1].coord);
	tick(w);
	settle(w, 200);
	assert_true(w->servers[1].nexts > 0 && same_next(&w->servers[1].next, &next));
	close_world(w);
}

static void a_second_process_elsewhere_is_refused(void **state)
{
	(void)state;
	struct world *w = open_twins("here", "there", false);
	assert_int_equal(w->servers[0].displaced, 0);
	assert_true(w->servers[1].displaced > 0);
	close_world(w);
}

/* Both processes read the same last start, and both chose the next incarnation. */
static void a_second_process_elsewhere_is_refused_in_the_same_incarnation_too(void **state)
{
	(void)state;
	struct world *w = open_twins("here", "there", true);
	assert_int_equal(w->servers[0].displaced, 0);
	assert_true(w->servers[1].displaced > 0);
	close_world(w);
}

/* Neither process has learned of the other when it registers. */
static void of_two_processes_at_once_one_is_refused(void **state)
{
	(void)state;
	struct world *w = create_world();
	w->same_incarnation = true;
	w->addresses[0] = "here";
	w->addresses[1] = "there";
	open_server(w, 0, false, false);
	open_server(w, 1, false, false);
	settle(w, 100);
	assert_int_equal((w->servers[0].displaced > 0) + (w->servers[1].displaced > 0), 1);
	close_world(w);
}

static void a_later_start_takes_the_place(void **state)
{
	(void)state;
	struct world *w = open_twins("here", "here", false);
	assert_true(w->servers[0].displaced > 0);
	assert_int_equal(w->servers[1].displaced, 0);
	close_world(w);
}

/* The first process is paused, so it gets no notice of its successor. */
static void a_replaced_process_changes_nothing(void **state)
{
	(void)state;
	struct world *w = create_world();
	struct asker *a = &w->servers[0].askers[3];
	w->addresses[0] = w->addresses[1] = "here";
	open_server(w, 0, true, true);
	settle(w, 100);
	const struct replica_record first = read_one(w, a), next = record_of(first.revision, 1, 0);
	coord_memory_freeze(w->servers[0].coord, true);
	open_server(w, 1, false, false);
	settle(w, 100);
	assert_int_equal(w->servers[0].displaced, 0);
	coord_records_change(&a->client, &next);
	settle(w, 10);
	assert_true(a->changes == 1 && a->record.revision == first.revision && a->record.primary == MEMBER_NONE);
	assert_true(w->servers[0].displaced > 0);
	close_world(w);
}

static void note_marking(struct coord_records_marking *m)
{
	*(bool *)m->arg = true;
}

/* Moves the mark and returns the result. */
static weir_status mark(struct world *w, struct server *s, uint64_t position)
{
	bool done = false;
	struct coord_records_marking m = {.mark = {.generation = 7, .epoch = 1, .position = position},
	                                  .run_on = task_queue_executor(s->loop),
	                                  .done = note_marking,
	                                  .arg = &done};
	coord_records_mark(s->records, &m);
	settle(w, 3000);
	assert_true(done);
	return m.status;
}

static void on_mark_read(void *arg, const struct coord_answer *a)
{
	struct mark *m = arg;
	weir_error err = {0};
	assert_true(!a->status && a->count == 1);
	CHECK_OK(coord_records_unpack_mark(a->records[0].value, a->records[0].value_bytes, m, &err), err);
}

static uint64_t marked(struct world *w, struct server *s)
{
	char key[WEIR_COORD_KEY_BYTES_MAX];
	struct mark m = {0};
	weir_error err = {0};
	coord_records_mark_key((const uint8_t *)"authority\0\0\0\0\0\0", 0, key);
	CHECK_OK(coord_read(s->coord, key, TIMEOUT_MS, on_mark_read, &m, &err), err);
	settle(w, 100);
	return m.position;
}

static void a_mark_is_moved_by_the_last_start_alone(void **state)
{
	(void)state;
	struct world *w = create_world();
	struct server *first = &w->servers[0], *second = &w->servers[1];
	w->addresses[0] = w->addresses[1] = "here";
	open_server(w, 0, false, false);
	settle(w, 100);
	assert_int_equal(mark(w, first, 10), WEIR_OK);
	assert_int_equal(mark(w, first, 20), WEIR_OK);
	coord_memory_freeze(first->coord, true); /* it receives no notice of the second process */
	open_server(w, 1, false, false);
	settle(w, 100);
	assert_int_equal(mark(w, first, 30), WEIR_E_UNAVAILABLE);
	assert_int_equal(marked(w, second), 20);
	assert_int_equal(mark(w, second, 40), WEIR_E_UNAVAILABLE); /* it learns of the existing mark */
	assert_int_equal(mark(w, second, 40), WEIR_OK);
	assert_int_equal(marked(w, second), 40);
	coord_memory_down(w->coordinator, true);
	assert_int_equal(mark(w, second, 50), WEIR_E_UNAVAILABLE);
	coord_memory_down(w->coordinator, false);
	close_world(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_mark_is_moved_by_the_last_start_alone),
	    cmocka_unit_test(a_generation_is_followed_by_one_other),
	    cmocka_unit_test(the_next_generation_is_unknown_while_the_coordinator_is_away),
	    cmocka_unit_test(a_later_server_reads_the_next_generation),
	    cmocka_unit_test(a_second_process_elsewhere_is_refused),
	    cmocka_unit_test(a_second_process_elsewhere_is_refused_in_the_same_incarnation_too),
	    cmocka_unit_test(of_two_processes_at_once_one_is_refused),
	    cmocka_unit_test(a_later_start_takes_the_place),
	    cmocka_unit_test(a_replaced_process_changes_nothing),
	};
	return cmocka_run_group_tests_name("coord_records_process", tests, NULL, NULL);
}
