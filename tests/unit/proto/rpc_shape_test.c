/* A slow network: bookings in the buckets to the nanosecond, then messages over both transports.
 * They never exceed the rate or beat the latency, and they reach them within bounds that hold on a
 * busy machine. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/limits.h"
#include "proto/rpc/rpc_shape.h"
#include "tests/unit/proto/rpc_fixture.h"

#define MB_S 1000000ull /* megabits a second, in bits */
#define MS   1000000ll

/* --- Arithmetic */

static void wire_bytes(void **state)
{
	(void)state;
	assert_int_equal(shape_wire_bytes(0), 5 + 9 + 90);
	assert_int_equal(shape_wire_bytes(100), 100 + 5 + 9 + 90);
	assert_int_equal(shape_wire_bytes(1448 - 14), 1448 + 90); /* one full packet */
	assert_int_equal(shape_wire_bytes(1448 - 13), 1449 + 2 * 90);
	assert_int_equal(shape_wire_bytes(1 << 20), (1 << 20) + 5 + 65 * 9 + 725 * 90);
}

static void turns(void **state)
{
	(void)state;
	struct shape_bucket b = {0};
	assert_int_equal(shape_span_ns(100 * MB_S, 1538), 123040);
	assert_int_equal(shape_span_ns(3, 1), 2666666667ll);
	assert_int_equal(shape_span_ns(0, 1000000), 0);
	assert_int_equal(shape_book(&b, 100 * MB_S, 1250, 1 * MS), 1 * MS + 100000);
	assert_int_equal(shape_book(&b, 100 * MB_S, 1250, 0), 1 * MS + 200000); /* queued behind it */
	assert_int_equal(shape_book(&b, 100 * MB_S, 1250, 9 * MS), 9 * MS + 100000);
	assert_int_equal(b.free_ns, 9 * MS + 100000);
	assert_int_equal(shape_book(&b, 0, 1250, 5 * MS), 5 * MS); /* no rate: no wait */
	assert_int_equal(b.free_ns, 9 * MS + 100000);
}

static void pieces(void **state)
{
	(void)state;
	assert_int_equal(shape_piece_bytes(100 * MB_S), 50000);
	assert_int_equal(shape_piece_bytes(100000), 1538);
	assert_int_equal(shape_piece_bytes(10000 * MB_S), 65536);
	assert_int_equal(shape_piece_bytes(0), 65536);
}

/* --- Machines: a server, and clients with a network card each */

enum { CLIENTS = 3 };
struct machines {
	struct fixture f; /* only its rpc and addresses are in use */
	struct host server;
	struct rpc_loop *loops[CLIENTS];
	struct rpc_channel *channels[CLIENTS];
};

static void machines_start(struct machines *m, const char *transport, struct rpc_network network)
{
	weir_error err = {0};
	*m = (struct machines){.f = {.transport = transport, .rpc = fixture_rpc(transport), .directory = "/tmp/weir-shape-XXXXXX"}};
	assert_non_null(mkdtemp(m->f.directory));
	assert_int_equal(rpc_shape(m->f.rpc, &network), WEIR_OK);
	host_start(&m->f, &m->server);
	for (int i = 0; i < CLIENTS; i++) {
		assert_int_equal(rpc_shape(m->f.rpc, &network), WEIR_OK);
		m->loops[i] = rpc_loop_create(m->f.rpc, "client", &err);
		assert_non_null(m->loops[i]);
		assert_int_equal(rpc_channel_open(&m->channels[i], m->f.rpc, m->loops[i], rpc_server_address(m->server.server), &err),
		                 WEIR_OK);
	}
}

static void machines_stop(struct machines *m)
{
	for (int i = 0; i < CLIENTS; i++)
		rpc_channel_close(m->channels[i]);
	host_stop(&m->server, 0);
	for (int i = 0; i < CLIENTS; i++)
		rpc_loop_destroy(m->loops[i]);
	rpc_destroy(m->f.rpc);
	assert_int_equal(rmdir(m->f.directory), 0);
}

static void ask(struct rpc_channel *channel, size_t bytes)
{
	struct message *reply;
	weir_error err = {0};
	if (rpc_call_wait(channel, RPC_STATUS, pattern_message(1, bytes), 60000, &reply, &err))
		fail_msg("%s", err.text);
	assert_true(pattern_is(reply, 1, bytes));
	message_release(reply);
}

