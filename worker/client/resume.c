/* What has become of what a server acknowledged. A new push stream may lead to a new process, which has recovered its log: the first
 * records on it ask every partition whether all that was acknowledged to us is still there. If not, the work behind it is not there either, and this client
 * behaves as if dead: it rejoins, seals its units and executes them again from their watermarks. The same record waits until what is
 * acknowledged has become stable. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"

void acknowledge(weir_client *c, uint32_t partition, const struct record *reply)
{
	if (reply->a > c->acknowledged[partition])
		c->acknowledged[partition] = reply->a;
	if (reply->b > c->stable_seen[partition])
		c->stable_seen[partition] = reply->b;
}

/* Batches that were acknowledged whole and are not below a watermark: they will be executed again, unless another's seal finds them. */
static uint32_t batches_to_redo(const weir_client *c)
{
	uint32_t n = 0;
	for (const struct held_unit *u = c->units; u; u = u->next)
		for (uint32_t b = u->watermark; u->batch && b < u->batches; b++)
			n += u->batch[b] && u->batch[b]->complete;
	return n;
}

static weir_status on_resume_reply(struct operation *op, struct request *q, const struct record *r, struct cursor *body,
                                   weir_error *err)
{
	weir_client *c = op->client;
	char text[256];
	c->epoch_seen[q->partition] = r->c;
	if (r->status == WEIR_E_STALE) {
		uint32_t redo = batches_to_redo(c);
		c->report.redone_batches += redo;
		return weir_fail(err, WEIR_E_STALE, "server %s lost entries of partition %u in a restart: %u batches are executed again",
		                 c->links[q->server].address, q->partition, redo);
	}
	if (r->status != WEIR_OK)
		return weir_fail(err, (weir_status)r->status, "server %s, partition %u: %s", c->links[q->server].address, q->partition,
		                 reply_text(r, *body, text, sizeof text));
	if (r->b > c->stable_seen[q->partition])
		c->stable_seen[q->partition] = r->b;
	for (struct held_unit *u = c->units; u; u = u->next)
		if (u->batch)
			unit_advance(c, u);
	return WEIR_OK;
}

static uint32_t partitions_of(const struct link *l)
{
	uint32_t n = 0;
	for (uint32_t p = 0; p < l->client->partitions; p++)
		n += l->client->partition_server[p] == l->index;
	return n;
}

weir_status resume_ask(struct link *l, bool first)
{
	weir_client *c = l->client;
	const uint32_t count = partitions_of(l);
	uint64_t ids[WEIR_PARTITIONS_MAX];
	struct record_writer *w = record_writer_create();
	struct operation *op = w ? operation_create_locked(c, "resuming", count, NULL) : NULL;
	if (!op) {
		record_writer_destroy(w);
		return WEIR_E_MEMORY;
	}
	op->forgotten = true;
	op->on_reply = on_resume_reply;
	weir_status status = WEIR_OK;
	for (uint32_t p = 0, i = 0; i < count; p++) {
		if (c->partition_server[p] != l->index)
			continue;
		struct request *q = &op->requests[i];
		q->partition = (uint16_t)p;
		q->server = l->index;
		ids[i++] = operation_request_id(op, q);
		record_writer_begin(w, &(struct record){.kind = RECORD_RESUME,
		                                        .partition = (uint16_t)p,
		                                        .request_id = operation_request_id(op, q),
		                                        .a = c->acknowledged[p],
		                                        .b = c->epoch_seen[p]});
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

weir_status resume_ask_all(weir_client *c)
{
	weir_status status = WEIR_OK;
	for (uint32_t i = 0; i < c->links_count && !status; i++)
		status = resume_ask(&c->links[i], false);
	return status;
}
