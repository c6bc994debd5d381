/* Answers of an etcd, or of an impostor, in any order and at any time. They are refused, or
 * reported as records within the answer. Every call is answered once. The transport is simulated
 * here, and timers fire in the order in which they were set.
 *
 * Input: pieces of u8 (index of the waiting request to answer; beyond the last: the first timer
 * fires), u8 status, u16 bytes, the message. */
#include "tests/fuzz/fuzz.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/little_endian.h"
#include "etcd.pb-c.h"
#include "proto/coord/coord_etcd.h"
#include "proto/rpc/rpc_transport.h"
#include "proto/wire/wire.h"
#include "tests/unit/proto/pieces.h"

#define PIECE_HEADER 4u
#define PIECES_MAX   64u
#define WAITING_MAX  256u

/* --- A transport without threads, which replaces the functions of the real one */

struct pending {
	bool live;
	struct rpc_stream_handler handler; /* for a stream */
	rpc_reply_fn done;                 /* for a call */
	void *arg;
	bool cancelled;
};

static struct pending waiting[WAITING_MAX];
static uint32_t waiting_count;
static struct rpc_timer *timers[WAITING_MAX];
static uint32_t timers_count;
static int64_t now_ns;

static struct pending *wait_for(const struct pending *p)
{
	assert(waiting_count < WAITING_MAX);
	waiting[waiting_count] = *p;
	waiting[waiting_count].live = true;
	return &waiting[waiting_count++];
}

int64_t rpc_now_ns(void)
{
	return now_ns;
}

void rpc_timer_clear(struct rpc_loop *loop, struct rpc_timer *timer)
{
	(void)loop;
	for (uint32_t i = 0; i < timers_count; i++)
		if (timers[i] == timer) {
			memmove(timers + i, timers + i + 1, (--timers_count - i) * sizeof(struct rpc_timer *));
			return;
		}
}

void rpc_timer_set(struct rpc_loop *loop, struct rpc_timer *timer, int64_t due_ns, void (*fn)(void *arg), void *arg)
{
	rpc_timer_clear(loop, timer);
	assert(timers_count < WAITING_MAX);
	timer->due_ns = due_ns;
	timer->task = (struct rpc_task){fn, arg};
	timers[timers_count++] = timer;
}

void rpc_loop_post(struct rpc_loop *loop, void (*fn)(void *arg), void *arg)
{
	(void)loop;
	fn(arg);
}

bool rpc_loop_is_current(const struct rpc_loop *loop)
{
	(void)loop;
	return false;
}

weir_status rpc_channel_open_foreign(struct rpc_channel **out, struct rpc *rpc, struct rpc_loop *loop, const char *address,
                                     bool tls, weir_error *err)
{
	(void)rpc, (void)loop, (void)address, (void)tls, (void)err;
	*out = NULL;
	return WEIR_OK;
}

/* Ends everything in progress. A cancelled stream only hears of that. */
void rpc_channel_close(struct rpc_channel *channel)
{
	(void)channel;
	for (uint32_t i = 0; i < waiting_count; i++) {
		struct pending *p = &waiting[i];
		if (!p->live)
			continue;
		p->live = false;
		if (p->done)
			p->done(p->arg, WEIR_E_CANCELLED, "closed", NULL);
		else
			p->handler.closed(p->arg, (struct rpc_stream *)(void *)p, WEIR_E_CANCELLED, "closed");
	}
}

const char *rpc_channel_address(const struct rpc_channel *channel)
{
	(void)channel;
	return "etcd:1";
}

const char *rpc_method_path(enum rpc_method method)
{
	(void)method;
	return "/method";
}

weir_status rpc_call_start(struct rpc_channel *channel, enum rpc_method method, struct message *request, uint32_t timeout_ms,
                           rpc_reply_fn done, void *arg)
{
	(void)channel, (void)method, (void)timeout_ms;
	message_release(request);
	(void)wait_for(&(struct pending){.done = done, .arg = arg});
	return WEIR_OK;
}

weir_status rpc_call_wait(struct rpc_channel *channel, enum rpc_method method, struct message *request, uint32_t timeout_ms,
                          struct message **reply, weir_error *err)
{
	(void)channel, (void)method, (void)timeout_ms, (void)reply;
	message_release(request);
	return weir_fail(err, WEIR_E_UNAVAILABLE, "nobody answers any more");
}

weir_status rpc_stream_open(struct rpc_stream **out, struct rpc_channel *channel, enum rpc_method method,
                            const struct rpc_stream_handler *handler, void *arg, weir_error *err)
{
	(void)channel, (void)method, (void)err;
	*out = (struct rpc_stream *)(void *)wait_for(&(struct pending){.handler = *handler, .arg = arg});
	return WEIR_OK;
}

