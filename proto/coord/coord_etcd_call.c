/* Reads and transactions over etcd. A call waits for a connection, is sent to the current endpoint,
 * and ends with its answer or at its deadline. A read that reached no endpoint is retried after a
 * pause, or as soon as there is a connection. A transaction is sent once. */
#include "proto/coord/coord_etcd_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/wire/wire.h"

struct etcd_call {
	struct rpc_link link;   /* in etcd->waiting; unlinked while it is in progress */
	struct rpc_timer timer; /* while it waits */
	struct etcd *etcd;
	enum rpc_method method;
	struct message *request;
	char what[WEIR_COORD_KEY_BYTES_MAX]; /* the name read, or the first key of the transaction */
	int64_t deadline_ns;
	uint32_t failures;
	weir_status failure; /* of the last attempt */
	char failure_text[WEIR_ERROR_TEXT_BYTES];
	coord_done_fn done;
	void *arg;
};

static void call_send(struct etcd_call *call);

void etcd_range_end(const char *name, char end[WEIR_COORD_KEY_BYTES_MAX])
{
	size_t n = strlen(name);
	snprintf(end, WEIR_COORD_KEY_BYTES_MAX, "%s", coord_name_is_prefix(name) ? name : "");
	if (*end)
		end[n - 1]++; /* "/a/" to "/a0" */
}

struct coord_record etcd_record(const Etcdserverpb__KeyValue *kv)
{
	return (struct coord_record){.key = kv->key,
	                             .value = kv->value.len ? kv->value.data : (const uint8_t *)"",
	                             .value_bytes = kv->value.len,
	                             .mod_revision = (uint64_t)kv->mod_revision,
	                             .lease = (uint64_t)kv->lease};
}

/* --- Ending */

static void call_finish(struct etcd_call *call, struct coord_answer *answer)
{
	char text[WEIR_ERROR_TEXT_BYTES];
	rpc_link_remove(&call->link);
	rpc_timer_clear(call->etcd->loop, &call->timer);
	if (answer->status) {
		snprintf(text, sizeof text, "etcd, %s of %s: %s", call->method == RPC_ETCD_TXN ? "transaction" : "read", call->what,
		         answer->text);
		answer->text = text;
	}
	call->done(call->arg, answer);
	message_release(call->request);
	free(call);
}

static void call_fail(struct etcd_call *call, weir_status status, const char *why)
{
	call_finish(call, &(struct coord_answer){.status = status, .text = why});
}

static void call_expire(void *arg)
{
	struct etcd_call *call = arg;
	char why[WEIR_ERROR_TEXT_BYTES];
	snprintf(why, sizeof why, "%s", call->failure ? call->failure_text : call->etcd->failure);
	call_fail(call, call->failure ? call->failure : WEIR_E_UNAVAILABLE, *why ? why : "no endpoint has answered yet");
}

void etcd_calls_end(struct etcd *e, weir_status status, const char *why)
{
	while (!rpc_link_empty(&e->waiting))
		call_fail((struct etcd_call *)e->waiting.next, status, why);
}

/* --- Answers */

static uint64_t revision_of(const Etcdserverpb__ResponseHeader *header)
{
	return header ? (uint64_t)header->revision : 0;
}

static void read_answered(struct etcd_call *call, const Etcdserverpb__RangeResponse *reply)
{
	struct coord_record *records = malloc((reply->n_kvs + 1) * sizeof *records);
	struct coord_answer answer = {
	    .text = "", .revision = revision_of(reply->header), .records = records, .count = (uint32_t)reply->n_kvs};
	for (size_t i = 0; records && i < reply->n_kvs; i++)
		records[i] = etcd_record(reply->kvs[i]);
	if (records)
		call_finish(call, &answer);
	else
		call_fail(call, WEIR_E_MEMORY, "out of memory");
	free(records);
}

/* If the guards did not hold: one response per guard, with its record if it exists. */
static void txn_answered(struct etcd_call *call, const Etcdserverpb__TxnResponse *reply)
{
	struct coord_record records[WEIR_COORD_TXN_MAX];
	struct coord_answer answer = {
	    .text = "", .applied = reply->succeeded, .revision = revision_of(reply->header), .records = records};
	for (size_t i = 0; !reply->succeeded && i < reply->n_responses && i < WEIR_COORD_TXN_MAX; i++) {
		const Etcdserverpb__ResponseOp *op = reply->responses[i];
		if (op->response_case == ETCDSERVERPB__RESPONSE_OP__RESPONSE_RESPONSE_RANGE && op->response_range->n_kvs)
			records[answer.count++] = etcd_record(op->response_range->kvs[0]);
	}
	call_finish(call, &answer);
}

