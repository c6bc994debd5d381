/* Checkpoints of a job of integers (integer_trainer.h): their place, a client that requests them,
 * and the end of a restored job. */
#ifndef WEIR_CHECKPOINT_FIXTURE_H
#define WEIR_CHECKPOINT_FIXTURE_H

#include "server/checkpoint/checkpoint_manifest.h"
#include "server/checkpoint/checkpoint_take.h"
#include "tests/unit/worker/client/integer_trainer.h"

#define CHECKPOINTS_MAX 3u /* each syncs all of its files */

struct place { /* a temporary folder */
	char folder[64];
	struct checkpoint_options options; /* of servers that write to the place */
};
void place_make(struct place *p);
void place_remove(const struct place *p);

/* A client of RPC_CHECKPOINT that finds the server with the ledger. */
struct asker {
	struct rpc_loop *loop;
	struct rpc_channel *doors[CLUSTER_SERVERS_MAX]; /* (count), one per server */
	uint32_t count, door;
	uint64_t sequence; /* of the begun checkpoint */
	uint32_t begun_at; /* index in doors */
};
void asker_open(struct asker *a, struct cluster *c);
void asker_close(struct asker *a);
/* returns a reply for wire_destroy */
Weir__V1__CheckpointReply *asker_ask(struct asker *a, bool start);
/* Begins a checkpoint. */
void asker_begin(struct asker *a);
/* Waits for its end and returns its status. */
weir_status asker_await_end(struct asker *a);
/* Begins a checkpoint and waits for it; starts again if the ledger moves meanwhile. */
void asker_take(struct asker *a, char name[WEIR_CHECKPOINT_NAME_BYTES_MAX]);

/* Takes checkpoints while a trainer works. */
struct taker {
	struct asker asker;
	_Atomic bool stop;
	uint32_t count;
	char names[CHECKPOINTS_MAX][WEIR_CHECKPOINT_NAME_BYTES_MAX];
};
void *take_again_and_again(void *taker); /* a thread's function */

/* Restores the checkpoint on `servers` and trains the rest: every batch counts once. */
void restore_and_finish(const struct place *place, const char *name, uint32_t servers, uint64_t generation, weir_mode mode);

#endif
