/* What checkpoint_take.c (begin, poll, end) and checkpoint_take_write.c (the writing thread) share. Nobody else includes this. */
#ifndef WEIR_CHECKPOINT_TAKE_INTERNAL_H
#define WEIR_CHECKPOINT_TAKE_INTERNAL_H

#include "checkpoint_take.h"
#include "cold.h"
#include "server_internal.h"
#include "store.h"

/* The row files of a partition in a published checkpoint, on which the next one may build. */
struct take_base {
	uint64_t index, removed; /* removed: rows that were, ever */
	uint32_t count;
	struct checkpoint_object chain[WEIR_CHECKPOINT_CHAIN_MAX]; /* (count) */
};

struct take_batch {
	struct take_batch *next;
	struct row_batch rows;
};

struct take_part {
	struct take *take;
	uint32_t id;
	struct executor *executor;
	/* Set by begin, on the executor. */
	uint64_t index, removed, floor; /* floor: rows of versions up to it are in the chain already; 0: they are not */
	struct message *state;
	struct cold_snapshot *cold; /* NULL: every row is in memory */
	bool began;
	/* Guarded by take's lock. */
	struct take_batch *first, **last; /* emitted, not written */
	bool slicing, scanned;            /* a slice is under way; all rows in memory have been emitted */
	/* The writing thread's. */
	struct checkpoint_object header;
	struct take_base result;
};

enum take_state { TAKE_BEGINNING, TAKE_WRITING, TAKE_DONE };

struct take {
	struct checkpoint_takes *takes;
	char name[WEIR_CHECKPOINT_NAME_BYTES_MAX], base[WEIR_CHECKPOINT_NAME_BYTES_MAX];
	uint64_t steps_closed;
	struct rpc_call *call; /* BEGIN's, not answered yet */
	bool behind;
	uint8_t slots[WEIR_TABLES_MAX + 1]; /* floats per element behind a value, by table */
	uint32_t parts_count;
	struct take_part *parts; /* (parts_count) */
	pthread_mutex_t lock;
	pthread_cond_t wake; /* something was emitted, a slice or the cancelling is over, the take is to end */
	/* Guarded by lock. */
	weir_error err; /* the first thing that went wrong */
	bool stop, cancelled;
	_Atomic uint64_t bytes; /* written */
};

struct checkpoint_takes {
	struct server *server;
	struct checkpoint_options options; /* with copies of what it points to */
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	/* Guarded by lock. */
	struct take *present;  /* NULL: none since the start */
	enum take_state state; /* of present */
	bool ending;
	/* Of BEGIN alone, one at a time. */
	char base[WEIR_CHECKPOINT_NAME_BYTES_MAX]; /* the checkpoint that `bases` are of */
	struct take_base *bases;                   /* (partitions) */
};

/* Starts ending the snapshots that have not ended: take's `cancelled` follows. */
weir_status checkpoint_take_cancel_snapshots(struct take *t);
/* Frees what only the writing needed: rows, states, snapshots. */
void checkpoint_take_let_go(struct take *t);
/* Writes everything, or ends the snapshots; on the writing thread. */
void checkpoint_take_write(struct take *t);

#endif
