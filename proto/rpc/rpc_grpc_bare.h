/* gRPC's C core without our layers: the baseline for the benchmarks of push and pull. One
 * bidirectional stream at a time, one thread and one completion queue per side, our channel
 * settings; no frames, checksums or request ids. For a process that uses no other part of
 * proto/. */
#ifndef WEIR_RPC_GRPC_BARE_H
#define WEIR_RPC_GRPC_BARE_H

#include <stddef.h>
#include <stdint.h>

#include "weir/status.h"

enum bare_work {
	BARE_DISCARD, /* client to server, which drops the bytes */
	BARE_REDUCE,  /* client to server, which adds them, as fp32, to memory of table_bytes */
	/* Server to client, from memory of table_bytes; the client copies them to its own. */
	BARE_COPY
};
struct bare_order {
	uint64_t work, message_bytes, messages,
	    table_bytes; /* table_bytes: a multiple of message_bytes, at most BARE_TABLE_BYTES_MAX */
};
#define BARE_TABLE_BYTES_MAX (16u << 20)

/* Writes its address, "127.0.0.1:PORT", to address_fd, then serves orders one after another until
 * killed. Returns, with an exit status, only on failure. */
int bare_serve(int address_fd);

struct bare_client;
weir_status bare_client_open(struct bare_client **out, const char *address, weir_error *err) WEIR_MUST_CHECK;
/* Executes one order; returns when the other side has finished. memory (memory_bytes, a multiple of
 * message_bytes): source or destination of the messages, used cyclically. E_UNAVAILABLE: the stream
 * broke. */
weir_status bare_client_run(struct bare_client *c, const struct bare_order *order, uint8_t *memory, size_t memory_bytes,
                            weir_error *err) WEIR_MUST_CHECK;
void bare_client_close(struct bare_client *c); /* NULL is allowed */

#endif
