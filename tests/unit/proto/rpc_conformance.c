/* The contract of rpc.h, over any transport. */
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/limits.h"
#include "tests/unit/proto/rpc_fixture.h"

static const char *transport;
static const size_t sizes[] = {1, 100, 4096, 4097, 65536, 100000, 1 << 20, 3 << 20};
#define SIZES (sizeof sizes / sizeof *sizes)
static const size_t small[] = {1, 17, 256, 5000, 64, 70000};
#define SMALLS (sizeof small / sizeof *small)

static weir_status call(struct rpc_channel *c, enum rpc_method method, size_t bytes, uint32_t timeout_ms, struct message **reply,
                        weir_error *err)
{
	return rpc_call_wait(c, method, pattern_message(bytes, bytes), timeout_ms, reply, err);
}

static void unary_echo(void **state)
{
	(void)state;
	struct fixture f;
	fixture_open(&f, transport);
	for (size_t i = 0; i < SIZES; i++) {
		struct message *reply;
		weir_error err = {0};
		assert_int_equal(call(f.channel, RPC_STATUS, sizes[i], 5000, &reply, &err), WEIR_OK);
		assert_true(pattern_is(reply, sizes[i], sizes[i]));
		message_release(reply);
	}
	fixture_close(&f);
}

static void status_travels(void **state)
{
	(void)state;
	struct fixture f;
	struct message *reply;
	weir_error err = {0};
	fixture_open(&f, transport);
	assert_int_equal(call(f.channel, RPC_COMMIT, 10, 5000, &reply, &err), WEIR_E_STALE);
	assert_string_equal(err.text, "a newer attempt holds the unit");
	assert_null(reply);
	fixture_close(&f);
}

/* To the caller, a call that nobody on its side has cancelled was not answered. */
static void a_server_cancels(void **state)
{
	(void)state;
	struct fixture f;
	struct message *reply;
	weir_error err = {0};
	fixture_open(&f, transport);
	atomic_store(&f.node.service.cancels, true);
	assert_int_equal(call(f.channel, RPC_MAP, 10, 5000, &reply, &err), WEIR_E_UNAVAILABLE);
	assert_string_equal(err.text, "the server is stopping");
	fixture_close(&f);
}

static void too_large(void **state)
{
	(void)state;
	struct fixture f;
	struct message *reply;
	weir_error err = {0};
	uint8_t *data;
	fixture_open(&f, transport);
	struct message *m = message_alloc(WEIR_MESSAGE_BYTES_MAX + 1, &data);
	assert_int_equal(rpc_call_wait(f.channel, RPC_STATUS, m, 5000, &reply, &err), WEIR_E_LIMIT);
	assert_non_null(strstr(err.text, "4194305"));
	assert_int_equal(call(f.channel, RPC_LEAVE, 10, 5000, &reply, &err), WEIR_E_LIMIT);
	assert_int_equal(call(f.channel, RPC_STATUS, 10, 5000, &reply, &err), WEIR_OK);
	message_release(reply);
	assert_int_equal(call(f.channel, RPC_STATUS, WEIR_MESSAGE_BYTES_MAX, 5000, &reply, &err), WEIR_OK);
	assert_true(pattern_is(reply, WEIR_MESSAGE_BYTES_MAX, WEIR_MESSAGE_BYTES_MAX));
	message_release(reply);
	fixture_close(&f);
}

static void deadline(void **state)
{
	(void)state;
	struct fixture f;
	struct message *reply;
	weir_error err = {0};
	fixture_open(&f, transport);
	double before = seconds_now();
	assert_int_equal(call(f.channel, RPC_LEASE, 10, 100, &reply, &err), WEIR_E_TIMEOUT);
	assert_true(seconds_now() - before >= 0.09);
	assert_non_null(strstr(err.text, "Lease"));
	assert_non_null(strstr(err.text, rpc_channel_address(f.channel)));
	service_release(&f.node.service); /* an answer without a waiting caller */
	assert_int_equal(call(f.channel, RPC_STATUS, 10, 5000, &reply, &err), WEIR_OK);
	message_release(reply);
	fixture_close(&f);
}

