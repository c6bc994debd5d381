/* Connections under faults: stalled data continues, both ends hear of a broken connection in time,
 * and nothing is lost or reordered before that. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/limits.h"
#include "tests/sim/net/network.h"
#include "tests/sim/sim_test.h"
#include "tests/sim/world/heap.h"

#define DEAD_NS (WEIR_DEAD_PEER_MS * SIM_MS)

/* A client sends numbers to a server, which echoes them. In the world's memory. */
struct talk {
	struct node *client, *server;
	struct rpc_loop *loop;
	struct rpc_stream *stream;
	uint64_t sent, heard, back, disorder;
	bool server_closed, closed, ends; /* ends: the client stops sending */
	weir_status status, server_status;
	int64_t closed_ns, server_closed_ns;
	char text[WEIR_ERROR_TEXT_BYTES];
};

static uint64_t number_of(struct message *m)
{
	uint64_t n = 0;
	struct cursor c = cursor_at(m);
	assert_int_equal(cursor_read(&c, &n, sizeof n), WEIR_OK);
	return n;
}

/* --- The server */

static void on_number(void *arg, struct rpc_stream *stream, struct message *m)
{
	struct talk *t = arg;
	t->disorder += number_of(m) != t->heard++;
	assert_int_equal(rpc_stream_send(stream, message_retain(m)), WEIR_OK);
}

static void on_end(void *arg, struct rpc_stream *stream, weir_status status, const char *text)
{
	struct talk *t = arg;
	(void)stream, (void)text;
	t->server_closed = true;
	t->server_status = status;
	t->server_closed_ns = world_now();
}

static const struct rpc_stream_handler *on_open(void *ctx, struct rpc_stream *stream, enum rpc_method method, void **arg)
{
	static const struct rpc_stream_handler handler = {.message = on_number, .closed = on_end};
	(void)stream, (void)method;
	*arg = ctx;
	return &handler;
}

static void on_call(void *ctx, struct rpc_call *call, enum rpc_method method, struct message *request)
{
	(void)ctx, (void)method;
	rpc_call_reply(call, WEIR_OK, NULL, message_retain(request));
}

static void serve(void *arg)
{
	static const struct rpc_service service = {.unary = on_call, .stream_open = on_open};
	struct rpc *rpc = rpc_sim_create(NULL);
	struct rpc_server *server;
	weir_error err = {0};
	struct rpc_loop *loop = rpc_loop_create(rpc, "server", &err);
	assert_int_equal(rpc_server_start(&server, rpc, "sim:server", &loop, 1, &service, arg, &err), WEIR_OK);
}

/* --- The client */

static void on_back(void *arg, struct rpc_stream *stream, struct message *m)
{
	struct talk *t = arg;
	(void)stream;
	t->disorder += number_of(m) != t->back++;
}

static void on_closed(void *arg, struct rpc_stream *stream, weir_status status, const char *text)
{
	struct talk *t = arg;
	(void)stream;
	t->closed = true;
	t->status = status;
	t->closed_ns = world_now();
	snprintf(t->text, sizeof t->text, "%s", text);
}

static void send_number(void *arg)
{
	struct talk *t = arg;
	if (t->closed || t->ends)
		return;
	assert_int_equal(rpc_stream_send(t->stream, message_copy(&t->sent, sizeof t->sent)), WEIR_OK);
	t->sent++;
	rpc_loop_after(t->loop, 10, send_number, t);
}

static void talk(void *arg)
{
	static const struct rpc_stream_handler handler = {.message = on_back, .closed = on_closed};
	struct talk *t = arg;
	struct rpc *rpc = rpc_sim_create(NULL);
	struct rpc_channel *channel;
	weir_error err = {0};
	t->loop = rpc_loop_create(rpc, "client", &err);
	assert_int_equal(rpc_channel_open(&channel, rpc, t->loop, "sim:server", &err), WEIR_OK);
	assert_int_equal(rpc_stream_open(&t->stream, channel, RPC_PUSH_STREAM, &handler, t, &err), WEIR_OK);
	rpc_loop_post(t->loop, send_number, t);
}

