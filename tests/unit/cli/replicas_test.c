/* The messages about partitions that fail over to other servers. */
#include <stdlib.h>
#include <string.h>

#include "cli/run/replicas.h"
#include "tests/cmocka_check.h"

enum { SERVERS = 3, PARTITIONS = 6, REPLICAS = 2 };

struct scene {
	struct replicas replicas;
	struct overview now;
	struct overview_partition partitions[PARTITIONS];
	struct overview_server servers[SERVERS];
	char *said;
	size_t said_bytes;
	FILE *out;
	struct progress_line live;
	int64_t now_ms;
};

static void place(struct scene *s, uint32_t partition, uint32_t primary, uint64_t epoch, uint32_t in_sync)
{
	struct overview_partition *p = &s->partitions[partition];
	*p = (struct overview_partition){.reported = true, .primary = primary, .epoch = epoch, .in_sync_count = in_sync};
	for (uint32_t i = 0; i < in_sync; i++)
		p->in_sync[i] = (primary + i) % SERVERS;
}

static void answer(struct scene *s, uint32_t server, bool answers)
{
	s->now.servers_answered += answers - s->servers[server].answered;
	s->servers[server].answered = answers;
}

static struct scene *open_scene(void)
{
	struct scene *s = calloc(1, sizeof *s);
	assert_non_null(s);
	replicas_init(&s->replicas, REPLICAS);
	s->now = (struct overview){.ledger = {.epoch = 1, .in_sync = {0, 1}, .in_sync_count = REPLICAS},
	                           .partitions = s->partitions,
	                           .partitions_count = PARTITIONS,
	                           .servers = s->servers,
	                           .servers_count = SERVERS};
	for (uint32_t i = 0; i < SERVERS; i++)
		answer(s, i, true);
	for (uint32_t p = 0; p < PARTITIONS; p++)
		place(s, p, p % SERVERS, 1, REPLICAS);
	s->out = open_memstream(&s->said, &s->said_bytes);
	assert_non_null(s->out);
	progress_line_init(&s->live, s->out, NULL);
	return s;
}

static void close_scene(struct scene *s)
{
	replicas_destroy(&s->replicas);
	fclose(s->out);
	free(s->said);
	free(s);
}

/* The message of the next poll, at `now_ms`. */
static const char *look(struct scene *s, int64_t now_ms)
{
	fflush(s->out);
	const size_t before = s->said_bytes;
	replicas_look(&s->replicas, &s->live, &s->now, now_ms);
	fflush(s->out);
	return s->said + before;
}

static void a_job_in_order_is_not_spoken_of(void **state)
{
	(void)state;
	struct scene *s = open_scene();
	assert_string_equal(look(s, 0), "");
	assert_string_equal(look(s, 250), "");
	close_scene(s);
}

static void new_primaries_are_reported_once(void **state)
{
	(void)state;
	struct scene *s = open_scene();
	assert_string_equal(look(s, 0), "");
	replicas_lost(&s->replicas, 2, 1000);
	answer(s, 2, false);
	s->partitions[2].reported = s->partitions[5].reported = false;
	assert_string_equal(look(s, 1250), "");
	place(s, 2, 0, 2, 1);
	place(s, 5, 1, 2, 1);
	assert_string_equal(look(s, 1800),
	                    "server 0 goes on with 2; server 1 with 5, of the partitions that server 2 had (within 0.8 s)\n");
	assert_string_equal(look(s, 2000), "");
	assert_int_equal(s->replicas.moved, 2);
	close_scene(s);
}

static void complete_copies_are_reported_once(void **state)
{
	(void)state;
	struct scene *s = open_scene();
	assert_string_equal(look(s, 0), "");
	place(s, 1, 2, 2, 1);
	place(s, 4, 2, 2, 1);
	assert_string_equal(look(s, 500), "server 2 goes on with 1, 4, of the partitions that server 1 had\n");
	place(s, 1, 2, 2, 2);
	place(s, 4, 2, 2, 2);
	answer(s, 1, false);
	assert_string_equal(look(s, 750), "");
	answer(s, 1, true);
	assert_string_equal(look(s, 1000), "all 6 partitions, and the ledger, have 2 replicas in sync again\n");
	assert_string_equal(look(s, 1250), "");
	close_scene(s);
}

