/* Whether servers still have what they acknowledged. A new push stream may lead to a new process,
 * which has recovered its log, and a partition that has moved is another copy of the log. So the
 * first records there ask every partition whether all entries acknowledged to us still exist. If
 * not, the work behind them is gone, too, and this client behaves as if dead: it rejoins, seals its
 * units and executes them again from their watermarks. The same record waits until the acknowledged
 * entries are stable. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/client/client.h"

/* Entries that are not stable may be lost in a later epoch. No report of such an epoch counts until
 * the entries are known to exist: a primary may have lost its role and got it back between two
 * records of ours. */
static bool may_be_lost(const weir_client *c, uint32_t partition, uint32_t epoch)
{
	return epoch > c->epoch_seen[partition] && c->acknowledged[partition] > c->stable_seen[partition];
}

static void ask_again(weir_client *c, uint32_t partition);

static void note_later(weir_client *c, uint32_t partition, uint64_t index, uint32_t epoch)
{
	struct told *later = &c->later[partition];
	if (later->epoch && later->epoch != epoch) {
		client_become_stale(c, "a partition has changed its primary twice before what it was asked first was answered");
		return;
	}
	if (!later->epoch)
		ask_again(c, partition);
	later->epoch = epoch;
	later->index = index > later->index ? index : later->index;
}

void acknowledge(weir_client *c, uint32_t partition, const struct record *reply, uint32_t epoch)
{
	if (may_be_lost(c, partition, epoch)) {
		note_later(c, partition, reply->reply.applied, epoch);
		return;
	}
	if (reply->reply.applied > c->acknowledged[partition]) {
		c->acknowledged[partition] = reply->reply.applied;
		c->epoch_seen[partition] = epoch;
	}
	if (reply->reply.stable > c->stable_seen[partition])
		c->stable_seen[partition] = reply->reply.stable;
}

/* Everything acknowledged up to `asked` exists in the reply's epoch, and is stable. Later reports
 * then count, if they are of that epoch. Asks again for their stability, since a caller may be
 * waiting for it. */
static void hold(weir_client *c, uint32_t partition, uint64_t asked, const struct record *reply)
{
	struct told *later = &c->later[partition];
	uint64_t *acknowledged = &c->acknowledged[partition], *epoch = &c->epoch_seen[partition];
	const bool all = *acknowledged <= asked;
	if (all && reply->reply.epoch > *epoch)
		*epoch = reply->reply.epoch;
	const bool counts = all && later->epoch && later->epoch <= *epoch;
	if (counts) {
		*acknowledged = later->index > *acknowledged ? later->index : *acknowledged;
		*epoch = later->epoch;
		*later = (struct told){0};
	}
	const bool may_differ = later->epoch || *epoch < reply->reply.epoch;
	if (!may_differ && reply->reply.stable > c->stable_seen[partition])
		c->stable_seen[partition] = reply->reply.stable;
	if (may_differ || (counts && *acknowledged > c->stable_seen[partition]))
		ask_again(c, partition);
}

/* Number of batches that were acknowledged in full and are not below a watermark: they will be
 * executed again, unless another's seal finds them. */
static uint32_t batches_to_redo(const weir_client *c)
{
	uint32_t n = 0;
	for (const struct held_unit *u = c->units; u; u = u->next)
		for (uint32_t b = u->watermark; u->batch && b < u->batches; b++)
			n += u->batch[b] && u->batch[b]->complete;
	return n;
}

static void forget_asked(struct operation *op)
{
	free(op->payload);
}

static weir_status on_resume_reply(struct operation *op, struct request *q, const struct record *r, struct cursor *body,
                                   weir_error *err)
{
	weir_client *c = op->client;
	struct link *l = c->links[q->server];
	char text[WEIR_ERROR_TEXT_BYTES];
	if (r->status == WEIR_E_LOST)
		return weir_fail(err, WEIR_E_LOST, "server %s: %s", l->address, reply_text(r, *body, text, sizeof text));
	l->process_id = l->process_id ? l->process_id : record_get_process(r);
	l->recognised = true;
	lane_pump(&l->pull);
	if (r->status == WEIR_E_STALE) {
		uint32_t redo = batches_to_redo(c);
		c->report.redone_batches += redo;
		return weir_fail(err, WEIR_E_STALE,
		                 "server %s lost entries of partition %u in a restart or a failover: %u batches are executed again",
		                 c->links[q->server]->address, q->partition, redo);
	}
	if (r->status != WEIR_OK)
		return weir_fail(err, (weir_status)r->status, "server %s, partition %u: %s", c->links[q->server]->address, q->partition,
		                 reply_text(r, *body, text, sizeof text));
	hold(c, q->partition, ((const uint64_t *)op->payload)[q - op->requests], r);
	for (struct held_unit *u = c->units; u; u = u->next)
		if (u->batch)
			unit_advance(c, u);
	return WEIR_OK;
}

