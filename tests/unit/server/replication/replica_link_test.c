/* Links between servers that replicate. Every entry of the primary reaches every follower, byte for
 * byte, despite cut streams. A server refuses invalid frames. A sender respects its receiver's
 * credit. test_replica_link memory|unix. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "proto/wire/wire.h"
#include "tests/cmocka_check.h"
#include "tests/rounds.h"
#include "tests/unit/proto/pieces.h"
#include "tests/unit/proto/rpc_fixture.h"
#include "tests/unit/server/replica/replica_node.h"
#include "tests/unit/server/replication/replica_frames.h"

static const char *transport;

/* --- Load, and comparison of logs */

struct load {
	struct node *node;
	uint16_t partition;
	uint32_t count;
	size_t bytes; /* of each entry; 0: various sizes */
};

static void append_now(void *arg)
{
	static const size_t sizes[] = {24, 0, 700, 4096, 65536, 300000, 17};
	const struct load *l = arg;
	const struct log *log = l->node->replicas[l->partition].log;
	for (uint32_t i = 0; i < l->count; i++) {
		float rates[REPLICA_FRAMES_RATES];
		const uint64_t index = log->ops->last(log) + 1;
		const size_t bytes = l->bytes ? l->bytes : sizes[index % (sizeof sizes / sizeof *sizes)];
		struct log_entry e = replica_frames_entry(index, 1, bytes, rates);
		node_append(l->node, l->partition, &e);
	}
}

/* Appends `count` entries to every partition. */
static void append_all(struct node_world *w, uint32_t count, size_t bytes)
{
	for (uint16_t p = 0; p < NODE_PARTITIONS; p++) {
		struct load l = {&w->nodes[0], p, count, bytes};
		on_loop(w->nodes[0].home, append_now, &l);
	}
}

static uint64_t last_of(struct node_world *w, uint16_t partition)
{
	const struct log *log = w->nodes[0].replicas[partition].log;
	return log->ops->last(log);
}

static void wait_all(struct node_world *w)
{
	for (uint16_t p = 0; p < NODE_PARTITIONS; p++)
		world_wait_commit(w, p, last_of(w, p));
}

static uint8_t *body_of(const struct log_entry *e)
{
	struct cursor c = e->body;
	uint8_t *bytes = malloc(c.left + 1);
	assert_int_equal(cursor_read(&c, bytes, e->body.left), WEIR_OK);
	return bytes;
}

static void assert_entry(const struct log_entry *a, const struct log_entry *b)
{
	assert_non_null(a);
	assert_non_null(b);
	assert_int_equal(a->epoch, b->epoch);
	assert_int_equal(a->index, b->index);
	assert_int_equal(a->committed, b->committed);
	assert_int_equal(a->generation, b->generation);
	assert_int_equal(a->stamp_ms, b->stamp_ms);
	assert_int_equal(a->finding, b->finding);
	assert_int_equal(a->rates_count, b->rates_count);
	if (a->rates_count)
		assert_memory_equal(a->rates, b->rates, a->rates_count * sizeof *a->rates);
	assert_memory_equal(&a->record, &b->record, sizeof a->record);
	assert_int_equal(a->body.left, b->body.left);
	uint8_t *x = body_of(a), *y = body_of(b);
	assert_memory_equal(x, y, a->body.left);
	free(x);
	free(y);
}

/* Call when no appends are in progress. */
static void assert_logs_equal(struct node_world *w)
{
	for (uint32_t p = 0; p < NODE_PARTITIONS; p++)
		for (uint32_t i = 1; i < NODES; i++) {
			struct log *a = w->nodes[0].replicas[p].log, *b = w->nodes[i].replicas[p].log;
			assert_int_equal(a->ops->last(a), b->ops->last(b));
			for (uint64_t index = 1; index <= a->ops->last(a); index++)
				assert_entry(a->ops->get(a, index), b->ops->get(b, index));
		}
}

