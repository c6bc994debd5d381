/* A server's part of a checkpoint: its partitions as they are at one moment, written while training goes on.
 *
 *   begin   on the executors: the state of every partition that the server is primary of is exported and a snapshot of its rows begins; from here on a row is
 *           emitted before it changes. All that was in the log when the checkpoint was first asked for is applied then, committed therefore
 *   write   on a thread of its own, one partition after the other: slices of about a millisecond on the executor copy rows out, the
 *           thread encodes and writes them; then the rows that are only in RocksDB, from a snapshot taken at the same moment
 *
 * What has begun is written to its end, whoever is primary by then: it is the partition as it was. Emitted rows of partitions whose turn has not come wait in memory: at most the rows that training changes meanwhile. */
#ifndef WEIR_CHECKPOINT_TAKE_H
#define WEIR_CHECKPOINT_TAKE_H

#include "proto/rpc/rpc.h"
#include "server/checkpoint/checkpoint_manifest.h"

struct server;

/* Where checkpoints go and how; in server_options. Texts are copied by server_create. */
struct checkpoint_options {
	const char *place, *endpoint, *region; /* blob_open's */
	struct blob_credentials credentials;
	const char *job;      /* its name, for manifests */
	uint64_t every_steps; /* batches of the whole job between two checkpoints; 0: only when asked */
	uint32_t keep;
	uint64_t bytes_per_s; /* of rows that a server copies out while training goes on; 0: as fast as it can */
	enum row_precision values, slots;
};

weir_status checkpoint_options_copy(struct checkpoint_options *out,
                                    const struct checkpoint_options *in); /* free it, also after an error */
void checkpoint_options_free(struct checkpoint_options *o);
weir_status checkpoint_options_open(const struct checkpoint_options *o, struct blob_store **out, weir_error *err);

struct checkpoint_takes; /* of one server: the present one, if any, and what the last ones left to build on */
struct checkpoint_takes *checkpoint_takes_create(struct server *s,
                                                 const struct checkpoint_options *options); /* NULL: no memory, or no thread */
/* Ends the present one. Its executors must run still. NULL is allowed. */
void checkpoint_takes_destroy(struct checkpoint_takes *t);

/* RPC_CHECKPOINT_BEGIN, RPC_CHECKPOINT_POLL. */
void checkpoint_take_begin(struct checkpoint_takes *t, struct rpc_call *call, struct message *request);
void checkpoint_take_poll(struct checkpoint_takes *t, struct rpc_call *call, struct message *request);

#endif