struct outcome {
	atomic_int count;
	_Atomic(weir_status) status;
};
static void outcome_done(void *arg, weir_status status, const char *text, struct message *reply)
{
	struct outcome *o = arg;
	(void)text;
	(void)reply;
	atomic_store(&o->status, status);
	atomic_fetch_add(&o->count, 1);
}

static void close_cancels_calls(void **state)
{
	(void)state;
	struct fixture f;
	struct rpc_channel *c;
	struct outcome outcomes[8];
	weir_error err = {0};
	fixture_open(&f, transport);
	assert_int_equal(rpc_channel_open(&c, f.rpc, f.loop, rpc_server_address(f.node.server), &err), WEIR_OK);
	for (int i = 0; i < 8; i++) {
		atomic_init(&outcomes[i].count, 0);
		assert_int_equal(rpc_call_start(c, RPC_LEASE, pattern_message(1, 10), 60000, outcome_done, &outcomes[i]), WEIR_OK);
	}
	rpc_channel_close(c);
	for (int i = 0; i < 8; i++) {
		assert_int_equal(atomic_load(&outcomes[i].count), 1);
		assert_int_equal(atomic_load(&outcomes[i].status), WEIR_E_CANCELLED);
	}
	fixture_close(&f);
}

struct late {
	struct rpc_channel *channel;
	struct rpc_loop *loop;
	struct probe probe;
	struct outcome outcome;
};

static void dawdle(void *arg)
{
	(void)arg;
	for (int i = 0; i < 1000; i++)
		(void)sched_yield();
}

static void begin_more(void *arg, weir_status status, const char *text, struct message *reply)
{
	struct late *l = arg;
	(void)status;
	(void)text;
	(void)reply;
	/* leaves a caller that does not wait for the two tasks behind it time to free the channel */
	rpc_loop_post(l->loop, dawdle, NULL);
	probe_open(&l->probe, l->channel, l->loop, RPC_PUSH_STREAM, 0, small, SMALLS);
	(void)rpc_call_start(l->channel, RPC_STATUS, pattern_message(1, 10), 60000, outcome_done, &l->outcome);
}

/* A call starts as the last one ends. It has not reached the loop yet when the loop checks for
 * remaining calls. */
static void close_waits_for_what_begins(void **state)
{
	(void)state;
	struct fixture f;
	struct late l = {.outcome = {.count = 0}};
	weir_error err = {0};
	fixture_open(&f, transport);
	l.loop = f.loop;
	assert_int_equal(rpc_channel_open(&l.channel, f.rpc, f.loop, rpc_server_address(f.node.server), &err), WEIR_OK);
	assert_int_equal(rpc_call_start(l.channel, RPC_LEASE, pattern_message(1, 10), 60000, begin_more, &l), WEIR_OK);
	rpc_channel_close(l.channel);
	assert_int_equal(atomic_load(&l.outcome.count), 1);
	assert_int_equal(atomic_load(&l.outcome.status), WEIR_E_CANCELLED);
	assert_int_equal(l.probe.closed, 1);
	assert_int_equal(probe_wait_closed(&l.probe), WEIR_E_CANCELLED);
	fixture_close(&f);
}

static void stream_echo_of_all_sizes(void **state)
{
	(void)state;
	struct fixture f;
	struct probe p;
	fixture_open(&f, transport);
	probe_open(&p, f.channel, f.loop, RPC_PUSH_STREAM, 7, sizes, SIZES);
	probe_send(&p, 3 * SIZES);
	probe_wait_received(&p, 3 * SIZES);
	assert_int_equal(p.received, 3 * SIZES);
	assert_int_equal(p.wrong, 0);
	assert_true(p.writable > 0);
	assert_int_equal(rpc_server_connections(f.node.server), 1);
	probe_finish(&p);
	assert_int_equal(probe_wait_closed(&p), WEIR_OK);
	fixture_close(&f);
}

static void thousand_messages_interleaved(void **state)
{
	(void)state;
	enum { STREAMS = 4, MESSAGES = 1000 };
	struct fixture f;
	struct probe p[STREAMS];
	fixture_open(&f, transport);
	for (int i = 0; i < STREAMS; i++)
		probe_open(&p[i], f.channel, f.loop, RPC_PUSH_STREAM, 1000u * i, small, SMALLS);
	for (int i = 0; i < STREAMS; i++)
		probe_send(&p[i], MESSAGES);
	for (int i = 0; i < STREAMS; i++) {
		probe_wait_received(&p[i], MESSAGES);
		assert_int_equal(p[i].received, MESSAGES);
		assert_int_equal(p[i].wrong, 0);
		probe_finish(&p[i]);
		assert_int_equal(probe_wait_closed(&p[i]), WEIR_OK);
	}
	fixture_close(&f);
}

