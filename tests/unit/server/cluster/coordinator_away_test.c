/* Servers that start while the coordinator is unreachable. A server with single copies needs the
 * coordinator's answer: it retries, and gives up after a limit. A server with replicas starts
 * without partitions until the coordinator answers. */
#include <pthread.h>
#include <stdlib.h>

#include "proto/coord/coord_memory.h"
#include "server/cluster/roles.h"
#include "server/service/server_internal.h"
#include "tests/await.h"
#include "tests/cmocka_check.h"
#include "tests/unit/faulty_disk.h"
#include "tests/unit/server/coord/counted_session.h"

enum { SERVERS = 2, PARTITIONS = 6, EXECUTORS = 2, READS = 4, TICK_MS = 2 };

struct scene {
	struct rpc *rpc;
	struct coord_memory *coordinator;
	struct faulty_disk *disk;
	struct server *server;
	pthread_t clockwork;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	/* Guarded by the lock: */
	uint32_t reads; /* reads that the server sent */
	uint32_t until; /* reads after which the coordinator answers */
	bool over;
};

/* --- A coordinator that counts reads */

static void on_call(void *arg, enum session_call call)
{
	struct scene *s = arg;
	if (call != SESSION_READ)
		return;
	pthread_mutex_lock(&s->lock);
	s->reads++;
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
}

static weir_status open_session(void *arg, struct coord **out, const struct callback_executor *session,
                                const struct coord_options *options, weir_error *err)
{
	struct scene *s = arg;
	const struct counted_session_options counted = {
	    .coordinator = s->coordinator, .run_on = session, .session = options, .called = on_call, .arg = s};
	return counted_session_open(out, &counted, err);
}

/* Lets time pass in the coordinator, and ends its outage after `until` reads. */
static void *run_clockwork(void *arg)
{
	struct scene *s = arg;
	pthread_mutex_lock(&s->lock);
	while (!s->over) {
		coord_memory_down(s->coordinator, s->reads < s->until);
		coord_memory_run(s->coordinator);
		(void)deadline_wait(&s->changed, &s->lock, deadline_after_ms(TICK_MS));
	}
	pthread_mutex_unlock(&s->lock);
	return NULL;
}

static uint32_t reads_so_far(struct scene *s)
{
	pthread_mutex_lock(&s->lock);
	const uint32_t reads = s->reads;
	pthread_mutex_unlock(&s->lock);
	return reads;
}

/* --- Servers */

static void scene_open(struct scene *s, uint32_t until)
{
	*s = (struct scene){.rpc = rpc_memory_create(NULL),
	                    .coordinator = coord_memory_create(clock_system()),
	                    .disk = faulty_disk_create(),
	                    .until = until};
	pthread_mutex_init(&s->lock, NULL);
	deadline_cond_init(&s->changed);
	coord_memory_down(s->coordinator, true);
	assert_int_equal(pthread_create(&s->clockwork, NULL, run_clockwork, s), 0);
}

static weir_status start(struct scene *s, uint32_t replicas, uint32_t patience_ms, weir_error *err)
{
	static const char *const addresses[SERVERS] = {"memory:0", "memory:1"};
	const struct coordinator_options coordinator = {.open = open_session, .arg = s, .patience_ms = patience_ms};
	const struct promising_options promising = {.disk = faulty_disk_interface(s->disk), .path = "folder"};
	const struct server_options o = {.rpc = s->rpc,
	                                 .clock = clock_system(),
	                                 .name = "server-0",
	                                 .listen = addresses[0],
	                                 .generation = 1,
	                                 .process_id = 1,
	                                 .servers = SERVERS,
	                                 .partitions = PARTITIONS,
	                                 .replicas = replicas,
	                                 .coordinator = &coordinator,
	                                 .addresses = addresses,
	                                 .executors = EXECUTORS,
	                                 .promising = replicas > 1 ? &promising : NULL};
	return server_create(&s->server, &o, err);
}

static void scene_close(struct scene *s)
{
	server_destroy(s->server);
	pthread_mutex_lock(&s->lock);
	s->over = true;
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
	pthread_join(s->clockwork, NULL);
	pthread_cond_destroy(&s->changed);
	pthread_mutex_destroy(&s->lock);
	coord_memory_destroy(s->coordinator);
	faulty_disk_destroy(s->disk);
	rpc_destroy(s->rpc);
}

static void await_reads(struct scene *s, uint32_t count)
{
	pthread_mutex_lock(&s->lock);
	while (s->reads < count)
		pthread_cond_wait(&s->changed, &s->lock);
	pthread_mutex_unlock(&s->lock);
}

static void let_come(struct scene *s)
{
	pthread_mutex_lock(&s->lock);
	s->until = 0;
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
}

/* --- Tests */

static void a_single_copy_asks_again(void **state)
{
	(void)state;
	struct scene s;
	weir_error err = {0};
	scene_open(&s, READS);
	CHECK_OK(start(&s, 1, 0, &err), err);
	assert_true(reads_so_far(&s) >= READS);
	scene_close(&s);
}

static void a_single_copy_gives_up(void **state)
{
	(void)state;
	struct scene s;
	weir_error err = {0};
	scene_open(&s, UINT32_MAX);
	assert_int_equal(start(&s, 1, 1500, &err), WEIR_E_TIMEOUT);
	CHECK_CONTAINS(err.text, "server-0: the coordinator has not answered for 1500 ms");
	assert_true(reads_so_far(&s) >= 1 && !s.server);
	scene_close(&s);
}

static void replicas_wait_for_it(void **state)
{
	(void)state;
	struct scene s;
	weir_error err = {0};
	scene_open(&s, UINT32_MAX);
	CHECK_OK(start(&s, 2, 0, &err), err);
	await_reads(&s, READS); /* it retries */
	assert_false(server_is_coordinated(s.server));
	let_come(&s);
	AWAIT(server_is_coordinated(s.server), "the server has not heard the coordinator");
	scene_close(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_single_copy_asks_again),
	    cmocka_unit_test(a_single_copy_gives_up),
	    cmocka_unit_test(replicas_wait_for_it),
	};
	return cmocka_run_group_tests_name("coordinator_away", tests, NULL, NULL);
}
