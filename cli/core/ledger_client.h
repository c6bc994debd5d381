/* The ledger of a running job, wherever it is: with replicas it is on one of several servers, and moves. */
#ifndef WEIR_DOORS_H
#define WEIR_DOORS_H

#include "proto/rpc/rpc.h"
#include "proto/wire/wire.h"

struct doors;
/* places: "A,B,C", addresses of servers that may have it. The first two are borrowed. E_INVALID: there is none; E_LIMIT; E_MEMORY. */
weir_status doors_open(struct doors **out, struct rpc *rpc, struct rpc_loop *loop, const char *places,
                       weir_error *err) WEIR_MUST_CHECK;
void doors_close(struct doors *d); /* NULL is allowed */
/* Asks whoever had the ledger last, then whoever is said to have it, then everybody else, none of them longer than its share of timeout_ms. The first error is what is told when
 * nobody answers. *reply: to be freed with wire_free. */
weir_status doors_ask(struct doors *d, enum rpc_method method, const ProtobufCMessage *q, uint32_t timeout_ms,
                      const ProtobufCMessageDescriptor *type, ProtobufCMessage **reply, weir_error *err) WEIR_MUST_CHECK;
/* The same of one of them, by its number, for no longer than timeout_ms: whatever any server can tell. */
weir_status doors_ask_one(struct doors *d, uint32_t i, enum rpc_method method, const ProtobufCMessage *q, uint32_t timeout_ms,
                          const ProtobufCMessageDescriptor *type, ProtobufCMessage **reply, weir_error *err) WEIR_MUST_CHECK;
uint32_t doors_count(const struct doors *d);
uint32_t doors_at(const struct doors *d); /* the one that answered last: a number that stays its own */

#endif