/* Both in one turn of the loop: the stream cannot end in between. */
static void finish_then_send(void *arg)
{
	struct probe *p = arg;
	rpc_stream_finish(p->stream);
	p->sent = rpc_stream_send(p->stream, pattern_message(1, 10));
}

static void finish_sends_what_is_queued(void **state)
{
	(void)state;
	struct fixture f;
	struct probe p;
	fixture_open(&f, transport);
	probe_open(&p, f.channel, f.loop, RPC_PULL_STREAM, 0, small, SMALLS);
	probe_send(&p, 300);
	on_loop(f.loop, finish_then_send, &p);
	assert_int_equal(p.sent, WEIR_E_CLOSED);
	assert_int_equal(probe_wait_closed(&p), WEIR_OK);
	while (!atomic_load(&f.node.service.closed))
		(void)sched_yield();
	assert_int_equal(atomic_load(&f.node.service.messages), 300);
	assert_int_equal(atomic_load(&f.node.service.last_closed), WEIR_OK);
	fixture_close(&f);
}

/* All methods' streams at once over one channel. Each stream gets its own messages, in order. */
static void streams_of_several_methods(void **state)
{
	(void)state;
	static const enum rpc_method methods[] = {RPC_PUSH_STREAM, RPC_LINK, RPC_HEARTBEAT, RPC_LINK};
	enum { STREAMS = sizeof methods / sizeof *methods, MESSAGES = 30 };
	struct fixture f;
	struct probe p[STREAMS];
	fixture_open(&f, transport);
	for (uint32_t i = 0; i < STREAMS; i++)
		probe_open(&p[i], f.channel, f.loop, methods[i], 100ull * i, small, SMALLS);
	for (uint32_t i = 0; i < STREAMS; i++)
		probe_send(&p[i], MESSAGES);
	for (uint32_t i = 0; i < STREAMS; i++) {
		probe_wait_received(&p[i], MESSAGES);
		assert_int_equal(p[i].received, MESSAGES);
		assert_int_equal(p[i].wrong, 0);
		probe_finish(&p[i]);
		assert_int_equal(probe_wait_closed(&p[i]), WEIR_OK);
	}
	assert_int_equal(atomic_load(&f.node.service.opened), STREAMS);
	fixture_close(&f);
}

/* A method that the service does not offer and an unknown method: both are refused with a reason;
 * others continue. */
static void stream_not_offered(void **state)
{
	(void)state;
	static const enum rpc_method methods[] = {RPC_SNAPSHOT, RPC_ETCD_WATCH};
	struct fixture f;
	struct probe good, bad;
	fixture_open(&f, transport);
	probe_open(&good, f.channel, f.loop, RPC_LINK, 0, small, SMALLS);
	for (uint32_t i = 0; i < 2; i++) {
		probe_open(&bad, f.channel, f.loop, methods[i], 0, small, SMALLS);
		probe_send(&bad, 2);
		assert_int_equal(probe_wait_closed(&bad), WEIR_E_UNSUPPORTED);
		assert_int_equal(bad.received, 0);
		assert_non_null(strstr(bad.text, "method"));
	}
	probe_send(&good, 2);
	probe_wait_received(&good, 2);
	assert_int_equal(good.received, 2);
	assert_int_equal(atomic_load(&f.node.service.opened), 1);
	probe_finish(&good);
	assert_int_equal(probe_wait_closed(&good), WEIR_OK);
	fixture_close(&f);
}

static void client_cancels(void **state)
{
	(void)state;
	struct fixture f;
	struct probe p;
	fixture_open(&f, transport);
	probe_open(&p, f.channel, f.loop, RPC_PUSH_STREAM, 0, sizes, SIZES);
	probe_send(&p, 20);
	probe_wait_received(&p, 1);
	probe_cancel(&p);
	assert_int_equal(probe_wait_closed(&p), WEIR_E_CANCELLED);
	assert_string_equal(p.text, "enough");
	while (!atomic_load(&f.node.service.closed))
		(void)sched_yield();
	assert_int_equal(atomic_load(&f.node.service.last_closed), WEIR_E_CANCELLED);
	fixture_close(&f);
}

