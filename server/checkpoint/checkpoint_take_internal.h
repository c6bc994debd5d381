/* Internals shared by checkpoint_take.c (begin, poll, end) and checkpoint_take_write.c (the writing
 * thread). Only these files include it. */
#ifndef WEIR_CHECKPOINT_TAKE_INTERNAL_H
#define WEIR_CHECKPOINT_TAKE_INTERNAL_H

#include "server/checkpoint/checkpoint_take.h"
#include "server/context/context.h"
#include "server/store/store_stream.h"

/* The row files of a partition in a published checkpoint, which the next checkpoint may build
 * on. */
struct take_base {
	/* epoch: of the primary that wrote it; removed: total of removed rows. */
	uint64_t epoch, index, removed;
	uint32_t count;
	struct checkpoint_object chain[WEIR_CHECKPOINT_CHAIN_MAX]; /* (count) */
};

struct take_part {
	struct take *take;
	uint32_t id;
	struct executor *executor;
	/* Set by begin, on the executor. */
	bool serves; /* this server is its primary; else it is left out */
	/* floor: the chain already contains the rows with versions up to it; 0: it does not. */
	uint64_t epoch, index, removed, floor;
	struct message *state;
	struct store_stream *rows; /* NULL: the stream could not begin */
	bool ready;                /* guarded by take's lock: `rows` may have rows */
	/* The writing thread's. */
	struct checkpoint_object header;
	struct take_base result;
};

enum take_state { TAKE_BEGINNING, TAKE_WRITING, TAKE_DONE };

struct take {
	struct checkpoint_takes *takes;
	char name[WEIR_CHECKPOINT_NAME_BYTES_MAX], base[WEIR_CHECKPOINT_NAME_BYTES_MAX];
	uint64_t steps_closed;
	struct rpc_call *call; /* of BEGIN, until answered */
	bool behind;
	uint8_t slots[WEIR_TABLES_MAX + 1]; /* floats per element besides a value, by table */
	uint32_t parts_count;
	/* (parts_count) at first all partitions of this server; after begin, those it is primary of. */
	struct take_part *parts;
	pthread_mutex_t lock;
	pthread_cond_t wake; /* rows are ready, a stream of rows has ended, or the take must end */
	/* Guarded by lock. */
	weir_error err;   /* the first error */
	uint32_t streams; /* begun and not ended */
	bool stop;
	_Atomic uint64_t bytes; /* written */
};

struct checkpoint_takes {
	struct server *server;
	struct checkpoint_options options; /* with copies of its texts */
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	/* Guarded by lock. */
	struct take *present;  /* NULL: none since the start */
	enum take_state state; /* of present */
	bool ending;
	/* Used by BEGIN only, one at a time. */
	char asked[WEIR_CHECKPOINT_NAME_BYTES_MAX]; /* name of the checkpoint requested last */
	/* (partitions) ends of the logs at the first request for `asked`; 0: not recorded. */
	uint64_t *found;
	char base[WEIR_CHECKPOINT_NAME_BYTES_MAX]; /* the checkpoint of `bases` */
	struct take_base *bases;                   /* (partitions) */
};

/* Frees the data that only writing needs. */
void checkpoint_take_let_go(struct take *t);
/* Writes everything, or as much as succeeds, and ends the streams; on the writing thread. */
void checkpoint_take_write(struct take *t);

#endif
