/* Failure detectors of whole servers over the in-memory transport, with loops that tick in real
 * time. A running server is heard. A server that is gone, paused or stuck is silent. A server in
 * trouble reports no other as silent. The tests wait for conditions, so a busy machine only makes
 * them slower. */
#include <stdio.h>
#include <stdlib.h>

#include "common/base/clock.h"
#include "common/base/key_partition.h"
#include "proto/coord/coord_memory.h"
#include "server/cluster/heartbeat_loop_internal.h"
#include "server/service/server_internal.h"
#include "tests/await.h"
#include "tests/cmocka_check.h"
#include "tests/unit/faulty_disk.h"
#include "tests/unit/on_loop.h"

enum { SERVERS = 3, PARTITIONS = 6, EXECUTORS = 2 };

static const char *const addresses[SERVERS] = {"memory:server-0", "memory:server-1", "memory:server-2"};

struct cluster {
	struct rpc *rpc;
	struct server *servers[SERVERS];
	struct faulty_disk *disks[SERVERS];
	struct coord_memory *coordinator;
	uint64_t starts;
};

static weir_status open_session(void *cluster, struct coord **out, const struct callback_executor *session,
                                const struct coord_options *options, weir_error *err)
{
	return coord_memory_open(out, ((struct cluster *)cluster)->coordinator, session, options, err);
}

static void start_of(struct cluster *c, uint32_t i, uint64_t generation)
{
	uint32_t partition_server[PARTITIONS];
	char name[16];
	weir_error err = {0};
	for (uint32_t p = 0; p < PARTITIONS; p++)
		partition_server[p] = placement_server(p, SERVERS);
	const struct ledger_options ledger = {.clock = clock_system(),
	                                      .entropy = entropy_system(),
	                                      .generation = generation,
	                                      .lease_ms = 4000,
	                                      .passes = 1,
	                                      .partitions = PARTITIONS,
	                                      .servers_count = SERVERS,
	                                      .servers = addresses,
	                                      .partition_server = partition_server};
	const struct promising_options promising = {.disk = faulty_disk_interface(c->disks[i]), .path = "folder"};
	const struct coordinator_options coordinator = {.open = open_session, .arg = c};
	const struct server_options options = {.rpc = c->rpc,
	                                       .clock = clock_system(),
	                                       .name = name,
	                                       .listen = addresses[i],
	                                       .generation = generation,
	                                       .process_id = ++c->starts,
	                                       .index = i,
	                                       .servers = SERVERS,
	                                       .partitions = PARTITIONS,
	                                       .replicas = 2,
	                                       .coordinator = &coordinator,
	                                       .addresses = addresses,
	                                       .executors = EXECUTORS,
	                                       .promising = &promising,
	                                       .ledger = i == 0 ? &ledger : NULL};
	snprintf(name, sizeof name, "server-%u", i);
	CHECK_OK(server_create(&c->servers[i], &options, &err), err);
}

static void begin(struct cluster *c, uint32_t servers)
{
	*c = (struct cluster){.rpc = rpc_memory_create(NULL), .coordinator = coord_memory_create(clock_system())};
	for (uint32_t i = 0; i < SERVERS; i++)
		c->disks[i] = faulty_disk_create();
	for (uint32_t i = 0; i < servers; i++)
		start_of(c, i, 1);
}

static void stop(struct cluster *c, uint32_t i)
{
	server_destroy(c->servers[i]);
	c->servers[i] = NULL;
}

static void end(struct cluster *c)
{
	for (uint32_t i = 0; i < SERVERS; i++)
		stop(c, i);
	for (uint32_t i = 0; i < SERVERS; i++)
		faulty_disk_destroy(c->disks[i]);
	coord_memory_destroy(c->coordinator);
	rpc_destroy(c->rpc);
}

static uint32_t silent_for(const struct cluster *c, uint32_t of, uint32_t other)
{
	struct heartbeat h;
	heartbeat_loop_silences(c->servers[of]->detector, &h);
	return heartbeat_silent(&h, (uint16_t)other);
}

