/* The job whose crashes are looked at: one real server with its log on disk, over rpc_memory, and one trainer. Small, and yet all that a server does to its
 * disk happens: rows leave memory, flushes, a journal of several segments whose oldest are deleted, compaction, snapshots of the ledger, a recovery.
 *
 * Every push adds whole numbers under SGD of rate 1, so rows are exact sums over the batches that a partition has applied. */
#ifndef WEIR_SCENARIO_H
#define WEIR_SCENARIO_H

#include <stdbool.h>
#include <stdint.h>

#include "server/service/server.h"
#include "worker/client/client.h"

enum {
	PARTITIONS = 2,
	PASSES = 2,
	UNITS = 4, /* of a pass */
	BATCHES = 4,
	KEYS = 12, /* of a batch; enough that every partition has some */
	KEY_SPACE = 96,
	WIDTH = 3,
	DENSE = 24 /* elements of both dense tables */
};

struct job {
	struct rpc *rpc;
	struct server *server;
	weir_client *client;
	uint32_t rows, dense, stepped; /* tables: embedding and dense, asynchronous; dense, synchronous */
	uint32_t trained;              /* so many of them, from the first */
};

struct job_options {
	const char *folder;
	void (*failed)(void *arg, const weir_error *err); /* told of a failure of the server's storage later on */
	uint8_t machine_boot;                             /* since which boot of the machine the server runs; 0: not known */
	bool
	    cached; /* pushes are acknowledged from the page cache, but for those to the synchronous table, which is left out; else from the disk */
};
/* Starts the server on the folder. */
weir_status job_start(struct job *j, const struct job_options *options, weir_error *err);
/* Joins as the job's trainer, in the place of one that was there before, and registers the tables. */
weir_status job_join(struct job *j, weir_error *err);
/* Ends all that was started. */
void job_stop(struct job *j);

/* The keys of a batch (KEYS, distinct), and what it adds to each of their elements and to every element of the dense tables. */
void batch_keys(uint32_t pass, uint32_t unit, uint32_t batch, uint64_t *keys);
float batch_value(uint32_t pass, uint32_t unit, uint32_t batch);

/* What a trainer tells, each may be NULL, and what it does besides. */
struct job_events {
	void (*leased)(void *arg, uint32_t pass, uint32_t unit);
	void (*acknowledged)(void *arg, uint32_t pass, uint32_t unit, uint32_t batch);
	void (*committed)(void *arg, uint32_t pass, uint32_t unit);
	void *arg;
	bool flush;      /* the partitions in the middle of every unit, the ledger behind it */
	uint32_t pushes; /* ends with E_CANCELLED once so many have been sent, the last not waited for; 0: trains to the end */
};
weir_status job_train(struct job *j, const struct job_events *events, weir_error *err);

uint64_t job_rows_dropped(struct job *j); /* that have left memory */

/* Everything in all tables. */
struct job_values {
	float rows[KEY_SPACE][WIDTH], dense[DENSE], stepped[DENSE];
};
weir_status job_read(struct job *j, struct job_values *out, weir_error *err);

/* What a partition says it has of each batch. */
struct job_applied {
	bool known[PASSES][UNITS][BATCHES];   /* its part of the asynchronous tables, which is applied at once */
	bool waiting[PASSES][UNITS][BATCHES]; /* its part of the synchronous table, whose step has not closed */
	bool stepped[PASSES][UNITS][BATCHES]; /* and has closed */
	uint64_t index, parts_double;
};
uint32_t job_step_partition(const struct job *j); /* has the synchronous table */
void job_applied(struct job *j, uint32_t partition, struct job_applied *out);
/* The values that partitions which have applied this must hold. */
void job_expected(const struct job *j, const struct job_applied applied[PARTITIONS], struct job_values *out);

#endif