struct asked {
	struct node *node;
	uint16_t server;
	struct replica_links_stats stats;
	bool room;
	uint32_t rooms, received;
};

static void ask_now(void *arg)
{
	struct asked *a = arg;
	a->stats = replica_links_get_stats(a->node->links, a->server);
	a->room = replica_links_has_room(a->node->links, a->server);
	a->rooms = a->node->rooms;
	a->received = a->node->received;
}

static struct asked ask(struct node *n, uint16_t server)
{
	struct asked a = {.node = n, .server = server};
	on_loop(n->home, ask_now, &a);
	return a;
}

static void begin(struct node_world *w, bool doors)
{
	world_open(w, transport, doors, 7);
	world_wait_serving(w);
}

/* --- Entries arrive */

static void entries_arrive_at_both_followers(void **state)
{
	(void)state;
	for (int doors = 0; doors < 2; doors++) {
		static struct node_world w;
		begin(&w, doors);
		const uint32_t times = rounds(4), each = 30;
		for (uint32_t i = 0; i < times; i++)
			append_all(&w, each, 0);
		append_all(&w, 1, WEIR_ENTRY_BYTES_MAX - 256); /* only just fits a frame */
		wait_all(&w);
		for (uint16_t i = 1; i < NODES; i++) {
			const struct asked a = ask(&w.nodes[0], i);
			assert_int_equal(a.stats.connects, 1);
			assert_true(a.stats.entries >= NODE_PARTITIONS * (times * each + 2));
			assert_true(a.stats.frames < a.stats.entries); /* entries share frames */
		}
		assert_logs_equal(&w);
		world_close(&w);
	}
}

static void cut_now(void *arg)
{
	struct node *n = arg;
	for (uint32_t i = 0; i < n->streams_count; i++)
		rpc_stream_cancel(n->streams[i], WEIR_E_UNAVAILABLE, "cut");
	n->streams_count = 0;
}

static void entries_survive_streams_that_are_cut(void **state)
{
	(void)state;
	static struct node_world w;
	enum { CUTS = 6 };
	begin(&w, true);
	for (uint32_t round = 0; round < CUTS; round++) {
		append_all(&w, 20, 0);
		on_loop(w.nodes[round % NODES].door, cut_now, &w.nodes[round % NODES]);
	}
	wait_all(&w);
	const uint64_t connects = ask(&w.nodes[0], 1).stats.connects + ask(&w.nodes[0], 2).stats.connects;
	assert_true(connects > 2);
	assert_logs_equal(&w);
	world_close(&w);
}

static void set_faults(void *arg)
{
	struct node *n = arg;
	n->twice = true;
	n->lose_each = 7;
}

static void entries_survive_messages_lost_and_repeated(void **state)
{
	(void)state;
	static struct node_world w;
	begin(&w, true);
	for (uint32_t i = 0; i < NODES; i++)
		on_loop(w.nodes[i].home, set_faults, &w.nodes[i]);
	for (uint32_t i = 0; i < 2 + rounds(8); i++)
		append_all(&w, 10, 0);
	wait_all(&w);
	assert_logs_equal(&w);
	world_close(&w);
}

/* --- A follower that stops reading */

struct gate {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool open;
};

static void stand_at(void *arg)
{
	struct gate *g = arg;
	pthread_mutex_lock(&g->lock);
	while (!g->open)
		pthread_cond_wait(&g->changed, &g->lock);
	pthread_mutex_unlock(&g->lock);
}

static void gate_open(struct gate *g)
{
	pthread_mutex_lock(&g->lock);
	g->open = true;
	pthread_cond_broadcast(&g->changed);
	pthread_mutex_unlock(&g->lock);
}

