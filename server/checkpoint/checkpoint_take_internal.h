/* What checkpoint_take.c (begin, poll, end) and checkpoint_take_write.c (the writing thread) share. Nobody else includes this. */
#ifndef WEIR_CHECKPOINT_TAKE_INTERNAL_H
#define WEIR_CHECKPOINT_TAKE_INTERNAL_H

#include "server/checkpoint/checkpoint_take.h"
#include "server/context/context.h"
#include "server/store/store_stream.h"

/* The row files of a partition in a published checkpoint, on which the next one may build. */
struct take_base {
	uint64_t epoch, index, removed; /* epoch: of the primary that wrote it; removed: rows that were, ever */
	uint32_t count;
	struct checkpoint_object chain[WEIR_CHECKPOINT_CHAIN_MAX]; /* (count) */
};

struct take_part {
	struct take *take;
	uint32_t id;
	struct executor *executor;
	/* Set by begin, on the executor. */
	bool serves;                           /* this server is its primary; else it is left out */
	uint64_t epoch, index, removed, floor; /* floor: rows of versions up to it are in the chain already; 0: they are not */
	struct message *state;
	struct store_stream *rows; /* NULL: it could not begin */
	bool ready;                /* guarded by take's lock: `rows` may have something */
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
	struct take_part *parts; /* (parts_count) of the partitions here; once begun, of those that it serves */
	pthread_mutex_t lock;
	pthread_cond_t wake; /* rows are ready, a stream of them has ended, the take is to end */
	/* Guarded by lock. */
	weir_error err;   /* the first thing that went wrong */
	uint32_t streams; /* that have begun and not ended */
	bool stop;
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
	char asked[WEIR_CHECKPOINT_NAME_BYTES_MAX]; /* the checkpoint that was asked for last, */
	uint64_t *found;                            /* (partitions) and where their logs ended when it was first; 0: not looked at */
	char base[WEIR_CHECKPOINT_NAME_BYTES_MAX];  /* the checkpoint that `bases` are of */
	struct take_base *bases;                    /* (partitions) */
};

/* Frees what only the writing needed. */
void checkpoint_take_let_go(struct take *t);
/* Writes everything, or as far as it goes, and ends the streams; on the writing thread. */
void checkpoint_take_write(struct take *t);

#endif