weir_status rpc_stream_send(struct rpc_stream *stream, struct message *m)
{
	(void)stream;
	message_release(m);
	return WEIR_OK;
}

void rpc_stream_cancel(struct rpc_stream *stream, weir_status status, const char *text)
{
	(void)status, (void)text;
	((struct pending *)(void *)stream)->cancelled = true;
}

/* --- Callbacks of the session's owner */

static uint32_t answers;
static volatile uint64_t sum;

static void look_at(const struct coord_record *r, bool deleted)
{
	assert(r->key && (r->value || deleted));
	sum = sum + strlen(r->key);
	for (size_t b = 0; r->value && b < r->value_bytes; b++)
		sum = sum + ((const uint8_t *)r->value)[b];
}

static void on_answer(void *arg, const struct coord_answer *a)
{
	(void)arg;
	answers++;
	assert(a->text && (a->status == WEIR_OK || a->text[0]));
	for (uint32_t i = 0; !a->status && i < a->count; i++)
		look_at(&a->records[i], false);
}

static void on_state(void *arg, enum coord_state state, const char *text)
{
	(void)arg;
	assert(text && (state == COORD_CONNECTED || state == COORD_AWAY));
}

static void on_lost(void *arg, int64_t held_until_ns)
{
	(void)arg, (void)held_until_ns;
}

static void on_changed(void *arg, const struct coord_record *records, uint32_t count)
{
	uint64_t *told = arg;
	assert(count > 0);
	for (uint32_t i = 0; i < count; i++) {
		look_at(&records[i], true);
		assert(records[i].mod_revision >= *told);
	}
	*told = records[count - 1].mod_revision + 1;
}

static void on_missed(void *arg)
{
	(void)arg;
}

/* --- The session */

static void fire(void)
{
	if (!timers_count)
		return;
	struct rpc_timer *t = timers[0];
	now_ns = t->due_ns > now_ns ? t->due_ns : now_ns;
	rpc_timer_clear(NULL, t);
	t->task.fn(t->task.arg);
}

static void answer(struct pending *p, uint8_t status, const uint8_t *bytes, size_t n)
{
	static const weir_status bad[] = {WEIR_E_UNAVAILABLE, WEIR_E_TIMEOUT, WEIR_E_NOT_FOUND, WEIR_E_STATE, WEIR_E_LIMIT};
	const bool ends = p->done || status || p->cancelled;
	struct message *m = pieces_of(bytes, n, n + 1);
	const weir_status s = status ? bad[status % (sizeof bad / sizeof *bad)] : WEIR_OK;
	if (ends)
		p->live = false;
	if (p->done)
		p->done(p->arg, s, s ? "refused" : "", s ? NULL : m);
	else if (ends)
		p->handler.closed(p->arg, (struct rpc_stream *)(void *)p, s ? s : WEIR_E_CANCELLED, "ended");
	else
		p->handler.message(p->arg, (struct rpc_stream *)(void *)p, m);
	message_release(m);
}

static struct pending *live_one(uint32_t which)
{
	for (uint32_t i = 0; i < waiting_count; i++)
		if (waiting[i].live && which-- == 0)
			return &waiting[i];
	return NULL;
}

static uint32_t ask(struct coord *c)
{
	const struct coord_guard guards[] = {{"/t/a", 3}, {"/t/b", 0}};
	const struct coord_change change = {.key = "/t/a", .value = "v", .value_bytes = 1, .leased = true};
	const struct coord_txn txn = {.guards = guards, .guards_count = 2, .changes = &change, .changes_count = 1};
	uint32_t asked = coord_read(c, "/t/", 60000, on_answer, NULL, NULL) == WEIR_OK;
	asked += coord_txn(c, &txn, 60000, on_answer, NULL, NULL) == WEIR_OK;
	return asked;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct coord_options options = {.lease_ms = 6000, .handler = {.state = on_state, .lease_lost = on_lost}};
	const struct coord_watch_handler watch = {.changed = on_changed, .missed = on_missed};
	uint64_t told = 4;
	struct coord *c;
	waiting_count = timers_count = answers = 0;
	now_ns = 1000000;
	const weir_status status = coord_etcd_open(&c, NULL, NULL, "etcd://etcd:1,etcd:2", &options, NULL);
	assert(status == WEIR_OK);
	(void)status;
	uint32_t asked = ask(c), pieces = 0;
	struct coord_watch *w = coord_watch_start(c, "/t/", told, &watch, &told);
	for (size_t at = 0; w && size - at >= PIECE_HEADER && pieces < PIECES_MAX; pieces++) {
		const uint8_t *piece = data + at;
		const size_t left = size - at - PIECE_HEADER, n = get16(piece + 2) < left ? get16(piece + 2) : left;
		struct pending *p = live_one(piece[0]);
		if (p)
			answer(p, piece[1], piece + PIECE_HEADER, n);
		else
			fire();
		at += PIECE_HEADER + n;
		if (pieces == PIECES_MAX / 8)
			asked += ask(c);
	}
	coord_close(c);
	assert(answers == asked && timers_count == 0);
	return 0;
}

