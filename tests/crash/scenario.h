/* The job of the crash tests: one real server with its log on disk, over rpc_memory, and one
 * trainer. It is small, but covers all that a server does to its disk: row eviction, flushes, a
 * journal of several segments whose oldest are deleted, compaction, snapshots of the ledger, a
 * recovery.
 *
 * Every push adds whole numbers under SGD of rate 1, so rows are exact sums over the batches that a
 * partition has applied. */
#ifndef WEIR_SCENARIO_H
#define WEIR_SCENARIO_H

#include <stdbool.h>
#include <stdint.h>

#include "server/service/server.h"
#include "worker/client/client.h"

enum {
	PARTITIONS = 2,
	PASSES = 2,
	UNITS = 4, /* per pass */
	BATCHES = 4,
	KEYS = 12, /* per batch; enough that every partition has some */
	KEY_SPACE = 96,
	WIDTH = 3,
	DENSE = 24 /* elements of both dense tables */
};

struct job {
	struct rpc *rpc;
	struct server *server;
	weir_client *client;
	/* tables: embedding and dense, asynchronous; dense, synchronous. */
	uint32_t rows, dense, stepped;
	uint32_t trained; /* number of trained tables, from the first */
};

struct job_options {
	const char *folder;
	/* Reports a later failure of the server's storage. */
	void (*failed)(void *arg, const weir_error *err);
	/* The boot of the machine in which the server runs; 0: unknown. */
	uint8_t machine_boot;
	bool
	    /* Acknowledges pushes from the page cache instead of the disk. Leaves the synchronous table
	     * out, which cannot do that. */
	    cached;
};
/* Starts the server on the folder. */
weir_status job_start(struct job *j, const struct job_options *options, weir_error *err);
/* Joins as the job's trainer, in place of an earlier one, and registers the tables. */
weir_status job_join(struct job *j, weir_error *err);
/* Stops everything that was started. */
void job_stop(struct job *j);

/* A batch's keys (KEYS, distinct), and the amount that it adds to each of their elements and to
 * every element of the dense tables. */
void batch_keys(uint32_t pass, uint32_t unit, uint32_t batch, uint64_t *keys);
float batch_value(uint32_t pass, uint32_t unit, uint32_t batch);

/* Callbacks of the trainer, each of which may be NULL, and its options. */
struct job_events {
	void (*leased)(void *arg, uint32_t pass, uint32_t unit);
	void (*acknowledged)(void *arg, uint32_t pass, uint32_t unit, uint32_t batch);
	void (*committed)(void *arg, uint32_t pass, uint32_t unit);
	void *arg;
	bool flush; /* flushes the partitions in the middle of every unit, and the ledger after it */
	/* After this many pushes, ends with E_CANCELLED without waiting for the last one. 0: trains to
	 * the end. */
	uint32_t pushes;
};
weir_status job_train(struct job *j, const struct job_events *events, weir_error *err);

uint64_t job_rows_dropped(struct job *j); /* number of rows that left memory */

/* All values of all tables. */
struct job_values {
	float rows[KEY_SPACE][WIDTH], dense[DENSE], stepped[DENSE];
};
weir_status job_read(struct job *j, struct job_values *out, weir_error *err);

/* Which batches a partition has applied, by its own account. */
struct job_applied {
	bool known[PASSES][UNITS][BATCHES]; /* its part of the asynchronous tables, applied at once */
	/* Its part of the synchronous table, waiting for its step's close. */
	bool waiting[PASSES][UNITS][BATCHES];
	bool stepped[PASSES][UNITS][BATCHES]; /* the same after the close */
	uint64_t index, parts_double;
};
uint32_t job_step_partition(const struct job *j); /* the partition of the synchronous table */
void job_applied(struct job *j, uint32_t partition, struct job_applied *out);
/* The values that partitions must hold after applying these batches. */
void job_expected(const struct job *j, const struct job_applied applied[PARTITIONS], struct job_values *out);

#endif
