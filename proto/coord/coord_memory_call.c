/* Reads and transactions in memory. A call is executed when its session reaches the store, and
 * answered after the delay or at its deadline. */
#include "proto/coord/coord_memory_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NS_PER_MS 1000000ll

struct call {
	struct rpc_link link;
	bool txn;
	struct coord_entry *name;   /* of a read: its key */
	struct coord_guard *guards; /* (guards_count), keys copied */
	uint32_t guards_count;
	struct coord_entry **changes; /* (changes_count) until applied */
	uint32_t changes_count;
	int64_t deadline_ns;
	coord_done_fn done;
	void *arg;
	bool answered;
	int64_t due_ns; /* when the answer arrives */
	struct coord_answer answer;
	struct coord_entry **found; /* (answer.count) */
};

static void call_destroy(struct call *call)
{
	rpc_link_remove(&call->link);
	coord_entry_release(call->name);
	for (uint32_t i = 0; i < call->guards_count; i++)
		free((char *)(uintptr_t)call->guards[i].key);
	for (uint32_t i = 0; i < call->changes_count; i++)
		coord_entry_release(call->changes[i]);
	for (uint32_t i = 0; i < call->answer.count; i++)
		coord_entry_release(call->found[i]);
	free(call->guards);
	free(call->changes);
	free(call->found);
	free(call);
}

static void call_end(struct call *call, weir_status status, const char *text, int64_t due_ns)
{
	call->answered = true;
	call->answer.status = status;
	call->answer.text = text;
	call->due_ns = due_ns;
}

static void call_find(struct call *call, struct coord_entry *entry)
{
	call->found = coord_must_have(realloc(call->found, (call->answer.count + 1) * sizeof(struct coord_entry *)));
	call->found[call->answer.count++] = coord_entry_retain(entry);
}

static void do_read(struct coord_memory *m, struct call *call)
{
	const char *name = call->name->record.key;
	for (size_t i = coord_store_place(m, name); i < m->records_count && coord_name_covers(name, m->records[i]->record.key); i++)
		call_find(call, m->records[i]);
}

/* False: it names a lost lease. */
static bool do_txn(struct memory_session *s, struct call *call)
{
	struct coord_memory *m = s->store;
	bool hold = true;
	for (uint32_t i = 0; i < call->guards_count; i++) {
		struct coord_entry *e = coord_store_find(m, call->guards[i].key);
		hold = hold && call->guards[i].mod_revision == (e ? e->record.mod_revision : 0);
	}
	for (uint32_t i = 0; i < call->guards_count && !hold; i++) {
		struct coord_entry *e = coord_store_find(m, call->guards[i].key);
		if (e)
			call_find(call, e);
	}
	for (uint32_t i = 0; i < call->changes_count && hold; i++)
		if (call->changes[i]->record.lease && s->lost)
			return false;
	call->answer.applied = hold;
	if (hold) {
		coord_store_apply(m, call->changes, call->changes_count);
		call->changes_count = 0;
	}
	return true;
}

/* Executes the call in the store now; its answer reaches the session after the delay. */
static void call_execute(struct memory_session *s, struct call *call, int64_t now)
{
	int64_t due = now + s->delay_ns;
	bool lease_there = true;
	if (call->txn)
		lease_there = do_txn(s, call);
	else
		do_read(s->store, call);
	call->answer.revision = s->store->revision;
	if (!lease_there)
		call_end(call, WEIR_E_STALE, "the lease is lost", due);
	else if (due > call->deadline_ns)
		call_end(call, WEIR_E_TIMEOUT, "the deadline passed", call->deadline_ns);
	else
		call_end(call, WEIR_OK, "", due);
}

static int64_t call_due_ns(const struct memory_session *s, const struct call *call)
{
	if (call->answered)
		return call->due_ns;
	return reachable(s) || s->over ? 0 : call->deadline_ns;
}