static void a_new_primary_of_the_ledger_is_reported_once(void **state)
{
	(void)state;
	struct scene *s = open_scene();
	assert_string_equal(look(s, 0), "");
	replicas_lost(&s->replicas, 0, 1000);
	s->now.ledger = (struct overview_place){.server = 1, .epoch = 3, .in_sync = {1, 2}, .in_sync_count = 1};
	assert_string_equal(look(s, 1900), "server 1 goes on with the ledger, which server 0 had (within 0.9 s)\n");
	assert_string_equal(look(s, 2100), "");
	s->now.ledger.in_sync_count = 2;
	assert_string_equal(look(s, 2300), "all 6 partitions, and the ledger, have 2 replicas in sync again\n");
	close_scene(s);
}

/* An added server is gone for good. Its replicas were moved away before, or move after. */
static void a_server_without_copies_is_not_missed(void **state)
{
	(void)state;
	struct scene *s = open_scene();
	place(s, 3, SERVERS - 1, 1, REPLICAS);
	assert_string_equal(look(s, 0), "");
	answer(s, SERVERS - 1, false);
	for (uint32_t p = 0; p < PARTITIONS; p++)
		place(s, p, p % 2, 2, 1);
	const char *said = look(s, 500);
	assert_non_null(strstr(said, "of the partitions that server 2 had\n"));
	for (uint32_t p = 0; p < PARTITIONS; p++) {
		assert_string_equal(look(s, 1000 + p), "");
		place(s, p, p % 2, 2, REPLICAS);
		if (p % 2) /* the dead server is the one behind */
			s->partitions[p].in_sync[1] = 0;
	}
	assert_non_null(strstr(look(s, 2000), "all 6 partitions, and the ledger, have 2 replicas in sync again\n"));
	assert_string_equal(look(s, 2250), "");
	close_scene(s);
}

/* The primary has not noticed yet. */
static void a_copy_that_does_not_answer_does_not_count(void **state)
{
	(void)state;
	struct scene *s = open_scene();
	assert_string_equal(look(s, 0), "");
	replicas_lost(&s->replicas, 1, 100);
	answer(s, 1, false);
	for (uint32_t p = 0; p < PARTITIONS; p++)
		place(s, p, p % SERVERS ? 2 : 0, 1, REPLICAS); /* server 1 has replicas and no primary */
	assert_string_equal(look(s, 250), "");
	answer(s, 1, true);
	assert_string_equal(look(s, 500), "all 6 partitions, and the ledger, have 2 replicas in sync again\n");
	close_scene(s);
}

/* The old primary may not know of the new one yet. */
static void an_older_epoch_moves_nothing(void **state)
{
	(void)state;
	struct scene *s = open_scene();
	place(s, 3, 1, 5, 2);
	assert_string_equal(look(s, 0), "");
	place(s, 3, 0, 4, 2);
	assert_string_equal(look(s, 250), "");
	place(s, 3, 1, 5, 2);
	assert_string_equal(look(s, 500), "");
	assert_int_equal(s->replicas.moved, 0);
	close_scene(s);
}

static void a_job_without_replicas_is_not_looked_at(void **state)
{
	(void)state;
	struct scene *s = open_scene();
	replicas_init(&s->replicas, 1);
	replicas_lost(&s->replicas, 1, 0);
	assert_string_equal(look(s, 0), "");
	place(s, 1, 2, 2, 1);
	assert_string_equal(look(s, 250), "");
	close_scene(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_job_in_order_is_not_spoken_of),         cmocka_unit_test(new_primaries_are_reported_once),
	    cmocka_unit_test(complete_copies_are_reported_once),       cmocka_unit_test(an_older_epoch_moves_nothing),
	    cmocka_unit_test(a_job_without_replicas_is_not_looked_at), cmocka_unit_test(a_new_primary_of_the_ledger_is_reported_once),
	    cmocka_unit_test(a_server_without_copies_is_not_missed),   cmocka_unit_test(a_copy_that_does_not_answer_does_not_count),
	};
	return cmocka_run_group_tests_name("cli_replicas", tests, NULL, NULL);
}
