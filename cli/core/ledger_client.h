/* A client of a running job's ledger that finds the ledger. With replicas the ledger is on one of
 * several servers, and moves. */
#ifndef WEIR_LEDGER_CLIENT_H
#define WEIR_LEDGER_CLIENT_H

#include "proto/rpc/rpc.h"
#include "proto/wire/wire.h"

struct ledger_client;
/* places: "A,B,C", the addresses of servers that may have the ledger. rpc and loop are borrowed.
 * E_INVALID: no address; E_LIMIT; E_MEMORY. */
weir_status ledger_client_open(struct ledger_client **out, struct rpc *rpc, struct rpc_loop *loop, const char *places,
                               weir_error *err) WEIR_MUST_CHECK;
void ledger_client_close(struct ledger_client *d); /* NULL is allowed */
/* Asks the server that had the ledger last, then the server that it names as the ledger's host,
 * then all others. Each server gets at most its share of timeout_ms. If no server answers, returns
 * the first error. *reply: free it with wire_destroy. */
weir_status ledger_client_ask(struct ledger_client *d, enum rpc_method method, const ProtobufCMessage *q, uint32_t timeout_ms,
                              const ProtobufCMessageDescriptor *type, ProtobufCMessage **reply, weir_error *err) WEIR_MUST_CHECK;
/* Asks server number i, for at most timeout_ms: for requests that any server can answer. */
weir_status ledger_client_ask_one(struct ledger_client *d, uint32_t i, enum rpc_method method, const ProtobufCMessage *q,
                                  uint32_t timeout_ms, const ProtobufCMessageDescriptor *type, ProtobufCMessage **reply,
                                  weir_error *err) WEIR_MUST_CHECK;
uint32_t ledger_client_count(const struct ledger_client *d);
/* the server that answered last; its number never changes */
uint32_t ledger_client_at(const struct ledger_client *d);

#endif