static void call_tell(struct memory_session *s, struct call *call)
{
	char text[WEIR_ERROR_TEXT_BYTES];
	struct coord_answer answer = call->answer;
	struct coord_record *records = coord_records_of(call->found, answer.count);
	answer.records = records;
	if (answer.status) {
		const char *what = call->txn ? "transaction" : call->name->record.key;
		snprintf(text, sizeof text, "coordinator in memory, %s: %s", what, answer.text);
		answer = (struct coord_answer){.status = answer.status, .text = text};
	}
	rpc_link_remove(&call->link);
	pthread_mutex_unlock(&s->store->lock);
	call->done(call->arg, &answer);
	pthread_mutex_lock(&s->store->lock);
	call_destroy(call);
	free(records);
}

int64_t coord_calls_due_ns(const struct memory_session *s)
{
	int64_t due = INT64_MAX;
	for (struct rpc_link *l = s->calls.next; l != &s->calls; l = l->next) {
		int64_t one = call_due_ns(s, (struct call *)l);
		due = one < due ? one : due;
	}
	return due;
}

bool coord_call_turn(struct memory_session *s, int64_t now)
{
	for (struct rpc_link *l = s->calls.next; l != &s->calls; l = l->next) {
		struct call *call = (struct call *)l;
		if (call_due_ns(s, call) > now)
			continue;
		if (!call->answered && s->over)
			call_end(call, WEIR_E_STALE, "the lease is lost", now);
		else if (!call->answered && reachable(s))
			call_execute(s, call, now);
		else if (!reachable(s))
			call_end(call, WEIR_E_UNAVAILABLE, "it is out of reach", now);
		if (call->due_ns > now)
			continue;
		call_tell(s, call);
		return true;
	}
	return false;
}

void coord_calls_end(struct memory_session *s, bool tell)
{
	while (!rpc_link_empty(&s->calls)) {
		struct call *call = (struct call *)s->calls.next;
		call_end(call, WEIR_E_CANCELLED, "the session was closed", 0);
		if (tell)
			call_tell(s, call);
		else
			call_destroy(call);
	}
}

/* --- Requests */

/* Queues the call. It owns its references to entries of the store. */
static weir_status call_queue(struct memory_session *s, struct call *call, uint32_t timeout_ms, coord_done_fn done, void *arg,
                              weir_error *err)
{
	call->deadline_ns = clock_ns(s->store->clock) + timeout_ms * NS_PER_MS;
	call->done = done;
	call->arg = arg;
	rpc_link_init(&call->link);
	pthread_mutex_lock(&s->store->lock);
	bool over = s->over;
	if (over)
		call_destroy(call);
	else
		rpc_link_add(&s->calls, &call->link);
	coord_memory_unlock(s->store);
	return over ? weir_fail(err, WEIR_E_STALE, "coordinator in memory: the lease is lost") : WEIR_OK;
}

weir_status memory_read(struct coord *c, const char *name, uint32_t timeout_ms, coord_done_fn done, void *arg, weir_error *err)
{
	struct call *call = coord_must_have(calloc(1, sizeof *call));
	call->name = coord_entry_create(name, NULL, 0, 0);
	return call_queue(session_of(c), call, timeout_ms, done, arg, err);
}

weir_status memory_txn(struct coord *c, const struct coord_txn *txn, uint32_t timeout_ms, coord_done_fn done, void *arg,
                       weir_error *err)
{
	struct memory_session *s = session_of(c);
	struct call *call = coord_must_have(calloc(1, sizeof *call));
	call->txn = true;
	call->guards = coord_must_have(calloc(txn->guards_count + 1, sizeof *call->guards));
	call->changes = coord_must_have(calloc(txn->changes_count + 1, sizeof(struct coord_entry *)));
	for (; call->guards_count < txn->guards_count; call->guards_count++)
		call->guards[call->guards_count] = (struct coord_guard){coord_must_have(strdup(txn->guards[call->guards_count].key)),
		                                                        txn->guards[call->guards_count].mod_revision};
	for (; call->changes_count < txn->changes_count; call->changes_count++) {
		const struct coord_change *change = &txn->changes[call->changes_count];
		call->changes[call->changes_count] =
		    coord_entry_create(change->key, change->value, change->value_bytes, change->leased ? s->lease : 0);
	}
	return call_queue(s, call, timeout_ms, done, arg, err);
}