bool resume_is_outdated(const weir_client *c, const struct request *q, const struct record *r)
{
	return q->op->on_reply == on_resume_reply && r->status == WEIR_OK && r->reply.epoch < c->later[q->partition].epoch;
}

/* Asks a server about some of its partitions, wanted (partitions). */
static weir_status ask(struct link *l, const bool *wanted, uint32_t count, bool first)
{
	weir_client *c = l->client;
	uint64_t ids[WEIR_PARTITIONS_MAX];
	struct record_writer *w = record_writer_create();
	uint64_t *asked = calloc(count, sizeof *asked);
	struct operation *op = w && asked ? operation_create_locked(c, "resuming", count, NULL) : NULL;
	if (!op) {
		record_writer_destroy(w);
		free(asked);
		return WEIR_E_MEMORY;
	}
	op->forgotten = true;
	op->payload = asked;
	op->destroy = forget_asked;
	op->on_reply = on_resume_reply;
	op->asked_anew = true;
	op->asked_at = c->map.changes;
	weir_status status = WEIR_OK;
	for (uint32_t p = 0, i = 0; i < count; p++) {
		if (!wanted[p])
			continue;
		struct request *q = &op->requests[i];
		q->partition = (uint16_t)p;
		asked[i] = c->acknowledged[p];
		ids[i++] = operation_request_id(op, q);
		struct record r = {.kind = RECORD_RESUME,
		                   .partition = (uint16_t)p,
		                   .request_id = operation_request_id(op, q),
		                   .resume = {.index = c->acknowledged[p], .epoch = c->epoch_seen[p]}};
		record_set_process(&r, l->process_id);
		record_writer_begin(w, &r);
		status = status ? status : record_writer_end(w);
	}
	struct message *m = status ? NULL : record_writer_finish(w, c->uuid, c->generation, NULL, NULL);
	record_writer_destroy(w);
	status = m ? link_send_frame(l, m, ids, count, first) : WEIR_E_MEMORY;
	for (uint32_t i = 0; status && i < count; i++)
		request_answer(&op->requests[i]);
	operation_unhold(op);
	return status;
}

static bool is_asked(const struct link *l, uint32_t partition, bool moved)
{
	const struct map_place *at = &l->client->map.places[partition];
	return at->server == l->index && (at->moved || !moved);
}

weir_status resume_ask(struct link *l, bool moved, bool first)
{
	bool wanted[WEIR_PARTITIONS_MAX];
	uint32_t count = 0;
	for (uint32_t p = 0; p < l->client->partitions; p++)
		count += wanted[p] = is_asked(l, p, moved);
	if (count)
		return ask(l, wanted, count, first);
	l->recognised |= !moved; /* it had nothing of ours that it could have lost */
	return WEIR_OK;
}

/* Asks about one partition, at its present server; without a stream there, once there is one. */
static void ask_again(weir_client *c, uint32_t partition)
{
	struct link *l = c->links[c->map.places[partition].server];
	bool wanted[WEIR_PARTITIONS_MAX] = {0};
	wanted[partition] = true;
	if (l->push.stream && ask(l, wanted, 1, false) != WEIR_OK)
		/* The next stream begins with it. */
		rpc_stream_cancel(l->push.stream, WEIR_E_MEMORY, "out of memory");
}

weir_status resume_ask_all(weir_client *c)
{
	weir_status status = WEIR_OK;
	for (uint32_t i = 0; i < c->links_count && !status; i++)
		status = resume_ask(c->links[i], false, false);
	return status;
}
