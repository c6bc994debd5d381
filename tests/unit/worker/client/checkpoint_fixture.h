/* Checkpoints of a job of integers (integer_trainer.h): their place, a client that asks for them, and what a restored job comes to. */
#ifndef WEIR_CHECKPOINT_FIXTURE_H
#define WEIR_CHECKPOINT_FIXTURE_H

#include "server/checkpoint/checkpoint_manifest.h"
#include "server/checkpoint/checkpoint_take.h"
#include "tests/unit/worker/client/integer_trainer.h"

#define CHECKPOINTS_MAX 3u /* every file of one is synced */

struct place { /* a temporary folder */
	char folder[64];
	struct checkpoint_options options; /* of servers that write there */
};
void place_make(struct place *p);
void place_remove(const struct place *p);

/* A client of RPC_CHECKPOINT, which asks whichever server has the ledger. */
struct asker {
	struct rpc_loop *loop;
	struct rpc_channel *doors[CLUSTER_SERVERS_MAX]; /* (count) */
	uint32_t count, door;
	uint64_t sequence; /* of the one that was begun */
	uint32_t begun_at; /* the door */
};
void asker_open(struct asker *a, struct cluster *c);
void asker_close(struct asker *a);
Weir__V1__CheckpointReply *asker_ask(struct asker *a, bool start); /* wire_free it */
/* Has one begun. */
void asker_begin(struct asker *a);
/* What has become of it, once it is over. */
weir_status asker_await_end(struct asker *a);
/* Has one written, and waits for it; anew where the ledger moves meanwhile. */
void asker_take(struct asker *a, char name[WEIR_CHECKPOINT_NAME_BYTES_MAX]);

/* Checkpoints while a trainer works. */
struct taker {
	struct asker asker;
	_Atomic bool stop;
	uint32_t count;
	char names[CHECKPOINTS_MAX][WEIR_CHECKPOINT_NAME_BYTES_MAX];
};
void *take_again_and_again(void *taker); /* a thread */

/* Trains the rest on `servers` that begin with the checkpoint: every batch counts once. */
void restore_and_finish(const struct place *place, const char *name, uint32_t servers, uint64_t generation, weir_mode mode);

#endif