static void a_slow_follower_is_not_sent_more_than_it_takes(void **state)
{
	(void)state;
	static struct node_world w;
	struct gate gate = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false};
	/* `all` is four times the credit. */
	const size_t entry = 256 << 10, each = 64, all = NODE_PARTITIONS * each * entry;
	assert_true(all >= 4 * WEIR_REPLICA_CREDIT_BYTES);
	begin(&w, true);
	rpc_loop_post(w.nodes[2].home, stand_at, &gate);
	append_all(&w, each, entry);
	for (uint16_t p = 0; p < NODE_PARTITIONS; p++)
		node_wait_stored(&w.nodes[1], p, last_of(&w, p)); /* the other follower has everything */
	struct asked slow;
	do
		slow = ask(&w.nodes[0], 2);
	while (slow.stats.bytes < WEIR_REPLICA_CREDIT_BYTES || slow.room);
	assert_true(slow.stats.bytes < all / 2); /* the credit, and what the transport buffers */
	assert_int_equal(w.nodes[2].stored[0], 1);
	gate_open(&gate);
	wait_all(&w);
	/* The callback follows the last frame, so it may come after the entries arrived. */
	while (ask(&w.nodes[0], 2).rooms == 0)
		;
	assert_logs_equal(&w);
	world_close(&w);
}

/* --- Servers that come and go */

static void a_server_that_comes_late_is_found(void **state)
{
	(void)state;
	static struct node_world w;
	world_open(&w, transport, false, 1 << 0 | 1 << 1);
	node_wait_stored(&w.nodes[1], 0, 1); /* the primary has begun and waits for all followers */
	assert_false(ask(&w.nodes[0], 2).room);
	node_start(&w.nodes[2]);
	world_wait_serving(&w);
	append_all(&w, 10, 0);
	wait_all(&w);
	assert_logs_equal(&w);
	world_close(&w);
}

static void a_server_that_moves_is_found(void **state)
{
	(void)state;
	static struct node_world w;
	begin(&w, false);
	append_all(&w, 10, 0);
	for (uint32_t i = 0; i < 3; i++) {
		node_stop_server(&w.nodes[1]);
		append_all(&w, 10, 0);
		node_start(&w.nodes[1]); /* at another address */
		wait_all(&w);
	}
	assert_logs_equal(&w);
	world_close(&w);
}

/* The former process is paused: it keeps its sockets, does not read them, and ends no stream. */
static void a_server_that_moves_from_one_that_stands_still_is_found(void **state)
{
	(void)state;
	static struct node_world w;
	struct node *n = &w.nodes[1];
	struct gate gate = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false};
	begin(&w, true);
	rpc_loop_post(n->door, stand_at, &gate);
	append_all(&w, 16, 256 << 10);
	while (ask(&w.nodes[0], 1).room)
		(void)sched_yield();
	struct rpc_server *former = n->server;
	struct rpc_loop *door = n->door;
	n->door = n->home;
	node_start(n); /* at another address */
	wait_all(&w);
	assert_logs_equal(&w);
	gate_open(&gate);
	rpc_server_stop(former, 0);
	n->door = door;
	n->streams_count = 0;
	world_close(&w);
}

/* --- Messages that replace each other */

static struct replica_message from_2_to_1(enum replica_message_kind kind, uint64_t last)
{
	return (struct replica_message){
	    .kind = kind, .from = 2, .to = 1, .epoch = kind == REPLICA_JOIN ? 0 : 5, .incarnation = 9, .last = last};
}

static void acknowledge_often(void *arg)
{
	struct replica_message m = from_2_to_1(REPLICA_ACK, 0);
	for (m.last = 1; m.last < 1000; m.last++)
		replica_links_send(arg, 3, &m);
	m.gap = true;
	replica_links_send(arg, 3, &m);
	m.gap = false;
	m.durable = 7;
	replica_links_send(arg, 3, &m); /* about the same end of the log, so the gap remains */
	m = from_2_to_1(REPLICA_JOIN, 0);
	replica_links_send(arg, 3, &m);
}