static void resume_now(void *arg)
{
	rpc_stream_resume(arg);
}

struct hasty {
	struct probe *probe;
	struct rpc_channel *channel;
	struct rpc_loop *loop;
};

static void open_and_cancel(void *arg)
{
	struct hasty *h = arg;
	probe_open(h->probe, h->channel, h->loop, RPC_PUSH_STREAM, 0, small, SMALLS);
	rpc_stream_cancel(h->probe->stream, WEIR_E_STATE, "changed my mind");
}

static void cancelled_before_it_began(void **state)
{
	(void)state;
	struct fixture f;
	struct probe p;
	fixture_open(&f, transport);
	on_loop(f.loop, open_and_cancel, &(struct hasty){&p, f.channel, f.loop});
	assert_int_equal(probe_wait_closed(&p), WEIR_E_STATE);
	fixture_close(&f);
}

static void pause_stops_the_sender(void **state)
{
	(void)state;
	enum { MESSAGES = 100 };
	static const size_t big[] = {1 << 20};
	struct fixture f;
	struct probe p;
	fixture_open(&f, transport);
	atomic_store(&f.node.service.pause, true);
	probe_open(&p, f.channel, f.loop, RPC_PULL_STREAM, 0, big, 1);
	probe_send(&p, MESSAGES);
	struct rpc_stream *stream;
	while (!(stream = atomic_load(&f.node.service.paused)))
		(void)sched_yield();
	/* The server paused at its first message. Calls continue; no other message of the stream
	 * arrives. */
	for (int i = 0; i < 50; i++) {
		struct message *reply;
		weir_error err = {0};
		assert_int_equal(call(f.channel, RPC_STATUS, 10, 5000, &reply, &err), WEIR_OK);
		message_release(reply);
	}
	assert_int_equal(atomic_load(&f.node.service.messages), 1);
	atomic_store(&f.node.service.pause, false);
	on_loop(f.node.loop, resume_now, stream);
	probe_finish(&p);
	assert_int_equal(probe_wait_closed(&p), WEIR_OK);
	assert_int_equal(atomic_load(&f.node.service.messages), MESSAGES);
	fixture_close(&f);
}

static void server_stops_with_live_streams(void **state)
{
	(void)state;
	for (uint32_t grace = 0; grace <= 100; grace += 100) {
		struct fixture f;
		struct probe p[3];
		struct outcome parked = {0};
		fixture_open(&f, transport);
		for (int i = 0; i < 3; i++) {
			probe_open(&p[i], f.channel, f.loop, RPC_PUSH_STREAM, 0, small, SMALLS);
			probe_send(&p[i], 3);
			probe_wait_received(&p[i], 3);
		}
		assert_int_equal(rpc_call_start(f.channel, RPC_LEASE, pattern_message(1, 10), 5000, outcome_done, &parked), WEIR_OK);
		while (atomic_load(&f.node.service.requests) == 0)
			(void)sched_yield();
		host_stop(&f.node, grace);
		for (int i = 0; i < 3; i++) {
			assert_int_equal(probe_wait_closed(&p[i]), WEIR_E_UNAVAILABLE);
			assert_non_null(strstr(p[i].text, "PushStream"));
		}
		while (atomic_load(&parked.count) == 0)
			(void)sched_yield();
		assert_int_equal(atomic_load(&parked.status), WEIR_E_UNAVAILABLE);
		fixture_close(&f);
	}
}

static void grace_lets_calls_finish(void **state)
{
	(void)state;
	struct fixture f;
	struct outcome o = {0};
	fixture_open(&f, transport);
	assert_int_equal(rpc_call_start(f.channel, RPC_LEASE, pattern_message(1, 10), 5000, outcome_done, &o), WEIR_OK);
	while (atomic_load(&f.node.service.requests) == 0)
		(void)sched_yield();
	rpc_loop_after(f.node.loop, 50, (void (*)(void *))service_release, &f.node.service);
	host_stop(&f.node, 5000);
	while (atomic_load(&o.count) == 0)
		(void)sched_yield();
	assert_int_equal(atomic_load(&o.status), WEIR_OK);
	fixture_close(&f);
}

