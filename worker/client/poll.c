#include "worker/client/poll.h"

#include <stdlib.h>

#include "worker/client/client.h"

struct poll_asked {
	struct poll *poll;
	uint64_t incarnation;
	uint64_t moves; /* of the ledger, at that time */
};

static void go_on(void *poll)
{
	struct poll *p = poll;
	pthread_mutex_lock(&p->client->lock);
	p->type->go_on(p->client);
	pthread_mutex_unlock(&p->client->lock);
}

/* No answer: it timed out, or the ledger cannot be reached at present. */
static void take_failure(struct poll *p, weir_status status, const char *text)
{
	weir_client *c = p->client;
	const int64_t now = client_now(c);
	if (status == WEIR_E_UNAVAILABLE || status == WEIR_E_MOVED) {
		p->unavailable_since_ms = p->unavailable_since_ms ? p->unavailable_since_ms : now;
		if (now - p->unavailable_since_ms >= c->patience_ms)
			p->type->give_up(c, status, text);
	} else {
		p->unavailable_since_ms = 0;
		if (status != WEIR_E_TIMEOUT && status != WEIR_E_CANCELLED)
			p->type->give_up(c, status, text);
	}
	if (p->type->on_lost)
		p->type->on_lost(c);
	rpc_loop_after(c->loop, WEIR_RETRY_FIRST_MS, go_on, p);
}

static void take(struct poll *p, weir_status status, const char *text, const ProtobufCMessage *reply)
{
	weir_client *c = p->client;
	if (status == WEIR_E_STALE) {
		client_become_stale(c, text);
	} else if (client_is_over(status)) {
		client_fail(c, status, text);
	} else if (status != WEIR_OK) {
		take_failure(p, status, text);
	} else {
		p->unavailable_since_ms = 0;
		p->type->on_reply(c, reply);
		p->type->go_on(c);
	}
}

static void on_answer(void *arg, weir_status status, const char *text, struct message *m)
{
	struct poll_asked *asked = arg;
	struct poll *p = asked->poll;
	weir_client *c = p->client;
	ProtobufCMessage *reply = NULL;
	weir_error err = {0};
	if (status == WEIR_OK)
		status = wire_unpack(p->type->reply, m, &reply, &err);
	else
		(void)weir_fail(&err, status, "%s", text);
	if (status == WEIR_OK)
		status = client_reply_status(reply, &err);
	pthread_mutex_lock(&c->lock);
	const bool last = p->asking == asked;
	if (last)
		p->asking = NULL;
	if (status == WEIR_E_UNAVAILABLE || status == WEIR_E_MOVED)
		ledger_missed(c, asked->moves);
	if (last && asked->incarnation == c->incarnation && client_usable(c, NULL) == WEIR_OK)
		take(p, status, err.text, reply);
	pthread_cond_broadcast(&c->changed);
	pthread_mutex_unlock(&c->lock);
	wire_destroy(reply);
	free(asked);
}

void poll_ask(struct poll *p, const ProtobufCMessage *q)
{
	weir_client *c = p->client;
	struct rpc_channel *channel;
	struct poll_asked *asked = malloc(sizeof *asked);
	if (asked)
		*asked = (struct poll_asked){.poll = p, .incarnation = c->incarnation, .moves = c->ledger.moves};
	struct message *m = asked && ledger_channel(c, &channel, NULL) == WEIR_OK ? wire_pack(q) : NULL;
	if (m && rpc_call_start(channel, p->type->method, m, WEIR_STEP_POLL_MS, on_answer, asked) == WEIR_OK) {
		p->asking = asked;
		return;
	}
	free(asked);
	rpc_loop_after(c->loop, WEIR_RETRY_FIRST_MS, go_on, p);
}

void poll_ask_anew(struct poll *p)
{
	if (p->type->on_lost)
		p->type->on_lost(p->client);
	else if (!p->asking)
		return;
	p->asking = NULL; /* its answer no longer counts */
	p->type->go_on(p->client);
}