/* Sends `messages` of `bytes` on each of `streams` echoing streams, one per client. Returns the
 * seconds until all echoes are back. */
static double echo(struct machines *m, uint32_t streams, uint32_t messages, size_t bytes)
{
	struct probe probes[CLIENTS];
	for (uint32_t i = 0; i < streams; i++) {
		ask(m->channels[i], 1); /* connected */
		probe_open(&probes[i], m->channels[i], m->loops[i], RPC_PUSH_STREAM, i, &bytes, 1);
		probe_send(&probes[i], 1);
		probe_wait_received(&probes[i], 1);
	}
	const double before = seconds_now();
	for (uint32_t i = 0; i < streams; i++) {
		probes[i].received = 0;
		probe_send(&probes[i], messages);
	}
	for (uint32_t i = 0; i < streams; i++)
		probe_wait_received(&probes[i], messages);
	const double seconds = seconds_now() - before;
	for (uint32_t i = 0; i < streams; i++) {
		assert_int_equal(probes[i].received, messages);
		assert_int_equal(probes[i].wrong, 0);
		probe_finish(&probes[i]);
		assert_int_equal(probe_wait_closed(&probes[i]), WEIR_OK);
	}
	return seconds;
}

static double wire_seconds(uint64_t rate, uint32_t messages, size_t bytes)
{
	return (double)messages * (double)shape_wire_bytes(bytes) * 8 / (double)rate;
}

#define BURST_S 0.005 /* the early bytes at the few points that a message passes */

static double echo_without_limit(const char *transport, uint32_t messages, size_t bytes)
{
	struct machines m;
	machines_start(&m, transport, (struct rpc_network){0});
	const double taken = echo(&m, 1, messages, bytes);
	machines_stop(&m);
	return taken;
}

/* Both directions at once: a full-duplex card echoes at its rate. */
static void check_rate(const char *transport, uint64_t rate, uint32_t messages, size_t bytes, bool is_slow)
{
	struct machines m;
	machines_start(&m, transport, (struct rpc_network){.rate_bits_per_s = rate});
	const double least = wire_seconds(rate, messages, bytes), taken = echo(&m, 1, messages, bytes);
	printf("[          ] %s, %u messages of %zu bytes: %.3f s, at least %.3f s\n", transport, messages, bytes, taken, least);
	assert_true(taken >= least - BURST_S);
	machines_stop(&m);
	if (is_slow) /* a slow rate dominates the time: sanitizers and a busy machine add little */
		assert_true(taken < 2 * least + 2 || taken < 2 * least + 4 * echo_without_limit(transport, messages, bytes));
}

static void rate_memory(void **state)
{
	(void)state;
	check_rate("memory", 100 * MB_S, 20, 100000, true);
	check_rate("memory", 100 * MB_S, 1000, 1000, true);
	check_rate("memory", 10000 * MB_S, 20, 2000000, false);
}

static void rate_grpc(void **state)
{
	(void)state;
	check_rate("unix", 100 * MB_S, 120, 100000, true);
	check_rate("unix", 1000 * MB_S, 30, 1 << 20, false);
}

static void senders_share_the_receiver(void **state)
{
	(void)state;
	struct machines m;
	machines_start(&m, "memory", (struct rpc_network){.rate_bits_per_s = 100 * MB_S});
	const double taken = echo(&m, CLIENTS, 10, 100000), all = wire_seconds(100 * MB_S, CLIENTS * 10, 100000);
	assert_true(taken >= all - BURST_S); /* each alone needs a third of it */
	machines_stop(&m);
}

static void unary_calls_count(void **state)
{
	(void)state;
	struct machines m;
	machines_start(&m, "memory", (struct rpc_network){.rate_bits_per_s = 100 * MB_S});
	const double before = seconds_now();
	for (int i = 0; i < 3; i++)
		ask(m.channels[0], 500000); /* there and back, one at a time */
	assert_true(seconds_now() - before >= wire_seconds(100 * MB_S, 6, 500000) - 6 * BURST_S);
	machines_stop(&m);
}

