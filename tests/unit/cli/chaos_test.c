/* The event list of a seed, the spared servers, and the signals to real processes. Shell scripts
 * stand in for servers and workers. */
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/core/chaos.h"
#include "common/base/clock.h"
#include "tests/cmocka_check.h"

enum { SERVERS = 3, WORKERS = 2, PARTITIONS = 4, EVENTS = 500, PATIENCE_MS = 10000 };

static struct job job_of(uint32_t replicas, enum log_place log)
{
	struct job job = {0};
	job.cluster.servers = SERVERS;
	job.cluster.workers = WORKERS;
	job.cluster.replicas = replicas;
	job.cluster.log = log;
	return job;
}

/* --- Lists */

static void a_seed_gives_one_list(void **state)
{
	(void)state;
	const struct job job = job_of(2, JOB_LOG_DISK);
	struct prng a, b, c;
	uint32_t differ = 0, kinds[CHAOS_WHOM][CHAOS_ACTS] = {0};
	prng_seed(&a, 7);
	prng_seed(&b, 7);
	prng_seed(&c, 8);
	for (uint32_t i = 0; i < EVENTS; i++) {
		const struct chaos_event x = chaos_draw(&a, &job), y = chaos_draw(&b, &job), z = chaos_draw(&c, &job);
		assert_memory_equal(&x, &y, sizeof x);
		differ += memcmp(&x, &z, sizeof x) != 0;
		assert_true(x.index < (x.whom == CHAOS_SERVER ? SERVERS : WORKERS));
		kinds[x.whom][x.act]++;
	}
	assert_true(differ > EVENTS / 2);
	for (uint32_t i = 0; i < CHAOS_WHOM; i++)
		for (uint32_t k = 0; k < CHAOS_ACTS; k++)
			assert_true(kinds[i][k] > EVENTS / 8);
}

/* The servers that a long list kills. */
static uint32_t killed_servers(uint32_t replicas, enum log_place log)
{
	const struct job job = job_of(replicas, log);
	struct prng r;
	uint32_t killed = 0;
	prng_seed(&r, 3);
	for (uint32_t i = 0; i < EVENTS; i++) {
		const struct chaos_event e = chaos_draw(&r, &job);
		if (e.whom == CHAOS_SERVER && e.act == CHAOS_KILL)
			killed |= 1u << e.index;
	}
	return killed;
}

static void the_only_holder_of_data_is_not_killed(void **state)
{
	(void)state;
	assert_int_equal(killed_servers(1, JOB_LOG_MEMORY), 0);
	assert_int_equal(killed_servers(2, JOB_LOG_MEMORY), 7);
	assert_int_equal(killed_servers(1, JOB_LOG_DISK), 7);
	assert_int_equal(killed_servers(3, JOB_LOG_DISK), 7);
}

/* --- Acts */

struct scene {
	char dir[64];
	struct job job;
	struct supervisor *supervisor;
	struct progress_line live;
	FILE *out;
	char *said;
	size_t said_bytes;
	struct chaos chaos;
	struct overview seen;
	struct overview_partition partitions[PARTITIONS];
	struct overview_server servers[SERVERS];
	int64_t now_ms;
};

static void add_child(struct scene *s, enum child_role role, const char *kind, uint32_t index)
{
	char name[32];
	weir_error err = {0};
	snprintf(name, sizeof name, "%s-%u", kind, index);
	struct child *c = supervisor_add(s->supervisor, role, name, "stay.sh", &err);
	assert_non_null(c);
	CHECK_OK(child_start(s->supervisor, c, false, &err), err);
}