static void nobody_listens(void **state)
{
	(void)state;
	struct fixture f;
	struct rpc_channel *c;
	struct probe p;
	struct message *reply;
	weir_error err = {0};
	fixture_open(&f, transport);
	char address[WEIR_ADDRESS_BYTES_MAX];
	snprintf(address, sizeof address, "%s", rpc_server_address(f.node.server));
	host_stop(&f.node, 0);
	assert_int_equal(rpc_channel_open(&c, f.rpc, f.loop, address, &err), WEIR_OK);
	double before = seconds_now();
	assert_int_equal(call(c, RPC_STATUS, 10, 2000, &reply, &err), WEIR_E_UNAVAILABLE);
	assert_true(seconds_now() - before < 5);
	assert_non_null(strstr(err.text, address));
	assert_non_null(strstr(err.text, "Status"));
	probe_open(&p, c, f.loop, RPC_PUSH_STREAM, 0, small, SMALLS);
	assert_int_equal(probe_wait_closed(&p), WEIR_E_UNAVAILABLE);
	assert_non_null(strstr(p.text, address));
	rpc_channel_close(c);
	fixture_close(&f);
}

static void retry_finds_a_late_server(void **state)
{
	(void)state;
	struct fixture f;
	struct rpc_channel *c;
	struct outcome o = {0};
	weir_error err = {0};
	if (strstr(transport, "tcp"))
		skip(); /* the test needs the address before the bind */
	fixture_open(&f, transport);
	char address[WEIR_ADDRESS_BYTES_MAX];
	fixture_address(&f, address, sizeof address);
	f.addresses--;
	assert_int_equal(rpc_channel_open(&c, f.rpc, f.loop, address, &err), WEIR_OK);
	assert_int_equal(rpc_call_start(c, RPC_STATUS, pattern_message(1, 10), 5000, outcome_done, &o), WEIR_OK);
	struct host late;
	struct outcome other = {0}; /* when this call has failed, so has the first attempt */
	assert_int_equal(rpc_call_start(c, RPC_STATUS, pattern_message(1, 10), 50, outcome_done, &other), WEIR_OK);
	while (atomic_load(&other.count) == 0)
		(void)sched_yield();
	host_start(&f, &late);
	while (atomic_load(&o.count) == 0)
		(void)sched_yield();
	assert_int_equal(atomic_load(&o.status), WEIR_OK);
	rpc_channel_close(c);
	host_stop(&late, 0);
	fixture_close(&f);
}

static void five_servers_and_clients_closing_in_every_order(void **state)
{
	(void)state;
	enum { SERVERS = 5 };
	for (int order = 0; order < 3; order++) {
		struct fixture f;
		struct host nodes[SERVERS];
		struct rpc_channel *channels[SERVERS];
		struct probe p[SERVERS];
		weir_error err = {0};
		fixture_open(&f, transport);
		for (int i = 0; i < SERVERS; i++) {
			host_start(&f, &nodes[i]);
			assert_int_equal(rpc_channel_open(&channels[i], f.rpc, f.loop, rpc_server_address(nodes[i].server), &err), WEIR_OK);
			probe_open(&p[i], channels[i], f.loop, RPC_PUSH_STREAM, 10u * i, small, SMALLS);
			probe_send(&p[i], 20);
		}
		for (int i = 0; i < SERVERS; i++) {
			probe_wait_received(&p[i], 20);
			assert_int_equal(p[i].wrong, 0);
		}
		for (int i = 0; i < SERVERS; i++) {
			int k = order == 0 ? i : SERVERS - 1 - i;
			if (order == 2) {
				host_stop(&nodes[k], 0);
				assert_int_equal(probe_wait_closed(&p[k]), WEIR_E_UNAVAILABLE);
				rpc_channel_close(channels[k]);
			} else {
				rpc_channel_close(channels[k]);
				assert_int_equal(probe_wait_closed(&p[k]), WEIR_E_CANCELLED);
				host_stop(&nodes[k], 0);
			}
		}
		fixture_close(&f);
	}
}

