/* Calls of the ledger, wherever it is. One server has it; if it has replicas, another takes over
 * when that server dies. The map says which server (map.h). A client that has not joined yet learns
 * it from any server that it asks. Every call is repeatable: the ledger recognises a repetition by
 * the incarnation, and by the sequence, the unit or the batch in it. So the client gives up a call
 * at a silent server once it knows that the ledger is elsewhere, and makes it there. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/client/client.h"

/* --- Addresses of the ledger. All under the lock. */

static weir_status add_address(weir_client *c, const char *address, uint32_t *at, weir_error *err)
{
	struct ledger_way *w = &c->ledger;
	for (*at = 0; *at < w->addresses_count; ++*at)
		if (strcmp(w->addresses[*at]->address, address) == 0)
			return WEIR_OK;
	struct ledger_address *d = w->addresses_count < LEDGER_ADDRESSES_MAX ? calloc(1, sizeof *d) : NULL;
	if (!d)
		return weir_fail(err, WEIR_E_MEMORY, "no memory for another address of the ledger");
	snprintf(d->address, sizeof d->address, "%s", address);
	w->addresses[w->addresses_count++] = d;
	return WEIR_OK;
}

static void go_to(weir_client *c, uint32_t at)
{
	if (at == c->ledger.at)
		return;
	c->ledger.at = at;
	c->ledger.moves++;
	pthread_cond_broadcast(&c->changed);
}

weir_status ledger_open(weir_client *c, const char *addresses, weir_error *err)
{
	struct rpc_channel *first;
	weir_status status = WEIR_OK;
	for (const char *at = addresses; *at && !status; at += strspn(at, ",")) {
		char address[WEIR_ADDRESS_BYTES_MAX];
		uint32_t number;
		const size_t bytes = strcspn(at, ",");
		if (bytes >= sizeof address)
			return weir_fail(err, WEIR_E_LIMIT, "options.ledger: an address of %zu bytes, the most is %u", bytes,
			                 WEIR_ADDRESS_BYTES_MAX - 1);
		snprintf(address, sizeof address, "%.*s", (int)bytes, at);
		status = bytes ? add_address(c, address, &number, err) : WEIR_OK;
		at += bytes;
	}
	if (!status && !c->ledger.addresses_count)
		status = weir_fail(err, WEIR_E_INVALID, "options.ledger must be the address of a server of the job");
	return status ? status : ledger_channel(c, &first, err);
}

void ledger_calls_destroy(weir_client *c)
{
	for (uint32_t i = 0; i < c->ledger.addresses_count; i++) {
		if (c->ledger.addresses[i]->channel)
			rpc_channel_close(c->ledger.addresses[i]->channel);
		free(c->ledger.addresses[i]);
	}
}

weir_status ledger_channel(weir_client *c, struct rpc_channel **out, weir_error *err)
{
	struct ledger_address *d = c->ledger.addresses[c->ledger.at];
	weir_status status = d->channel ? WEIR_OK : rpc_channel_open(&d->channel, c->rpc, c->loop, d->address, err);
	*out = d->channel;
	return status;
}

bool ledger_claim(weir_client *c, const Weir__V1__PartitionMap *m)
{
	struct ledger_way *w = &c->ledger;
	const uint64_t moves = w->moves;
	uint32_t at;
	if (m->ledger_epoch < w->epoch || m->ledger_epoch == 0 || (m->ledger_epoch == w->epoch && m->revision <= w->revision) ||
	    m->ledger >= m->n_servers || !m->servers[m->ledger][0])
		return false;
	if (add_address(c, m->servers[m->ledger], &at, NULL) != WEIR_OK)
		return false;
	w->epoch = m->ledger_epoch;
	w->revision = m->revision;
	go_to(c, at);
	return w->moves != moves;
}

/* Before the client has joined, a refusal is its only map. */
static void take_refusal(weir_client *c, const Weir__V1__PartitionMap *m)
{
	uint32_t at;
	for (size_t i = 0; m && i < m->n_servers; i++)
		if (m->servers[i][0] && strlen(m->servers[i]) < WEIR_ADDRESS_BYTES_MAX)
			(void)add_address(c, m->servers[i], &at, NULL);
	if (m)
		(void)ledger_claim(c, m);
}

static void take_holder(weir_client *c, const Weir__V1__Holder *h)
{
	c->holder = h ? (struct holder){true, h->pid, h->pid_namespace, h->heard} : (struct holder){0};
}

void ledger_missed(weir_client *c, uint64_t moves)
{
	if (moves != c->ledger.moves || c->closing)
		return;
	if (c->map.places)
		rpc_loop_post(c->loop, map_ask, c);
	else
		go_to(c, (c->ledger.at + 1) % c->ledger.addresses_count);
}

/* --- One call */

struct ledger_wait {
	weir_client *client;
	bool done, given_up;
	weir_status status;
	char text[WEIR_ERROR_TEXT_BYTES];
	struct message *reply;
};

static void on_answer(void *arg, weir_status status, const char *text, struct message *reply)
{
	struct ledger_wait *w = arg;
	weir_client *c = w->client;
	pthread_mutex_lock(&c->lock);
	w->done = true;
	c->activity.calls--;
	w->status = status;
	snprintf(w->text, sizeof w->text, "%s", text);
	w->reply = !status && !w->given_up ? message_retain(reply) : NULL;
	const bool given_up = w->given_up;
	pthread_cond_broadcast(&c->changed);
	pthread_mutex_unlock(&c->lock);
	if (given_up)
		free(w);
}