/* --- Seeds: an etcd's answers */

static uint8_t *put_piece(uint8_t *at, uint8_t which, const ProtobufCMessage *m)
{
	const size_t n = protobuf_c_message_get_packed_size(m);
	at[0] = which;
	at[1] = 0;
	put16(at + 2, (uint16_t)n);
	(void)protobuf_c_message_pack(m, at + PIECE_HEADER);
	return at + PIECE_HEADER + n;
}

static uint8_t *put_connection(uint8_t *at, int64_t ttl_s)
{
	Etcdserverpb__LeaseGrantResponse granted = ETCDSERVERPB__LEASE_GRANT_RESPONSE__INIT;
	Etcdserverpb__LeaseKeepAliveResponse renewed = ETCDSERVERPB__LEASE_KEEP_ALIVE_RESPONSE__INIT;
	granted.ttl = renewed.ttl = ttl_s;
	at = put_piece(at, 0, &granted.base);
	return put_piece(at, 0, &renewed.base);
}

uint8_t *fuzz_seed(uint32_t i, size_t *size)
{
	Etcdserverpb__ResponseHeader header = ETCDSERVERPB__RESPONSE_HEADER__INIT;
	Etcdserverpb__KeyValue kv[2] = {ETCDSERVERPB__KEY_VALUE__INIT, ETCDSERVERPB__KEY_VALUE__INIT}, *kvs[] = {&kv[0], &kv[1]};
	Etcdserverpb__RangeResponse range = ETCDSERVERPB__RANGE_RESPONSE__INIT;
	Etcdserverpb__ResponseOp op = ETCDSERVERPB__RESPONSE_OP__INIT, *ops[] = {&op, &op};
	Etcdserverpb__TxnResponse txn = ETCDSERVERPB__TXN_RESPONSE__INIT;
	Etcdserverpb__Event event[2] = {ETCDSERVERPB__EVENT__INIT, ETCDSERVERPB__EVENT__INIT}, *events[] = {&event[0], &event[1]};
	Etcdserverpb__WatchResponse watched = ETCDSERVERPB__WATCH_RESPONSE__INIT;
	static const int64_t ttls_s[] = {6, 6, 6, 0, INT64_MAX, 1, 6};
	if (i >= sizeof ttls_s / sizeof *ttls_s)
		return NULL;
	header.revision = 9;
	for (int64_t k = 0; k < 2; k++) {
		kv[k].key = (char *)(uintptr_t)(k ? "/t/b" : "/t/a");
		kv[k].value = (ProtobufCBinaryData){6, (uint8_t *)(uintptr_t) "record"};
		kv[k].mod_revision = 7 + k;
		event[k].kv = &kv[k];
	}
	range.header = txn.header = &header;
	range.kvs = kvs;
	range.n_kvs = 2;
	op.response_case = ETCDSERVERPB__RESPONSE_OP__RESPONSE_RESPONSE_RANGE;
	op.response_range = &range;
	txn.succeeded = i & 1;
	txn.n_responses = 2;
	txn.responses = ops;
	event[1].type = ETCDSERVERPB__EVENT__EVENT_TYPE__DELETE;
	watched.events = events;
	watched.n_events = 2;
	uint8_t *seed = malloc(4096), *at = put_connection(seed, ttls_s[i]);
	assert(seed);
	/* 0: the renewals, 1: the watch, 2 and 3: the read and the transaction. */
	if (i == 6)
		kv[1].mod_revision = INT64_MAX;
	at = put_piece(at, 1, &watched.base);
	/* Ends the stream. 4: the renewals at the other endpoint, where the watch is opened again. */
	if (i == 6) {
		Etcdserverpb__WatchResponse ended = ETCDSERVERPB__WATCH_RESPONSE__INIT;
		Etcdserverpb__LeaseKeepAliveResponse renewed = ETCDSERVERPB__LEASE_KEEP_ALIVE_RESPONSE__INIT;
		ended.canceled = true;
		renewed.ttl = ttls_s[i];
		at = put_piece(at, 1, &ended.base);
		at = put_piece(at, 4, &renewed.base);
	}
	at = put_piece(at, 2, &range.base);
	at = put_piece(at, 2, &txn.base);
	if (i == 2) {
		watched.canceled = true;
		watched.compact_revision = 8;
		at = put_piece(at, 1, &watched.base);
	}
	*size = (size_t)(at - seed);
	return seed;
}