/* Of a thousand acknowledgements in one turn, only the newest is sent. */
static void acknowledgements_take_each_others_place(void **state)
{
	(void)state;
	static struct node_world w;
	struct replica_links *links;
	weir_error err = {0};
	world_open(&w, transport, true, 1 << 1);
	struct replica_links_options o = {.rpc = w.rpc,
	                                  .loop = w.nodes[2].home,
	                                  .generation = NODE_GENERATION,
	                                  .self = 2,
	                                  .servers = NODES,
	                                  .partitions = NODE_PARTITIONS,
	                                  .arg = &w.nodes[2],
	                                  .address = node_address};
	memcpy(o.uuid, node_uuid, sizeof node_uuid);
	CHECK_OK(replica_links_create(&links, &o, &err), err);
	on_loop(w.nodes[2].home, acknowledge_often, links);
	while (ask(&w.nodes[1], 0).received < 2)
		(void)sched_yield();
	assert_int_equal(ask(&w.nodes[1], 0).received, 2);
	assert_int_equal(w.nodes[1].last.kind, REPLICA_ACK);
	assert_int_equal(w.nodes[1].last.last, 1000);
	assert_int_equal(w.nodes[1].last.durable, 7);
	assert_true(w.nodes[1].last.gap);
	replica_links_destroy(links);
	world_close(&w);
}

/* --- Refusals */

/* A client that opens a link by hand. */
struct hand {
	struct rpc_channel *channel;
	struct rpc_stream *stream;
	struct rpc_loop *loop;
	struct message *frame; /* to send */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool closed;
	weir_status status;
	char text[WEIR_ERROR_TEXT_BYTES];
};

static void hand_message(void *arg, struct rpc_stream *stream, struct message *m)
{
	(void)arg, (void)stream, (void)m;
	fail_msg("a link has answered");
}

static void hand_closed(void *arg, struct rpc_stream *stream, weir_status status, const char *text)
{
	struct hand *h = arg;
	(void)stream;
	pthread_mutex_lock(&h->lock);
	h->closed = true;
	h->status = status;
	snprintf(h->text, sizeof h->text, "%s", text);
	pthread_cond_signal(&h->changed);
	pthread_mutex_unlock(&h->lock);
}

static void hand_send(void *arg)
{
	struct hand *h = arg;
	(void)rpc_stream_send(h->stream, h->frame);
}

static struct message *frame_of(const struct replica_message *list, uint32_t count, uint16_t partition, const uint8_t *uuid,
                                uint64_t generation)
{
	struct record_writer *w = record_writer_create();
	for (uint32_t i = 0; i < count; i++)
		assert_int_equal(replica_wire_put(w, partition, &list[i]), WEIR_OK);
	struct message *m = wire_wrap_frame(record_writer_finish(w, uuid, generation, NULL, NULL));
	assert_non_null(m);
	record_writer_destroy(w);
	return m;
}

/* Sends a frame to node 1 and checks that it ends the stream. */
static void refused(struct node_world *w, struct message *frame, weir_status status, const char *why)
{
	static const struct rpc_stream_handler handler = {.message = hand_message, .closed = hand_closed};
	struct hand h = {.loop = w->nodes[0].home, .frame = frame};
	weir_error err = {0};
	pthread_mutex_init(&h.lock, NULL);
	pthread_cond_init(&h.changed, NULL);
	CHECK_OK(rpc_channel_open(&h.channel, w->rpc, h.loop, w->nodes[1].address, &err), err);
	CHECK_OK(rpc_stream_open(&h.stream, h.channel, RPC_LINK, &handler, &h, &err), err);
	on_loop(h.loop, hand_send, &h);
	pthread_mutex_lock(&h.lock);
	while (!h.closed)
		pthread_cond_wait(&h.changed, &h.lock);
	pthread_mutex_unlock(&h.lock);
	rpc_channel_close(h.channel);
	if (h.status != status || !strstr(h.text, why))
		fail_msg("%s \"%s\", expected %s \"%s\"", weir_status_name(h.status), h.text, weir_status_name(status), why);
	pthread_mutex_destroy(&h.lock);
	pthread_cond_destroy(&h.changed);
}

