/* Small records to every partition: seals, closes of steps, retirements. Each partition has a
 * record of its own, which moves with it and has its own answer. One frame per server carries as
 * many as fit. */
#include "worker/client/client.h"

weir_status plain_reply(struct operation *op, struct request *q, const struct record *r, struct cursor *body, weir_error *err)
{
	char text[256];
	if (r->status == WEIR_OK || r->status == WEIR_E_DUPLICATE)
		return WEIR_OK;
	return weir_fail(err, (weir_status)r->status, "server %s: %s failed: %s", op->client->links[q->server]->address, op->what,
	                 reply_text(r, *body, text, sizeof text));
}

static void fail(struct operation *op, const uint64_t *ids, uint32_t count)
{
	operation_fail(op, WEIR_E_MEMORY, "out of memory");
	for (uint32_t i = 0; i < count; i++)
		request_answer(operation_find(op->client, ids[i]));
}

static void flush(struct operation *op, struct record_writer *w, struct link *l, const uint64_t *ids, uint32_t count)
{
	weir_client *c = op->client;
	if (!count)
		return;
	struct message *m = record_writer_finish(w, c->uuid, c->generation, NULL, NULL);
	if (!m || link_send_frame(l, m, ids, count, false) != WEIR_OK)
		fail(op, ids, count);
}

/* Sends the records for the partitions of one server. */
static void ask_server(struct operation *op, struct link *l, struct record_writer *w, const struct record *r,
                       const struct section *s, const void *data)
{
	const weir_client *c = op->client;
	uint64_t ids[WEIR_STREAM_CREDIT_REQUESTS];
	uint32_t count = 0;
	for (uint32_t p = 0; p < c->partitions; p++) {
		if (c->map.places[p].server != l->index)
			continue;
		struct record own = *r;
		own.partition = op->requests[p].partition = (uint16_t)p;
		own.request_id = operation_request_id(op, &op->requests[p]);
		record_writer_begin(w, &own);
		if (s)
			/* record_writer_end reports a failure */
			(void)record_writer_add(w, s, NULL, data, false);
		if (record_writer_end(w) != WEIR_OK)
			fail(op, &own.request_id, 1);
		else
			ids[count++] = own.request_id;
		if (count == WEIR_STREAM_CREDIT_REQUESTS || record_writer_bytes(w) >= WEIR_MESSAGE_BYTES_TARGET) {
			flush(op, w, l, ids, count);
			count = 0;
		}
	}
	flush(op, w, l, ids, count);
}

void ask_partitions(struct operation *op, const struct record *r, const struct section *s, const void *data)
{
	weir_client *c = op->client;
	struct record_writer *w = record_writer_create();
	if (!w)
		operation_fail(op, WEIR_E_MEMORY, "out of memory");
	for (uint32_t i = 0; w && i < c->links_count; i++)
		ask_server(op, c->links[i], w, r, s, data);
	for (uint32_t p = 0; !w && p < c->partitions; p++)
		request_answer(&op->requests[p]);
	record_writer_destroy(w);
}

weir_status broadcast(weir_client *c, const char *what, const struct record *r, const struct section *s, const void *data,
                      void (*on_finish)(struct operation *op))
{
	weir_error err = {0};
	struct operation *op = operation_create_locked(c, what, c->partitions, &err);
	if (!op)
		return err.status;
	op->forgotten = true;
	op->on_reply = plain_reply;
	op->on_finish = on_finish;
	op->floor = r->close.step;
	ask_partitions(op, r, s, data);
	operation_unhold(op);
	return WEIR_OK;
}