static void rapid_open_and_close(void **state)
{
	(void)state;
	struct fixture f;
	weir_error err = {0};
	fixture_open(&f, transport);
	for (uint32_t i = 0; i < 200; i++) {
		struct rpc_channel *c;
		struct probe p;
		assert_int_equal(rpc_channel_open(&c, f.rpc, f.loop, rpc_server_address(f.node.server), &err), WEIR_OK);
		probe_open(&p, c, f.loop, RPC_PUSH_STREAM, i, small, SMALLS);
		if (i % 3 == 0)
			probe_send(&p, 4);
		if (i % 6 == 0)
			probe_wait_received(&p, 4);
		rpc_channel_close(c);
		assert_int_equal(probe_wait_closed(&p), WEIR_E_CANCELLED);
	}
	fixture_close(&f);
}

static void address_in_use(void **state)
{
	(void)state;
	struct fixture f;
	struct rpc_server *s;
	struct rpc_service none = {0};
	weir_error err = {0};
	fixture_open(&f, transport);
	const char *address = rpc_server_address(f.node.server);
	assert_int_equal(rpc_server_start(&s, f.rpc, address, &f.loop, 1, &none, NULL, &err), WEIR_E_EXISTS);
	assert_non_null(strstr(err.text, address));
	assert_null(s);
	struct message *reply;
	/* the first server still runs */
	assert_int_equal(call(f.channel, RPC_STATUS, 10, 5000, &reply, &err), WEIR_OK);
	message_release(reply);
	fixture_close(&f);
}

struct order {
	uint32_t next, wrong;
	atomic_uint done;
};
struct numbered {
	struct order *order;
	uint32_t number;
};
static void run_numbered(void *arg)
{
	struct numbered *n = arg;
	n->order->wrong += n->number != n->order->next++;
	atomic_fetch_add(&n->order->done, 1);
}

static void loop_posts_and_timers(void **state)
{
	(void)state;
	enum { POSTS = 10000 };
	struct fixture f;
	struct order order = {0}, timed = {0};
	struct numbered *n = calloc(POSTS, sizeof *n);
	struct numbered t[3] = {{&timed, 2}, {&timed, 0}, {&timed, 1}};
	fixture_open(&f, transport);
	assert_false(rpc_loop_is_current(f.loop));
	for (uint32_t i = 0; i < POSTS; i++) {
		n[i] = (struct numbered){&order, i};
		rpc_loop_post(f.loop, run_numbered, &n[i]);
	}
	double before = seconds_now();
	rpc_loop_after(f.loop, 60, run_numbered, &t[0]);
	rpc_loop_after(f.loop, 1, run_numbered, &t[1]);
	rpc_loop_after(f.loop, 30, run_numbered, &t[2]);
	rpc_loop_after(f.loop, 3600000, run_numbered, &t[0]); /* destroyed with the loop */
	while (atomic_load(&order.done) < POSTS || atomic_load(&timed.done) < 3)
		(void)sched_yield();
	assert_true(seconds_now() - before >= 0.059);
	assert_int_equal(order.wrong, 0);
	assert_int_equal(timed.wrong, 0);
	fixture_close(&f);
	free(n);
}

/* --- Out of memory: our allocations fail one at a time (the linker's --wrap); gRPC's do not. */

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);

static atomic_int mallocs_left, callocs_left; /* the allocation that reaches 0 fails */

void *__wrap_malloc(size_t bytes)
{
	return atomic_fetch_sub(&mallocs_left, 1) == 1 ? NULL : __real_malloc(bytes);
}
void *__wrap_calloc(size_t count, size_t bytes)
{
	return atomic_fetch_sub(&callocs_left, 1) == 1 ? NULL : __real_calloc(count, bytes);
}

/* For each failed allocation, the call ends with E_MEMORY or is retried, and the next call
 * succeeds. */