static struct message *frame_of_a_client(void)
{
	struct record_writer *w = record_writer_create();
	record_writer_begin(w, &(struct record){.kind = RECORD_SEAL});
	assert_int_equal(record_writer_end(w), WEIR_OK);
	struct message *m = wire_wrap_frame(record_writer_finish(w, node_uuid, NODE_GENERATION, NULL, NULL));
	record_writer_destroy(w);
	return m;
}

/* Returns a frame with byte `at` changed. */
static struct message *spoiled(size_t at)
{
	const struct replica_message m = from_2_to_1(REPLICA_JOIN, 0);
	struct message *frame = frame_of(&m, 1, 0, node_uuid, NODE_GENERATION);
	uint8_t *bytes = pieces_join(frame);
	bytes[frame->bytes - at] ^= 1;
	struct message *out = message_copy(bytes, frame->bytes);
	free(bytes);
	message_release(frame);
	return out;
}

static void a_stream_that_is_none_of_a_replicas_is_ended(void **state)
{
	(void)state;
	static struct node_world w;
	static const uint8_t other[16] = "another job";
	struct replica_message two[2] = {from_2_to_1(REPLICA_JOIN, 0), from_2_to_1(REPLICA_JOIN, 0)};
	world_open(&w, transport, true, 1 << 1);
	refused(&w, frame_of(two, 1, 0, other, NODE_GENERATION), WEIR_E_GENERATION, "another job");
	refused(&w, frame_of(two, 1, 0, node_uuid, NODE_GENERATION - 1), WEIR_E_GENERATION, "generation 6");
	refused(&w, frame_of(two, 1, NODE_PARTITIONS, node_uuid, NODE_GENERATION), WEIR_E_INVALID, "partition 4: the job has 4");
	refused(&w, frame_of_a_client(), WEIR_E_INVALID, "not for replicas");
	refused(&w, spoiled(47), WEIR_E_CORRUPT, "checksum");
	refused(&w, message_copy("nothing", 7), WEIR_E_CORRUPT, "weir.v1.Data");
	two[0].to = two[1].to = 0;
	refused(&w, frame_of(two, 1, 0, node_uuid, NODE_GENERATION), WEIR_E_INVALID, "this is server 1 of 3");
	two[0].to = two[1].to = 1;
	two[0].from = 3;
	refused(&w, frame_of(two, 1, 0, node_uuid, NODE_GENERATION), WEIR_E_INVALID, "from server 3");
	assert_int_equal(ask(&w.nodes[1], 0).received, 0);
	two[0].from = 0; /* now the stream belongs to server 0, and the first message is valid */
	refused(&w, frame_of(two, 2, 0, node_uuid, NODE_GENERATION), WEIR_E_INVALID, "from server 2 on a stream from server 0");
	assert_int_equal(ask(&w.nodes[1], 0).received, 1);
	world_close(&w);
}

int main(int argc, char **argv)
{
	transport = argc > 1 ? argv[1] : "memory";
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(entries_arrive_at_both_followers),
	    cmocka_unit_test(entries_survive_streams_that_are_cut),
	    cmocka_unit_test(entries_survive_messages_lost_and_repeated),
	    cmocka_unit_test(a_slow_follower_is_not_sent_more_than_it_takes),
	    cmocka_unit_test(a_server_that_comes_late_is_found),
	    cmocka_unit_test(a_server_that_moves_is_found),
	    cmocka_unit_test(a_server_that_moves_from_one_that_stands_still_is_found),
	    cmocka_unit_test(acknowledgements_take_each_others_place),
	    cmocka_unit_test(a_stream_that_is_none_of_a_replicas_is_ended),
	};
	return cmocka_run_group_tests_name(transport, tests, NULL, NULL);
}
