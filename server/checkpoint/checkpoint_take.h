/* A server's part of a checkpoint: its partitions as they are at one moment, written while training
 * continues.
 *
 *   begin   on the executors: exports the state of every partition whose primary is this server,
 *           and begins a snapshot of its rows. From then on a row is emitted before it changes.
 *           Every entry that was in the log at the first request for this checkpoint is applied by
 *           then, and therefore committed
 *   write   on a thread of its own, one partition after the other: slices of about a millisecond on
 *           the executor copy rows out, and the thread encodes and writes them. Then it writes the
 *           rows that are only in RocksDB, from a snapshot taken at the same moment
 *
 * A partition that has begun is written to its end, as it was at that moment, even if its primary
 * changes. Emitted rows of the partitions that follow wait in memory: at most the rows that
 * training changes meanwhile. */
#ifndef WEIR_CHECKPOINT_TAKE_H
#define WEIR_CHECKPOINT_TAKE_H

#include "proto/rpc/rpc.h"
#include "server/checkpoint/checkpoint_manifest.h"

struct server;

/* Where and how to write checkpoints; part of server_options. server_create copies the texts. */
struct checkpoint_options {
	const char *place, *endpoint, *region; /* blob_open's */
	struct blob_credentials credentials;
	const char *job;      /* its name, for manifests */
	uint64_t every_steps; /* batches of the whole job between two checkpoints; 0: only on request */
	uint32_t keep;
	/* Limit for copying rows out of a server while training continues; 0: unlimited. */
	uint64_t bytes_per_s;
	enum row_precision values, slots;
};

/* Free it, also after an error. */
weir_status checkpoint_options_copy(struct checkpoint_options *out, const struct checkpoint_options *in);
void checkpoint_options_destroy(struct checkpoint_options *o);
weir_status checkpoint_options_open(const struct checkpoint_options *o, struct blob_store **out, weir_error *err);

struct checkpoint_takes; /* of one server: the present take, if any, and the bases for the next */
/* NULL: out of memory, or no thread. */
struct checkpoint_takes *checkpoint_takes_create(struct server *s, const struct checkpoint_options *options);
/* Ends the present take. The server's executors must still run. NULL is allowed. */
void checkpoint_takes_destroy(struct checkpoint_takes *t);

/* RPC_CHECKPOINT_BEGIN, RPC_CHECKPOINT_POLL. */
void checkpoint_take_begin(struct checkpoint_takes *t, struct rpc_call *call, struct message *request);
void checkpoint_take_poll(struct checkpoint_takes *t, struct rpc_call *call, struct message *request);

#endif