static bool is_silent(const struct cluster *c, uint32_t of, uint32_t other)
{
	return silent_for(c, of, other) >= WEIR_HEARTBEAT_SILENT_TICKS;
}

/* Waits until server `of` takes `other` for silent or for alive. */
static void await(const struct cluster *c, uint32_t of, uint32_t other, bool silent)
{
	AWAIT(is_silent(c, of, other) == silent, "server %u takes server %u for %s", of, other, silent ? "alive" : "silent");
}

struct peer {
	struct heartbeat_loop *h;
	uint16_t id;
	uint64_t incarnation;
};

static void look_at_peer(void *arg)
{
	struct peer *p = arg;
	p->incarnation = failure_detector_get_peer(p->h->detector, p->id).incarnation;
}

/* Returns the incarnation of `other` that server `of` heard last. 0: none. */
static uint64_t heard_start(const struct cluster *c, uint32_t of, uint32_t other)
{
	struct peer p = {.h = c->servers[of]->detector, .id = (uint16_t)other};
	on_loop(p.h->loop, look_at_peer, &p);
	return p.incarnation;
}

static void await_start(const struct cluster *c, uint32_t of, uint32_t other)
{
	AWAIT(heard_start(c, of, other) == vote_store_incarnation(c->servers[other]->identity.votes),
	      "server %u has not heard the last start of server %u", of, other);
}

static void await_all(const struct cluster *c)
{
	for (uint32_t i = 0; i < SERVERS; i++)
		for (uint32_t k = 0; k < SERVERS; k++)
			if (i != k) {
				await_start(c, i, k);
				await(c, i, k, false);
			}
}

/* --- Tests */

static void an_absent_server_is_silent_until_it_starts(void **state)
{
	(void)state;
	struct cluster c;
	begin(&c, 2);
	for (uint32_t i = 0; i < 2; i++) {
		await(&c, i, 2, true);
		await_start(&c, i, 1 - i);
		await(&c, i, 1 - i, false);
	}
	start_of(&c, 2, 1);
	await_all(&c);
	end(&c);
}

static void a_dead_server_is_silent_and_is_heard_after_its_next_start(void **state)
{
	(void)state;
	struct cluster c;
	begin(&c, SERVERS);
	await_all(&c);
	const uint64_t former = vote_store_incarnation(c.servers[1]->identity.votes);
	stop(&c, 1);
	await(&c, 0, 1, true);
	await(&c, 2, 1, true);
	start_of(&c, 1, 1);
	assert_true(vote_store_incarnation(c.servers[1]->identity.votes) > former);
	await_all(&c);
	end(&c);
}

/* A new stream is up before another server reports silence. */
static void cut_stream(void *arg)
{
	struct heartbeat_link *k = arg;
	if (k->stream)
		rpc_stream_cancel(k->stream, WEIR_E_UNAVAILABLE, "cut by the test");
}

static void a_stream_that_is_cut_is_replaced(void **state)
{
	(void)state;
	struct cluster c;
	begin(&c, SERVERS);
	await_all(&c);
	struct heartbeat_loop *h = c.servers[0]->detector;
	for (uint32_t i = 0; i < 3; i++) {
		rpc_loop_post(h->loop, cut_stream, &h->links[1]);
		const uint32_t until =
		    /* The entry of a server for itself is never reset: it counts ticks. */
		    silent_for(&c, 1, 1) + 2 * WEIR_HEARTBEAT_SILENT_TICKS;
		AWAIT(silent_for(&c, 1, 1) >= until, "the heart of server 1 has stopped at tick %u", silent_for(&c, 1, 1));
		assert_false(is_silent(&c, 1, 0));
	}
	end(&c);
}

/* A paused detector does not tick, so it reports nobody. The other servers report it. */
static void a_paused_server_is_silent_and_deposes_nobody(void **state)
{
	(void)state;
	struct cluster c;
	struct held_loop held;
	begin(&c, SERVERS);
	await_all(&c);
	held_loop_hold(&held, c.servers[1]->detector->loop);
	const uint32_t ticks = silent_for(&c, 1, 1);
	await(&c, 0, 1, true);
	await(&c, 2, 1, true);
	assert_int_equal(silent_for(&c, 1, 1), ticks);
	held_loop_release(&held);
	await_all(&c);
	end(&c);
}