static void unary_when_memory_runs_out(void **state)
{
	(void)state;
	enum { EACH = 12 };
	struct fixture f;
	uint32_t refused = 0;
	fixture_open(&f, transport);
	for (uint32_t i = 0; i < 2 * EACH; i++) {
		struct message *reply;
		weir_error err = {0};
		atomic_store(i < EACH ? &mallocs_left : &callocs_left, (int)(i % EACH) + 1);
		weir_status status = call(f.channel, RPC_STATUS, 100, 5000, &reply, &err);
		atomic_store(i < EACH ? &mallocs_left : &callocs_left, 0);
		assert_true(status == WEIR_OK || status == WEIR_E_MEMORY);
		refused += status == WEIR_E_MEMORY;
		assert_true(status == WEIR_OK ? pattern_is(reply, 100, 100) : err.text[0] != '\0');
		message_release(reply);
		assert_int_equal(call(f.channel, RPC_STATUS, 100, 5000, &reply, &err), WEIR_OK);
		message_release(reply);
	}
	assert_true(refused >= 3);
	fixture_close(&f);
}

static void send_if_open(void *arg)
{
	struct probe *p = arg;
	if (!p->closed)
		(void)rpc_stream_send(p->stream, pattern_message(p->seed, p->sizes[0]));
}

static void cancel_if_open(void *arg)
{
	struct probe *p = arg;
	if (!p->closed)
		rpc_stream_cancel(p->stream, WEIR_E_CANCELLED, "enough");
}

static void stream_when_memory_runs_out(void **state)
{
	(void)state;
	static const struct rpc_stream_handler unused = {0};
	struct fixture f;
	struct rpc_stream *stream;
	struct probe p;
	weir_error err = {0};
	uint32_t failed = 0;
	fixture_open(&f, transport);
	atomic_store(&callocs_left, 1);
	assert_int_equal(rpc_stream_open(&stream, f.channel, RPC_PUSH_STREAM, &unused, NULL, &err), WEIR_E_MEMORY);
	/* both ends are one allocation in memory; over gRPC the question for a lane comes first */
	for (int left = 7; left >= 2 && strcmp(f.transport, "memory") != 0; left--) {
		atomic_store(&callocs_left, left);
		probe_open(&p, f.channel, f.loop, RPC_PUSH_STREAM, 0, small, SMALLS);
		on_loop(f.loop, send_if_open, &p);
		probe_wait_received(&p, 1);
		atomic_store(&callocs_left, 0);
		on_loop(f.loop, cancel_if_open, &p);
		const weir_status status = probe_wait_closed(&p);
		assert_true(status == WEIR_E_UNAVAILABLE || (status == WEIR_E_CANCELLED && p.received == 1));
		failed += status == WEIR_E_UNAVAILABLE;
	}
	assert_true(failed || strcmp(f.transport, "memory") == 0 || strstr(transport, "lane"));
	probe_open(&p, f.channel, f.loop, RPC_PUSH_STREAM, 0, small, SMALLS);
	probe_send(&p, 3);
	probe_wait_received(&p, 3);
	assert_int_equal(p.received, 3);
	probe_finish(&p);
	assert_int_equal(probe_wait_closed(&p), WEIR_OK);
	fixture_close(&f);
}

int conformance_run(const char *name)
{
	transport = name;
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(loop_posts_and_timers),
	    cmocka_unit_test(unary_echo),
	    cmocka_unit_test(status_travels),
	    cmocka_unit_test(a_server_cancels),
	    cmocka_unit_test(too_large),
	    cmocka_unit_test(deadline),
	    cmocka_unit_test(close_cancels_calls),
	    cmocka_unit_test(close_waits_for_what_begins),
	    cmocka_unit_test(stream_echo_of_all_sizes),
	    cmocka_unit_test(thousand_messages_interleaved),
	    cmocka_unit_test(finish_sends_what_is_queued),
	    cmocka_unit_test(streams_of_several_methods),
	    cmocka_unit_test(stream_not_offered),
	    cmocka_unit_test(client_cancels),
	    cmocka_unit_test(cancelled_before_it_began),
	    cmocka_unit_test(pause_stops_the_sender),
	    cmocka_unit_test(server_stops_with_live_streams),
	    cmocka_unit_test(grace_lets_calls_finish),
	    cmocka_unit_test(nobody_listens),
	    cmocka_unit_test(retry_finds_a_late_server),
	    cmocka_unit_test(five_servers_and_clients_closing_in_every_order),
	    cmocka_unit_test(rapid_open_and_close),
	    cmocka_unit_test(address_in_use),
	    cmocka_unit_test(unary_when_memory_runs_out),
	    cmocka_unit_test(stream_when_memory_runs_out),
	};
	return cmocka_run_group_tests_name(transport, tests, NULL, NULL);
}
