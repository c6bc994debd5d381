#include "cli/core/ledger_client.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/limits.h"

#define ADDRESSES_MAX (2 * WEIR_SERVERS_MAX)
#define SHARE_MS_MIN  200u /* minimum share of one server, whatever their number */

struct ledger_address {
	char address[WEIR_ADDRESS_BYTES_MAX];
	struct rpc_channel *channel; /* NULL: unused so far */
};

struct ledger_client {
	struct rpc *rpc;
	struct rpc_loop *loop;
	uint32_t count, at;
	struct ledger_address of[ADDRESSES_MAX]; /* (count) the given servers and those learned later */
};

/* Returns the number of an address; if there is no room, the number of the first one. */
static uint32_t add(struct ledger_client *d, const char *address)
{
	uint32_t i = 0;
	while (i < d->count && strcmp(d->of[i].address, address) != 0)
		i++;
	if (i == ADDRESSES_MAX)
		return 0;
	if (i == d->count)
		snprintf(d->of[d->count++].address, WEIR_ADDRESS_BYTES_MAX, "%s", address);
	return i;
}

static weir_status add_all(struct ledger_client *d, const char *places, weir_error *err)
{
	for (const char *at = places; *at; at += strspn(at, ",")) {
		char address[WEIR_ADDRESS_BYTES_MAX];
		const size_t bytes = strcspn(at, ",");
		if (bytes >= sizeof address || d->count == WEIR_SERVERS_MAX)
			return weir_fail(err, WEIR_E_LIMIT, "'%.60s...' has an address that is too long, or more than %u", places,
			                 WEIR_SERVERS_MAX);
		snprintf(address, sizeof address, "%.*s", (int)bytes, at);
		if (bytes)
			(void)add(d, address);
		at += bytes;
	}
	return d->count ? WEIR_OK : weir_fail(err, WEIR_E_INVALID, "no address of the ledger is given");
}

weir_status ledger_client_open(struct ledger_client **out, struct rpc *rpc, struct rpc_loop *loop, const char *places,
                               weir_error *err)
{
	struct ledger_client *d = *out = calloc(1, sizeof *d);
	if (!d)
		return weir_fail(err, WEIR_E_MEMORY, "no memory to look for the ledger");
	d->rpc = rpc;
	d->loop = loop;
	return add_all(d, places, err);
}

void ledger_client_close(struct ledger_client *d)
{
	for (uint32_t i = 0; d && i < d->count; i++)
		if (d->of[i].channel)
			rpc_channel_close(d->of[i].channel);
	free(d);
}

weir_status ledger_client_ask_one(struct ledger_client *d, uint32_t i, enum rpc_method method, const ProtobufCMessage *q,
                                  uint32_t timeout_ms, const ProtobufCMessageDescriptor *type, ProtobufCMessage **reply,
                                  weir_error *err)
{
	struct ledger_address *x = &d->of[i];
	struct message *answer = NULL;
	weir_status status = x->channel ? WEIR_OK : rpc_channel_open(&x->channel, d->rpc, d->loop, x->address, err);
	struct message *request = status ? NULL : wire_pack(q);
	if (!status && !request)
		status = weir_fail(err, WEIR_E_MEMORY, "no memory for a request");
	if (!status)
		status = rpc_call_wait(x->channel, method, request, timeout_ms, &answer, err);
	if (!status)
		status = wire_unpack(type, answer, reply, err);
	message_release(answer);
	return status;
}

/* Asks a server without the ledger which server has it. That server may be a new one. */
static uint32_t follow(struct ledger_client *d, uint32_t at, uint32_t timeout_ms)
{
	const Weir__V1__LayoutRequest q = WEIR__V1__LAYOUT_REQUEST__INIT;
	ProtobufCMessage *m = NULL;
	weir_error ignored = {0};
	if (ledger_client_ask_one(d, at, RPC_LAYOUT, &q.base, timeout_ms, &weir__v1__layout_reply__descriptor, &m, &ignored))
		return at;
	const Weir__V1__LayoutReply *l = (const Weir__V1__LayoutReply *)m;
	const uint32_t server = l->ledger ? l->ledger->primary : WEIR_SERVER_NONE;
	if (server < l->n_servers && l->servers[server][0] && strlen(l->servers[server]) < WEIR_ADDRESS_BYTES_MAX)
		at = add(d, l->servers[server]);
	wire_destroy(m);
	return at;
}

weir_status ledger_client_ask(struct ledger_client *d, enum rpc_method method, const ProtobufCMessage *q, uint32_t timeout_ms,
                              const ProtobufCMessageDescriptor *type, ProtobufCMessage **reply, weir_error *err)
{
	const uint32_t share_ms = timeout_ms / d->count > SHARE_MS_MIN ? timeout_ms / d->count : SHARE_MS_MIN;
	bool asked[ADDRESSES_MAX] = {false};
	weir_error first = {0};
	*reply = NULL;
	while (!asked[d->at]) {
		weir_error why = {0};
		const weir_status status = ledger_client_ask_one(d, d->at, method, q, share_ms, type, reply, &why);
		if (!status)
			return WEIR_OK;
		if (!first.status)
			first = why;
		asked[d->at] = true;
		uint32_t next = status == WEIR_E_MOVED ? follow(d, d->at, share_ms) : d->at;
		for (uint32_t i = 0; i < d->count && asked[next]; i++)
			next = (next + 1) % d->count;
		d->at = next;
	}
	return weir_fail(err, first.status, "%s", first.text);
}

uint32_t ledger_client_count(const struct ledger_client *d)
{
	return d->count;
}

uint32_t ledger_client_at(const struct ledger_client *d)
{
	return d->at;
}
