/* gRPC's C core with nothing of ours around it: what the benchmarks of push and pull compare with. One bidirectional stream at a time, one thread
 * and one completion queue a side, our channel settings; no frames, no checksums, no request ids. For a process that uses nothing else of proto/. */
#ifndef WEIR_RPC_GRPC_BARE_H
#define WEIR_RPC_GRPC_BARE_H

#include <stddef.h>
#include <stdint.h>

#include "weir/status.h"

enum bare_work {
	BARE_DISCARD, /* client to server, which drops what it receives */
	BARE_REDUCE,  /* client to server, which adds it, as fp32, to memory of table_bytes */
	BARE_COPY     /* server to client, from memory of table_bytes; the client copies it to its own */
};
struct bare_order {
	uint64_t work, message_bytes, messages,
	    table_bytes; /* table_bytes: a multiple of message_bytes, at most BARE_TABLE_BYTES_MAX */
};
#define BARE_TABLE_BYTES_MAX (16u << 20)

/* Serves orders, one after the other, until killed; writes its address, "127.0.0.1:PORT", to address_fd first. Returns, with an exit status, only when
 * it cannot. */
int bare_serve(int address_fd);

struct bare_client;
weir_status bare_client_open(struct bare_client **out, const char *address, weir_error *err) WEIR_MUST_CHECK;
/* Carries out one order and returns when the other side is through with it. memory (memory_bytes, a multiple of message_bytes): what is sent, or
 * where it is copied to, again and again. E_UNAVAILABLE when the stream broke. */
weir_status bare_client_run(struct bare_client *c, const struct bare_order *order, uint8_t *memory, size_t memory_bytes,
                            weir_error *err) WEIR_MUST_CHECK;
void bare_client_close(struct bare_client *c); /* NULL is allowed */

#endif