static struct talk *talk_begin(uint32_t window)
{
	struct talk *t = world_alloc(sizeof *t);
	heap_begin();
	network_begin(&(struct network_mood){.delay_ns = SIM_MS, .rare_delay_ns = 30 * SIM_MS, .rare = 0.1, .window = window});
	t->client = node_create("client");
	t->server = node_create("server");
	node_start(t->server, serve, t);
	thread_sleep(10 * SIM_MS);
	node_start(t->client, talk, t);
	thread_sleep(SIM_S);
	assert_true(t->back > 50);
	return t;
}

/* All numbers came back, and the stream lives. */
static void assert_whole(struct talk *t)
{
	t->ends = true;
	thread_sleep(2 * SIM_S);
	assert_false(t->closed);
	assert_true(t->sent == t->heard && t->sent == t->back);
	assert_true(t->disorder == 0);
}

/* Both ends heard of the break, at most within_ns after since_ns, the client with this text. */
static void assert_broken(struct talk *t, int64_t since_ns, int64_t within_ns, const char *text)
{
	assert_true(t->closed && t->server_closed);
	assert_int_equal(t->status, WEIR_E_UNAVAILABLE);
	assert_int_equal(t->server_status, WEIR_E_CANCELLED);
	assert_in_range(t->closed_ns - since_ns, 0, within_ns);
	assert_in_range(t->server_closed_ns - since_ns, 0, within_ns);
	assert_non_null(strstr(t->text, text));
	assert_non_null(strstr(t->text, "sim:server /weir.v1.ParameterServer/PushStream: "));
	assert_true(t->disorder == 0);
}

/* --- Cuts: of some ways (bit 0: to the server, bit 1: back), for some time */

struct cut {
	uint32_t ways;
	int64_t ns;
};

static int64_t cut_for(struct talk *t, const struct cut *c)
{
	const int64_t begin = world_now();
	if (c->ways & 1)
		network_cut(t->client, t->server);
	if (c->ways & 2)
		network_cut(t->server, t->client);
	thread_sleep(c->ns);
	network_heal(t->server, t->client);
	network_heal(t->client, t->server);
	return begin;
}

static void stall(void *arg)
{
	struct talk *t = talk_begin(4);
	(void)cut_for(t, arg);
	assert_true(network_counts().stalled > 0);
	assert_whole(t);
}

static void fall_silent(void *arg)
{
	struct talk *t = talk_begin(4);
	const int64_t begin = cut_for(t, arg);
	assert_broken(t, begin, DEAD_NS, ""); /* or a reset, if the other end noticed first */
	assert_true(t->heard < t->sent);      /* data in flight is lost */
}

static void run(uint64_t seed, void (*fn)(void *arg), void *arg)
{
	world_run(&(struct world_options){.seed = seed, .preempt = 0.05, .spurious = 0.01}, fn, arg);
}

static void a_short_cut_stalls(void **state)
{
	(void)state;
	for (uint32_t ways = 1; ways <= 3; ways++)
		for (uint64_t seed = 0; seed < 5; seed++)
			run(seed, stall, &(struct cut){ways, 1500 * SIM_MS});
}

static void a_long_cut_breaks_in_time(void **state)
{
	(void)state;
	for (uint32_t ways = 1; ways <= 3; ways++)
		for (uint64_t seed = 0; seed < 5; seed++)
			run(seed, fall_silent, &(struct cut){ways, 20 * SIM_S});
}

/* --- Processes that stop or die */

static void stop_shortly(void *arg)
{
	struct talk *t = talk_begin(2);
	(void)arg;
	node_pause(t->server);
	thread_sleep(2 * SIM_S);
	node_resume(t->server);
	assert_whole(t);
}

static void stop_for_long(void *arg)
{
	struct talk *t = talk_begin(2);
	const int64_t begin = world_now();
	(void)arg;
	node_pause(t->server);
	thread_sleep(20 * SIM_S);
	assert_true(t->closed && !t->server_closed);
	assert_in_range(t->closed_ns - begin, 0, DEAD_NS);
	node_resume(t->server);
	thread_sleep(SIM_S);
	assert_true(t->server_closed);
}

static void die(void *arg)
{
	struct talk *t = talk_begin(2);
	const enum node_death how = *(enum node_death *)arg;
	const int64_t begin = world_now();
	node_kill(t->server, how);
	thread_sleep(10 * SIM_S);
	assert_true(t->closed && !t->server_closed);
	assert_int_equal(t->status, WEIR_E_UNAVAILABLE);
	assert_in_range(t->closed_ns - begin, 0, how == DEATH_PROCESS ? 100 * SIM_MS : DEAD_NS);
}