static void call_answered(struct etcd_call *call, struct message *reply)
{
	bool txn = call->method == RPC_ETCD_TXN;
	ProtobufCMessage *unpacked;
	weir_error err = {0};
	weir_status status = wire_unpack(txn ? &etcdserverpb__txn_response__descriptor : &etcdserverpb__range_response__descriptor,
	                                 reply, &unpacked, &err);
	if (status)
		call_fail(call, status, err.text);
	else if (txn)
		txn_answered(call, (Etcdserverpb__TxnResponse *)unpacked);
	else
		read_answered(call, (Etcdserverpb__RangeResponse *)unpacked);
	wire_destroy(unpacked);
}

/* --- Sending */

static void call_begin(void *arg)
{
	struct etcd_call *call = arg;
	struct etcd *e = call->etcd;
	rpc_link_remove(&call->link);
	rpc_timer_clear(e->loop, &call->timer);
	if (e->connected) {
		call_send(call);
		return;
	}
	rpc_link_add(&e->waiting, &call->link);
	rpc_timer_set(e->loop, &call->timer, call->deadline_ns, call_expire, call);
}

static bool call_retry(struct etcd_call *call, weir_status status, const char *text)
{
	struct etcd *e = call->etcd;
	int64_t again = rpc_now_ns() + etcd_backoff_ns(e, ++call->failures);
	if (e->over || call->method == RPC_ETCD_TXN || (status != WEIR_E_UNAVAILABLE && status != WEIR_E_TIMEOUT) ||
	    again >= call->deadline_ns)
		return false;
	call->failure = status;
	snprintf(call->failure_text, sizeof call->failure_text, "%s", text);
	rpc_link_add(&e->waiting, &call->link);
	rpc_timer_set(e->loop, &call->timer, again, call_begin, call);
	return true;
}

static void call_done(void *arg, weir_status status, const char *text, struct message *reply)
{
	struct etcd_call *call = arg;
	struct etcd *e = call->etcd;
	if (status == WEIR_OK) {
		call_answered(call, reply);
	} else if (status == WEIR_E_NOT_FOUND && call->method == RPC_ETCD_TXN) {
		/* The lease of a leased change is gone: not applied. */
		call_fail(call, WEIR_E_STALE, text);
		etcd_lost(e);
	} else if (!call_retry(call, status, text)) {
		call_fail(call, status, text);
	}
}

/* Sends a call. A read moves to the next endpoint when this one is silent; a transaction waits for
 * its one answer. */
static void call_send(struct etcd_call *call)
{
	int64_t left = call->deadline_ns - rpc_now_ns(), patience = etcd_patience_ns(call->etcd);
	if (call->method != RPC_ETCD_TXN && left > patience)
		left = patience;
	uint32_t timeout_ms = left > 0 ? (uint32_t)((left + 999999) / 1000000) : 0;
	weir_status status =
	    rpc_call_start(etcd_channel(call->etcd), call->method, message_retain(call->request), timeout_ms, call_done, call);
	if (status) {
		call->failure = status;
		snprintf(call->failure_text, sizeof call->failure_text, "%s", weir_status_text(status));
		rpc_link_add(&call->etcd->waiting, &call->link);
		/* Never call back inside the function that started the call. */
		rpc_timer_set(call->etcd->loop, &call->timer, 0, call_expire, call);
	}
}

void etcd_calls_begin(struct etcd *e)
{
	struct rpc_link ready;
	rpc_link_init(&ready);
	while (!rpc_link_empty(&e->waiting)) {
		struct rpc_link *l = e->waiting.next;
		rpc_link_remove(l);
		rpc_link_add(&ready, l);
	}
	while (!rpc_link_empty(&ready))
		call_begin(ready.next);
}

/* --- Requests */

/* Takes over request. */
static weir_status call_start(struct etcd *e, enum rpc_method method, struct message *request, const char *what,
                              uint32_t timeout_ms, coord_done_fn done, void *arg, weir_error *err)
{
	struct etcd_call *call = calloc(1, sizeof *call);
	if (!call || !request) {
		free(call);
		message_release(request);
		return weir_fail(err, WEIR_E_MEMORY, "etcd, %s: out of memory", what);
	}
	call->etcd = e;
	call->method = method;
	call->request = request;
	snprintf(call->what, sizeof call->what, "%s", what);
	call->deadline_ns = rpc_now_ns() + timeout_ms * 1000000ll;
	call->done = done;
	call->arg = arg;
	rpc_link_init(&call->link);
	call_begin(call);
	return WEIR_OK;
}

