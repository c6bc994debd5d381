/* A long poll of the ledger, one at a time. It is repeated when it times out, and sent to the
 * ledger's new place when the ledger moves. Everything on the loop, under the lock. */
#ifndef WEIR_POLL_H
#define WEIR_POLL_H

#include "proto/rpc/rpc.h"
#include "proto/wire/wire.h"
#include "weir/weir.h"

struct poll_type {
	enum rpc_method method;
	const ProtobufCMessageDescriptor *reply;
	void (*on_reply)(weir_client *c, const ProtobufCMessage *reply); /* refuses nothing */
	/* The ledger has been away for too long, or refuses. */
	void (*give_up)(weir_client *c, weir_status status, const char *text);
	/* The ledger may not have received the request, or is another one; NULL: no matter. */
	void (*on_lost)(weir_client *c);
	/* Sends a request if there is one to send and none is in flight. */
	void (*go_on)(weir_client *c);
};

struct poll_asked;
struct poll {
	weir_client *client;
	const struct poll_type *type;
	struct poll_asked *asking; /* in flight; NULL: no request that counts */
	int64_t unavailable_since_ms;
};

/* Sends q; a request in flight no longer counts. If q cannot be sent, type->go_on is called again
 * later. */
void poll_ask(struct poll *p, const ProtobufCMessage *q);
/* The ledger has moved. */
void poll_ask_anew(struct poll *p);

#endif