/* Waits for the answer, or until the ledger is known to be at another address. */
static weir_status await(struct ledger_wait *w, uint64_t moves, struct message **answer, weir_error *err)
{
	weir_client *c = w->client;
	pthread_mutex_lock(&c->lock);
	while (!w->done && c->ledger.moves == moves)
		(void)client_wait(c, -1);
	const bool done = w->done;
	w->given_up = !done;
	pthread_mutex_unlock(&c->lock);
	if (!done)
		return weir_fail(err, WEIR_E_MOVED, "the ledger is on another server now");
	const weir_status status = w->status ? weir_fail(err, w->status, "%s", w->text) : WEIR_OK;
	*answer = w->reply;
	free(w);
	return status;
}

static weir_status ask(weir_client *c, enum rpc_method method, struct message *m, uint32_t timeout_ms, struct message **answer,
                       weir_error *err)
{
	struct ledger_wait *w = malloc(sizeof *w);
	struct rpc_channel *channel = NULL;
	if (!w) {
		message_release(m);
		return weir_fail(err, WEIR_E_MEMORY, "%s: out of memory", rpc_method_path(method));
	}
	*w = (struct ledger_wait){.client = c};
	pthread_mutex_lock(&c->lock);
	const uint64_t moves = c->ledger.moves;
	weir_status status = ledger_channel(c, &channel, err);
	c->activity.calls++;
	pthread_mutex_unlock(&c->lock);
	if (status)
		message_release(m);
	else if ((status = rpc_call_start(channel, method, m, timeout_ms, on_answer, w)))
		(void)weir_fail(err, status, "%s: %s", rpc_method_path(method), weir_status_text(status));
	if (status) {
		free(w);
		pthread_mutex_lock(&c->lock);
		c->activity.calls--;
		pthread_mutex_unlock(&c->lock);
		return status;
	}
	status = await(w, moves, answer, err);
	pthread_mutex_lock(&c->lock);
	if (status == WEIR_E_UNAVAILABLE || status == WEIR_E_TIMEOUT || status == WEIR_E_MOVED)
		ledger_missed(c, moves);
	pthread_mutex_unlock(&c->lock);
	return status;
}

weir_status ledger_call(weir_client *c, enum rpc_method method, const ProtobufCMessage *q, uint32_t timeout_ms,
                        const ProtobufCMessageDescriptor *type, ProtobufCMessage **reply, weir_error *err)
{
	weir_error own = {0};
	struct message *m = wire_pack(q), *answer = NULL;
	*reply = NULL;
	err = err ? err : &own;
	if (!m)
		return weir_fail(err, WEIR_E_MEMORY, "%s: out of memory", rpc_method_path(method));
	pthread_mutex_lock(&c->lock);
	const uint64_t moves = c->ledger.moves;
	pthread_mutex_unlock(&c->lock);
	weir_status status = ask(c, method, m, timeout_ms, &answer, err);
	if (status)
		return client_heed(c, status, err);
	status = wire_unpack(type, answer, reply, err);
	message_release(answer);
	if (!status)
		status = client_reply_status(*reply, err);
	if (!status)
		return WEIR_OK;
	if (method == RPC_JOIN && *reply)
		take_holder(c, ((const Weir__V1__JoinReply *)*reply)->holder);
	if (status == WEIR_E_MOVED && method == RPC_JOIN && *reply) {
		pthread_mutex_lock(&c->lock);
		take_refusal(c, ((const Weir__V1__JoinReply *)*reply)->map);
		ledger_missed(c, moves);
		pthread_mutex_unlock(&c->lock);
	}
	wire_destroy(*reply);
	*reply = NULL;
	return client_heed(c, status, err);
}

/* Whether a client that has not joined may ask several servers; it then spends little time on
 * each. */
static bool has_turns(weir_client *c)
{
	pthread_mutex_lock(&c->lock);
	const bool turns = c->ledger.addresses_count > 1;
	pthread_mutex_unlock(&c->lock);
	return turns;
}

/* Asks until the ledger can be reached, for patience_ms at most. A ledger that can be reached but
 * does not answer is waiting for space on its disk: the call then waits without limit, as pushes
 * do. */
weir_status ledger_call_patiently(weir_client *c, enum rpc_method method, const ProtobufCMessage *q, uint32_t patience_ms,
                                  const ProtobufCMessageDescriptor *type, ProtobufCMessage **reply, weir_error *err)
{
	const bool joining = method == RPC_JOIN, turns = joining && has_turns(c);
	const uint32_t most_ms = turns ? WEIR_MAP_TIMEOUT_MS : WEIR_CONTROL_TIMEOUT_MS;
	const uint32_t timeout_ms = patience_ms < most_ms ? patience_ms : most_ms;
	struct tries tries = {.end_ms = client_now(c) + patience_ms};
	weir_error own = {0};
	err = err ? err : &own;
	for (;;) {
		weir_status status = ledger_call(c, method, q, timeout_ms, type, reply, err);
		if (status == WEIR_E_TIMEOUT && !joining)
			tries.end_ms = client_now(c) + patience_ms;
		else if (status != WEIR_E_UNAVAILABLE && status != WEIR_E_MOVED && !(status == WEIR_E_TIMEOUT && turns))
			return status;
		if (client_try_again(c, &tries, joining, err))
			continue;
		pthread_mutex_lock(&c->lock);
		/* Stale: the request has no meaning any more. */
		weir_status why = joining ? WEIR_OK : client_usable(c, err);
		pthread_mutex_unlock(&c->lock);
		return why ? why : status;
	}
}

weir_status ledger_call_again(weir_client *c, enum rpc_method method, const ProtobufCMessage *q,
                              const ProtobufCMessageDescriptor *type, ProtobufCMessage **reply, weir_error *err)
{
	return ledger_call_patiently(c, method, q, c->patience_ms, type, reply, err);
}
