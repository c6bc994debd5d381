#include "tests/unit/server/cluster/detector_hosts.h"

static void on_send(void *arg, uint16_t to, struct message *m)
{
	struct host *h = arg;
	assert_true(h->sent_count < SENT_MAX);
	h->to[h->sent_count] = to;
	h->sent[h->sent_count++] = m;
}

static void on_deliver(void *arg, uint16_t partition, const struct replica_message *m)
{
	struct host *h = arg;
	assert_true(h->got_count < GOT_MAX);
	h->got[h->got_count++] = (struct heartbeat_item){.partition = partition, .message = *m};
	if (h->answers)
		failure_detector_add(h->detector, partition,
		                     &(struct replica_message){.kind = REPLICA_REFUSE, .to = m->from, .epoch = m->epoch + 1});
}

static void on_silence(void *arg, uint16_t server, bool silent)
{
	struct host *h = arg;
	assert_int_not_equal(h->silent[server], silent);
	h->silent[server] = silent;
	h->reports++;
}

struct failure_detector_options options_of(struct host *h, uint16_t self)
{
	return (struct failure_detector_options){.uuid = "heart test",
	                                         .generation = 4,
	                                         .self = self,
	                                         .servers = SERVERS,
	                                         .partitions = PARTITIONS,
	                                         .incarnation = 10 + self,
	                                         .process_id = 0xb007 + self,
	                                         .arg = h,
	                                         .send = on_send,
	                                         .deliver = on_deliver,
	                                         .silence = on_silence};
}

void host_start(struct host *h, uint16_t self)
{
	const struct failure_detector_options o = options_of(h, self);
	*h = (struct host){.detector = failure_detector_create(&o)};
	assert_non_null(h->detector);
}

void drop_sent(struct host *h)
{
	for (uint32_t i = 0; i < h->sent_count; i++)
		message_release(h->sent[i]);
	h->sent_count = 0;
}

void host_stop(struct host *h)
{
	drop_sent(h);
	failure_detector_destroy(h->detector);
}

struct replica_message message_of(enum replica_message_kind kind, uint16_t from, uint16_t to, uint64_t n)
{
	struct replica_message m = {.kind = kind,
	                            .from = from,
	                            .to = to,
	                            .epoch = n,
	                            .incarnation = n + 1,
	                            .first = n + 3,
	                            .last = n + 2,
	                            .commit = n + 4,
	                            .durable = n + 5};
	m.gap = kind == REPLICA_ACK && n % 2;
	return m;
}

void assert_message(const struct replica_message *a, const struct replica_message *b)
{
	assert_int_equal(a->kind, b->kind);
	assert_int_equal(a->from, b->from);
	assert_int_equal(a->to, b->to);
	assert_true(a->epoch == b->epoch && a->incarnation == b->incarnation && a->first == b->first);
	assert_true(a->last == b->last && a->commit == b->commit && a->durable == b->durable);
	assert_int_equal(a->gap, b->gap);
	assert_null(a->epochs);
}

const enum replica_message_kind kinds[HEARTBEAT_KINDS] = {REPLICA_JOIN, REPLICA_ACK, REPLICA_REFUSE, REPLICA_APPEND};