static void check_latency(const char *transport)
{
	struct machines m;
	machines_start(&m, transport, (struct rpc_network){.latency_ms = 20});
	ask(m.channels[0], 10);
	const double before = seconds_now();
	ask(m.channels[0], 10);
	assert_true(seconds_now() - before >= 0.040);
	/* A hundred messages are in flight at once; one at a time would take 4 s. */
	const double taken = echo(&m, 1, 100, 1000);
	assert_true(taken >= 0.040);
	assert_true(taken < 2);
	machines_stop(&m);
}

static void messages_take_the_latency_of_the_network(void **state)
{
	(void)state;
	check_latency("memory");
	check_latency("unix");
}

/* A small message overtakes bulk on other streams: it waits for one piece of each stream. */
static void small_ones_pass(void **state)
{
	(void)state;
	struct machines m;
	struct probe bulk, beat;
	const size_t much = 4 << 20, little = 50;
	machines_start(&m, "memory", (struct rpc_network){.rate_bits_per_s = 100 * MB_S});
	ask(m.channels[0], 1);
	probe_open(&bulk, m.channels[0], m.loops[0], RPC_PUSH_STREAM, 1, &much, 1);
	probe_open(&beat, m.channels[0], m.loops[0], RPC_HEARTBEAT, 1, &little, 1);
	probe_send(&bulk, 3); /* a second of traffic */
	for (uint32_t i = 1; i <= 3; i++) {
		beat.received = 0;
		probe_send(&beat, 1);
		probe_wait_received(&beat, 1);
	}
	pthread_mutex_lock(&bulk.lock);
	assert_int_equal(bulk.received, 0); /* the first echo takes two thirds of a second */
	pthread_mutex_unlock(&bulk.lock);
	probe_wait_received(&bulk, 3);
	assert_int_equal(bulk.wrong, 0);
	probe_finish(&beat);
	probe_finish(&bulk);
	assert_int_equal(probe_wait_closed(&beat), WEIR_OK);
	assert_int_equal(probe_wait_closed(&bulk), WEIR_OK);
	machines_stop(&m);
}

struct look {
	struct rpc_stream *stream;
	size_t queued;
};
static void look_now(void *arg)
{
	struct look *l = arg;
	l->queued = rpc_stream_queued(l->stream);
}
static void resume_now(void *arg)
{
	struct service *s = arg;
	atomic_store(&s->pause, false);
	rpc_stream_resume(atomic_load(&s->paused));
}

/* A receiver that pauses stops its sender, whatever the network's rate. */
static void a_receiver_that_pauses(void **state)
{
	(void)state;
	enum { SENT = 64 };
	struct machines m;
	struct probe p;
	const size_t bytes = 1000;
	machines_start(&m, "memory", (struct rpc_network){.rate_bits_per_s = 10 * MB_S, .latency_ms = 1});
	atomic_store(&m.server.service.pause, true);
	probe_open(&p, m.channels[0], m.loops[0], RPC_PULL_STREAM, 1, &bytes, 1);
	probe_send(&p, SENT);
	for (int i = 0; i < 50 || !atomic_load(&m.server.service.paused); i++)
		ask(m.channels[0], 10); /* at least 2 ms */
	struct look l = {.stream = p.stream};
	on_loop(m.loops[0], look_now, &l);
	assert_int_equal(atomic_load(&m.server.service.messages), 1);
	assert_true(l.queued >= SENT / 2);
	on_loop(m.server.loop, resume_now, &m.server.service);
	while (atomic_load(&m.server.service.messages) < SENT)
		ask(m.channels[0], 10);
	probe_finish(&p);
	assert_int_equal(probe_wait_closed(&p), WEIR_OK);
	machines_stop(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(wire_bytes),
	    cmocka_unit_test(turns),
	    cmocka_unit_test(pieces),
	    cmocka_unit_test(rate_memory),
	    cmocka_unit_test(rate_grpc),
	    cmocka_unit_test(senders_share_the_receiver),
	    cmocka_unit_test(unary_calls_count),
	    cmocka_unit_test(messages_take_the_latency_of_the_network),
	    cmocka_unit_test(small_ones_pass),
	    cmocka_unit_test(a_receiver_that_pauses),
	};
	return cmocka_run_group_tests_name("rpc_shape", tests, NULL, NULL);
}
