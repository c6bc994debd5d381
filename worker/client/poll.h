/* A long poll of the ledger, one at a time: asked again when it runs out, and where the ledger is by then when it has moved. Everything on the loop, under the lock. */
#ifndef WEIR_CLIENT_POLL_H
#define WEIR_CLIENT_POLL_H

#include "proto/rpc/rpc.h"
#include "proto/wire/wire.h"
#include "weir/weir.h"

struct poll_type {
	enum rpc_method method;
	const ProtobufCMessageDescriptor *reply;
	void (*on_reply)(weir_client *c, const ProtobufCMessage *reply);       /* that refuses nothing */
	void (*give_up)(weir_client *c, weir_status status, const char *text); /* the ledger has been away for too long, or refuses */
	void (*on_lost)(
	    weir_client *c); /* the ledger may not have heard what was asked, or is another one; NULL: that is nothing to it */
	void (*go_on)(weir_client *c); /* asks, if there is something to ask and nothing in flight */
};

struct poll_asked;
struct poll {
	weir_client *client;
	const struct poll_type *type;
	struct poll_asked *asking; /* in flight; NULL: nothing that counts */
	int64_t unavailable_since_ms;
};

/* Sends q; what was in flight does not count any more. Where it cannot be sent, type->go_on is called again later. */
void poll_ask(struct poll *p, const ProtobufCMessage *q);
/* The ledger is elsewhere now. */
void poll_ask_anew(struct poll *p);

#endif
