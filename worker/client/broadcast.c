/* Small records to every server, for all its partitions: closes of steps, retirements. */
#include "client.h"

weir_status plain_reply(struct operation *op, struct request *q, const struct record *r, struct cursor *body, weir_error *err)
{
	char text[256];
	if (r->status == WEIR_OK || r->status == WEIR_E_DUPLICATE)
		return WEIR_OK;
	return weir_fail(err, (weir_status)r->status, "server %s: %s failed: %s", op->client->links[q->server].address, op->what,
	                 reply_text(r, *body, text, sizeof text));
}

weir_status broadcast(weir_client *c, const char *what, const struct record *r, const struct section *s, const void *data,
                      void (*on_finish)(struct operation *op))
{
	weir_error err = {0};
	struct operation *op = operation_create_locked(c, what, c->links_count, &err);
	struct record_writer *w = record_writer_create();
	if (!op || !w) {
		record_writer_destroy(w);
		if (op) {
			op->forgotten = true;
			for (uint32_t i = 0; i < op->requests_count; i++)
				request_answer(&op->requests[i]);
			operation_unhold(op);
		}
		return op ? WEIR_E_MEMORY : err.status;
	}
	op->forgotten = true;
	op->on_reply = plain_reply;
	op->on_finish = on_finish;
	op->floor = r->b;
	for (uint32_t i = 0; i < c->links_count; i++) {
		struct request *q = &op->requests[i];
		struct record own = *r;
		q->partition = own.partition = FRAME_PARTITION_ALL;
		q->server = i;
		own.request_id = operation_request_id(op, q);
		record_writer_begin(w, &own);
		if (s)
			(void)record_writer_add(w, s, NULL, data, false);
		struct message *m = record_writer_end(w) == WEIR_OK ? record_writer_finish(w, c->uuid, c->generation, NULL, NULL) : NULL;
		if (!m || link_send_frame(&c->links[i], m, &own.request_id, 1, false) != WEIR_OK) {
			operation_fail(op, WEIR_E_MEMORY, "out of memory");
			request_answer(q);
		}
	}
	record_writer_destroy(w);
	operation_unhold(op);
	return WEIR_OK;
}