static struct scene *open_scene(uint64_t seed)
{
	struct scene *s = calloc(1, sizeof *s);
	char path[96];
	weir_error err = {0};
	assert_non_null(s);
	strcpy(s->dir, "/tmp/weir-chaos-XXXXXX");
	assert_non_null(mkdtemp(s->dir));
	snprintf(path, sizeof path, "%s/stay.sh", s->dir);
	FILE *script = fopen(path, "w");
	fputs("#!/bin/sh\nexec sleep 60\n", script);
	fclose(script);
	assert_int_equal(chmod(path, 0755), 0);
	CHECK_OK(supervisor_create(&s->supervisor, s->dir, s->dir, clock_system(), &err), err);
	for (uint32_t i = 0; i < SERVERS; i++)
		add_child(s, CHILD_SERVER, "server", i);
	for (uint32_t i = 0; i < WORKERS; i++)
		add_child(s, CHILD_TRAINER, "worker", i);
	for (uint32_t p = 0; p < PARTITIONS; p++)
		s->partitions[p] = (struct overview_partition){.reported = true, .in_sync_count = 2};
	for (uint32_t i = 0; i < SERVERS; i++)
		s->servers[i] = (struct overview_server){.answered = true, .uptime_ms = 60000};
	s->seen = (struct overview){.ledger = {.in_sync_count = 2},
	                            .partitions = s->partitions,
	                            .partitions_count = PARTITIONS,
	                            .servers = s->servers,
	                            .servers_count = SERVERS,
	                            .servers_answered = SERVERS};
	s->job = job_of(2, JOB_LOG_DISK);
	s->out = open_memstream(&s->said, &s->said_bytes);
	progress_line_init(&s->live, s->out, NULL);
	s->chaos.seed = seed;
	chaos_begin(&s->chaos, &s->job, s->supervisor, &s->live, 0);
	return s;
}

static void close_scene(struct scene *s)
{
	char command[96];
	chaos_stop(&s->chaos);
	supervisor_destroy(s->supervisor);
	snprintf(command, sizeof command, "rm -r %s", s->dir);
	assert_int_equal(system(command), 0);
	fclose(s->out);
	free(s->said);
	free(s);
}

/* The state letter of the process in /proc, as soon as it is the wanted one. */
static char state_of(pid_t pid, char wanted)
{
	char path[64], letter = 0;
	for (int64_t until = clock_ms(clock_system()) + PATIENCE_MS; clock_ms(clock_system()) < until; poll(NULL, 0, 2)) {
		snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
		FILE *f = fopen(path, "r");
		assert_non_null(f);
		assert_int_equal(fscanf(f, "%*d (%*[^)]) %c", &letter), 1);
		fclose(f);
		if (letter == wanted)
			break;
	}
	return letter;
}

/* Advances time until the next event has hit a child, and returns that child. */
static struct child *await_event(struct scene *s, struct chaos_event *e)
{
	*e = s->chaos.next;
	s->now_ms = s->chaos.next_ms;
	const uint32_t server = chaos_tick(&s->chaos, &s->seen, s->now_ms, s->now_ms);
	assert_int_equal(server, e->whom == CHAOS_SERVER ? e->index : WEIR_SERVER_NONE);
	return supervisor_child(s->supervisor, e->whom == CHAOS_SERVER ? e->index : SERVERS + e->index);
}

/* A seed whose list begins with this event. */
static uint64_t seed_of(enum chaos_whom whom, enum chaos_act act)
{
	const struct job job = job_of(2, JOB_LOG_DISK);
	for (uint64_t seed = 0;; seed++) {
		struct prng r;
		prng_seed(&r, seed);
		const struct chaos_event e = chaos_draw(&r, &job);
		if (e.whom == whom && e.act == act)
			return seed;
	}
}

static void a_killed_process_is_gone(void **state)
{
	(void)state;
	struct scene *s = open_scene(seed_of(CHAOS_WORKER, CHAOS_KILL));
	struct chaos_event e;
	struct child *hit = await_event(s, &e), *gone = NULL;
	while (!gone)
		gone = supervisor_reap(s->supervisor);
	assert_ptr_equal(gone, hit);
	assert_true(child_killed(gone));
	fflush(s->out);
	CHECK_CONTAINS(s->said, hit->name);
	assert_int_equal(s->chaos.count[CHAOS_WORKER][CHAOS_KILL], 1);
	close_scene(s);
}