static void client_dies(void *arg)
{
	struct talk *t = talk_begin(2);
	const enum node_death how = *(enum node_death *)arg;
	const int64_t begin = world_now();
	node_kill(t->client, how);
	thread_sleep(10 * SIM_S);
	assert_true(t->server_closed && !t->closed);
	assert_int_equal(t->server_status, WEIR_E_CANCELLED);
	assert_in_range(t->server_closed_ns - begin, 0, how == DEATH_PROCESS ? 100 * SIM_MS : DEAD_NS);
}

static void come_back(void *arg)
{
	(void)arg;
	struct talk *t = talk_begin(2);
	node_kill(t->server, DEATH_PROCESS);
	node_kill(t->client, DEATH_PROCESS);
	t->sent = t->heard = t->back = 0;
	t->closed = t->server_closed = false;
	node_start(t->server, serve, t);
	thread_sleep(10 * SIM_MS);
	node_start(t->client, talk, t);
	thread_sleep(SIM_S);
	assert_whole(t);
}

static void reset(void *arg)
{
	struct talk *t = talk_begin(8);
	const int64_t begin = world_now();
	(void)arg;
	network_reset(t->server, t->client);
	thread_sleep(SIM_S);
	assert_broken(t, begin, 100 * SIM_MS, "the connection is broken");
}

static void processes_stop_and_die(void **state)
{
	(void)state;
	for (uint64_t seed = 0; seed < 5; seed++) {
		run(seed, stop_shortly, NULL);
		run(seed, stop_for_long, NULL);
		run(seed, come_back, NULL);
		run(seed, reset, NULL);
		for (enum node_death how = DEATH_PROCESS; how <= DEATH_MACHINE; how++) {
			run(seed, die, &how);
			run(seed, client_dies, &how);
		}
	}
}

/* --- Late calls */

enum { CALLS = 60 };

struct late {
	uint32_t answered, timed_out, other;
};

static void call_many(void *arg)
{
	struct late *late = arg;
	struct rpc *rpc = rpc_sim_create(NULL);
	struct rpc_channel *channel;
	weir_error err = {0};
	struct rpc_loop *loop = rpc_loop_create(rpc, "client", &err);
	assert_int_equal(rpc_channel_open(&channel, rpc, loop, "sim:server", &err), WEIR_OK);
	for (uint64_t i = 0; i < CALLS; i++) {
		struct message *reply;
		weir_status status = rpc_call_wait(channel, RPC_STATUS, message_copy(&i, sizeof i), 20, &reply, &err);
		late->answered += status == WEIR_OK;
		late->timed_out += status == WEIR_E_TIMEOUT;
		late->other += status != WEIR_OK && status != WEIR_E_TIMEOUT;
		if (reply)
			assert_true(number_of(reply) == i);
		message_release(reply);
	}
	rpc_channel_close(channel);
	rpc_loop_destroy(loop);
	rpc_destroy(rpc);
}

static void be_late(void *arg)
{
	struct node *server = node_create("server"), *client = node_create("client");
	struct late *late = arg;
	heap_begin();
	network_begin(&(struct network_mood){.delay_ns = SIM_MS, .rare_delay_ns = 100 * SIM_MS, .rare = 0.2, .window = 1});
	node_start(server, serve, NULL);
	thread_sleep(10 * SIM_MS);
	node_start(client, call_many, late);
	while (late->answered + late->timed_out + late->other < CALLS)
		thread_sleep(10 * SIM_MS);
	thread_sleep(SIM_S); /* nobody waits for the last answers */
}

static void calls_may_be_late(void **state)
{
	(void)state;
	struct late late = {0};
	run(3, be_late, &late);
	assert_int_equal(late.other, 0);
	assert_true(late.answered > CALLS / 4 && late.timed_out > CALLS / 20);
}

int test_network(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_short_cut_stalls),
	    cmocka_unit_test(a_long_cut_breaks_in_time),
	    cmocka_unit_test(processes_stop_and_die),
	    cmocka_unit_test(calls_may_be_late),
	};
	return cmocka_run_group_tests_name("network", tests, NULL, NULL);
}