/* The others' messages may hang with the executor. The detector beats on for a while, counts no
 * ticks, and then falls silent. */
static void a_stuck_server_is_silent_and_deposes_nobody(void **state)
{
	(void)state;
	for (uint32_t e = 0; e < EXECUTORS; e++) {
		struct cluster c;
		struct held_loop held;
		begin(&c, SERVERS);
		await_all(&c);
		const int64_t hung_ms = clock_ms(clock_system());
		held_loop_hold(&held, c.servers[1]->executors[e].loop);
		await(&c, 0, 1, true);
		assert_true(clock_ms(clock_system()) - hung_ms >= WEIR_STUCK_MS);
		await(&c, 2, 1, true);
		assert_false(is_silent(&c, 1, 0) || is_silent(&c, 1, 2));
		held_loop_release(&held);
		await(&c, 0, 1, false);
		await(&c, 2, 1, false);
		end(&c);
	}
}

/* The server with the ledger is of no use while the ledger's loop hangs. */
static void a_server_with_a_stuck_ledger_is_silent(void **state)
{
	(void)state;
	struct cluster c;
	struct held_loop held;
	begin(&c, SERVERS);
	await_all(&c);
	held_loop_hold(&held, c.servers[0]->ledger_loop);
	await(&c, 1, 0, true);
	held_loop_release(&held);
	await(&c, 1, 0, false);
	end(&c);
}

static void a_server_of_another_generation_is_not_heard(void **state)
{
	(void)state;
	struct cluster c;
	begin(&c, 2);
	start_of(&c, 2, 2);
	await(&c, 0, 2, true);
	await(&c, 2, 0, true);
	assert_int_equal(heard_start(&c, 0, 2), 0);
	assert_int_equal(heard_start(&c, 2, 0), 0);
	await_start(&c, 0, 1);
	end(&c);
}

static void a_server_that_stops_is_silent_before_it_is_gone(void **state)
{
	(void)state;
	struct cluster c;
	begin(&c, SERVERS);
	await_all(&c);
	const int64_t begun_ms = clock_ms(clock_system());
	server_drain(c.servers[1], 60000); /* other servers' streams do not delay the end */
	assert_true(clock_ms(clock_system()) - begun_ms < 60000);
	await(&c, 0, 1, true);
	await(&c, 2, 1, true);
	end(&c);
}

enum { GRACE_MS = 20000 };

static void *drain_one(void *server)
{
	server_drain(server, GRACE_MS);
	return NULL;
}

/* Each server closes its streams to the others, which wait for that. */
static void servers_that_end_together_do_not_wait_for_each_other(void **state)
{
	(void)state;
	struct cluster c;
	pthread_t threads[SERVERS];
	begin(&c, SERVERS);
	await_all(&c);
	const int64_t begun_ms = clock_ms(clock_system());
	for (uint32_t i = 0; i < SERVERS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, drain_one, c.servers[i]), 0);
	for (uint32_t i = 0; i < SERVERS; i++)
		pthread_join(threads[i], NULL);
	assert_in_range(clock_ms(clock_system()) - begun_ms, 0, GRACE_MS * 3 / 4);
	end(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(an_absent_server_is_silent_until_it_starts),
	    cmocka_unit_test(a_dead_server_is_silent_and_is_heard_after_its_next_start),
	    cmocka_unit_test(a_stream_that_is_cut_is_replaced),
	    cmocka_unit_test(a_paused_server_is_silent_and_deposes_nobody),
	    cmocka_unit_test(a_stuck_server_is_silent_and_deposes_nobody),
	    cmocka_unit_test(a_server_with_a_stuck_ledger_is_silent),
	    cmocka_unit_test(a_server_of_another_generation_is_not_heard),
	    cmocka_unit_test(a_server_that_stops_is_silent_before_it_is_gone),
	    cmocka_unit_test(servers_that_end_together_do_not_wait_for_each_other),
	};
	return cmocka_run_group_tests_name("heartbeat_loop", tests, NULL, NULL);
}