static void a_paused_process_goes_on_in_time(void **state)
{
	(void)state;
	struct scene *s = open_scene(seed_of(CHAOS_SERVER, CHAOS_PAUSE));
	struct chaos_event e;
	const struct child *hit = await_event(s, &e);
	assert_int_equal(state_of(hit->pid, 'T'), 'T');
	assert_true(chaos_is_pausing(&s->chaos));
	s->chaos.next_ms = INT64_MAX; /* no other event */
	(void)chaos_tick(&s->chaos, &s->seen, s->now_ms, s->now_ms + e.pause_ms - 1);
	assert_true(chaos_is_pausing(&s->chaos));
	(void)chaos_tick(&s->chaos, &s->seen, s->now_ms, s->now_ms + e.pause_ms);
	assert_int_equal(state_of(hit->pid, 'S'), 'S');
	assert_false(chaos_is_pausing(&s->chaos));
	assert_int_equal(s->chaos.count[CHAOS_SERVER][CHAOS_PAUSE], 1);
	close_scene(s);
}

static void at_the_end_everybody_goes_on(void **state)
{
	(void)state;
	struct scene *s = open_scene(seed_of(CHAOS_WORKER, CHAOS_PAUSE));
	struct chaos_event e;
	const struct child *hit = await_event(s, &e);
	assert_int_equal(state_of(hit->pid, 'T'), 'T');
	chaos_stop(&s->chaos);
	assert_int_equal(state_of(hit->pid, 'S'), 'S');
	assert_int_equal(chaos_tick(&s->chaos, &s->seen, INT64_MAX, INT64_MAX), WEIR_SERVER_NONE);
	assert_int_equal(s->chaos.count[CHAOS_WORKER][CHAOS_PAUSE], 1);
	close_scene(s);
}

static bool is_hit(struct scene *s, int64_t seen_ms)
{
	return chaos_tick(&s->chaos, &s->seen, seen_ms, s->chaos.next_ms) != WEIR_SERVER_NONE;
}

static void a_server_is_left_alone_until_all_are_well(void **state)
{
	(void)state;
	struct scene *s = open_scene(seed_of(CHAOS_SERVER, CHAOS_PAUSE));
	s->partitions[1].in_sync_count = 1;
	assert_false(is_hit(s, 1));
	s->partitions[1].in_sync_count = 2;
	s->partitions[2].reported = false;
	assert_false(is_hit(s, 1));
	s->partitions[2].reported = true;
	s->seen.ledger.in_sync_count = 1;
	assert_false(is_hit(s, 1));
	s->seen.ledger.in_sync_count = 2;
	s->servers[0].answered = false;
	assert_false(is_hit(s, 1));
	s->servers[0] = (struct overview_server){.answered = true, .uptime_ms = WEIR_CHILD_STEADY_MS - 1};
	assert_false(is_hit(s, 1));
	s->servers[0].uptime_ms++;
	assert_false(is_hit(s, 0)); /* hit before the event began */
	assert_int_equal(chaos_tick(&s->chaos, NULL, 1, s->chaos.next_ms), WEIR_SERVER_NONE);
	assert_int_equal(chaos_tick(&s->chaos, &s->seen, 1, s->chaos.next_ms - 1), WEIR_SERVER_NONE);
	assert_true(is_hit(s, 1));
	close_scene(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_seed_gives_one_list),        cmocka_unit_test(the_only_holder_of_data_is_not_killed),
	    cmocka_unit_test(a_killed_process_is_gone),     cmocka_unit_test(a_paused_process_goes_on_in_time),
	    cmocka_unit_test(at_the_end_everybody_goes_on), cmocka_unit_test(a_server_is_left_alone_until_all_are_well),
	};
	return cmocka_run_group_tests_name("cli_chaos", tests, NULL, NULL);
}