static weir_status stale(const char *what, weir_error *err)
{
	return weir_fail(err, WEIR_E_STALE, "etcd, %s: the lease is lost", what);
}

weir_status etcd_read(struct coord *c, const char *name, uint32_t timeout_ms, coord_done_fn done, void *arg, weir_error *err)
{
	struct etcd *e = (struct etcd *)c;
	char end[WEIR_COORD_KEY_BYTES_MAX];
	Etcdserverpb__RangeRequest request = ETCDSERVERPB__RANGE_REQUEST__INIT;
	if (e->over)
		return stale(name, err);
	etcd_range_end(name, end);
	request.key = (char *)(uintptr_t)name;
	request.range_end = end;
	return call_start(e, RPC_ETCD_RANGE, wire_pack(&request.base), name, timeout_ms, done, arg, err);
}

/* A transaction in etcd's form. It points into the caller's. */
struct packed_txn {
	Etcdserverpb__TxnRequest request;
	Etcdserverpb__Compare compare[WEIR_COORD_TXN_MAX], *compares[WEIR_COORD_TXN_MAX];
	Etcdserverpb__RangeRequest range[WEIR_COORD_TXN_MAX];
	Etcdserverpb__PutRequest put[WEIR_COORD_TXN_MAX];
	Etcdserverpb__DeleteRangeRequest delete[WEIR_COORD_TXN_MAX];
	Etcdserverpb__RequestOp success[WEIR_COORD_TXN_MAX], *successes[WEIR_COORD_TXN_MAX];
	Etcdserverpb__RequestOp failure[WEIR_COORD_TXN_MAX], *failures[WEIR_COORD_TXN_MAX];
};

/* Requires the guard's revision; on failure etcd reads the record. */
static void pack_guard(struct packed_txn *p, uint32_t i, const struct coord_guard *guard)
{
	char *key = (char *)(uintptr_t)guard->key;
	etcdserverpb__compare__init(p->compares[i] = &p->compare[i]);
	p->compare[i].target = ETCDSERVERPB__COMPARE__COMPARE_TARGET__MOD;
	p->compare[i].key = key;
	p->compare[i].target_union_case = ETCDSERVERPB__COMPARE__TARGET_UNION_MOD_REVISION;
	p->compare[i].mod_revision = (int64_t)guard->mod_revision;
	etcdserverpb__range_request__init(&p->range[i]);
	p->range[i].key = key;
	etcdserverpb__request_op__init(p->failures[i] = &p->failure[i]);
	p->failure[i].request_case = ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_RANGE;
	p->failure[i].request_range = &p->range[i];
}

static void pack_change(struct packed_txn *p, uint32_t i, const struct coord_change *change, int64_t lease)
{
	char *key = (char *)(uintptr_t)change->key;
	etcdserverpb__request_op__init(p->successes[i] = &p->success[i]);
	if (change->value) {
		etcdserverpb__put_request__init(&p->put[i]);
		p->put[i].key = key;
		p->put[i].value = (ProtobufCBinaryData){change->value_bytes, (uint8_t *)(uintptr_t)change->value};
		p->put[i].lease = change->leased ? lease : 0;
		p->success[i].request_case = ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_PUT;
		p->success[i].request_put = &p->put[i];
	} else {
		etcdserverpb__delete_range_request__init(&p->delete[i]);
		p->delete[i].key = key;
		p->success[i].request_case = ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_DELETE_RANGE;
		p->success[i].request_delete_range = &p->delete[i];
	}
}

weir_status etcd_txn(struct coord *c, const struct coord_txn *txn, uint32_t timeout_ms, coord_done_fn done, void *arg,
                     weir_error *err)
{
	struct etcd *e = (struct etcd *)c;
	const char *what = txn->changes_count ? txn->changes[0].key : txn->guards_count ? txn->guards[0].key : "nothing";
	if (e->over)
		return stale(what, err);
	struct packed_txn *p = malloc(sizeof *p);
	struct message *request = NULL;
	if (p) {
		etcdserverpb__txn_request__init(&p->request);
		for (uint32_t i = 0; i < txn->guards_count; i++)
			pack_guard(p, i, &txn->guards[i]);
		for (uint32_t i = 0; i < txn->changes_count; i++)
			pack_change(p, i, &txn->changes[i], e->lease);
		p->request.n_compare = p->request.n_failure = txn->guards_count;
		p->request.n_success = txn->changes_count;
		p->request.compare = p->compares;
		p->request.success = p->successes;
		p->request.failure = p->failures;
		request = wire_pack(&p->request.base);
	}
	free(p);
	return call_start(e, RPC_ETCD_TXN, request, what, timeout_ms, done, arg, err);
}
