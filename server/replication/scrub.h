/* Verifies that the replicas of a partition are equal. From time to time the primary appends a
 * SCRUB entry. Each replica that applies it computes two hashes of its state at exactly that index,
 * in memory and below:
 *
 *   rows     all rows of the entry's slice (row_slice.h): name, version, state, value and slots, as
 *            in row_batch.h, in any order
 *   state    everything else that is a function of the log (partition_state.h): epochs, dedup
 *            table, steps, clocks, counters
 *
 * Equal logs give equal hashes. The rows are copied as they were and hashed on another thread
 * (scrub_reader.h), so the partition continues. The other replicas send their hashes to the
 * primary, which compares. A difference is an error that names partition, slice and servers. One
 * replica then begins anew: one that differs from the primary, or the primary itself, which first
 * steps down, if more of the others agree on another hash. With two replicas nobody knows which is
 * right, and the primary's counts.
 *
 * Hashes may get lost on the way, so a replica sends them again once a second while the primary may
 * still wait.
 *
 * A replica that cannot compute a hash sends hashes of 0. It has restarted and not yet applied all
 * of its log again, or is copying its rows for another purpose, or has not finished the previous
 * entry. It is not compared. Nor is a hash that arrives after WEIR_SCRUB_PATIENCE_MS.
 *
 * One owner: the partition's thread. Functions of the replication may call only scrub_applied. */
#ifndef WEIR_SCRUB_H
#define WEIR_SCRUB_H

#include <stdatomic.h>

#include "common/base/limits.h"
#include "server/partition/partition.h"
#include "server/replication/replication.h"
#include "server/replication/scrub_reader.h"

struct scrub_hash {
	uint16_t server;
	uint64_t rows, state;
};

struct scrub_report {
	uint64_t index; /* 0: no scrub, because this is not the primary, or it stops */
	uint32_t count;
	struct scrub_hash of[WEIR_REPLICAS_MAX]; /* (count) of the replicas that have answered */
};
typedef void (*scrub_done_fn)(void *arg, const struct scrub_report *report);

struct scrub_options {
	struct partition *partition;
	struct replication *replication;
	struct scrub_reader *reader;
	struct cold *cold;    /* of the partition's store; NULL: all rows are in memory */
	uint16_t self;        /* this server */
	uint32_t interval_ms; /* between two entries for a slice; 0: only scrub_ask's */
	const struct clock *clock;
	struct callback_executor owner; /* posts to the owner's thread */
	struct logger *logger;
	void (*send)(void *arg, const struct replica_message *m); /* to m->to; may be lost */
	/* The server must exist from enter to leave. */
	void (*enter)(void *arg);
	void (*leave)(void *arg);
	void *arg;
};

/* The primary's. The owner's thread writes them; any thread may read them. */
struct scrub_counters {
	/* Entries at which replicas were compared, and those with a difference. */
	_Atomic uint64_t compared, differ;
};

struct scrub {
	struct scrub_options options;
	struct scrub_counters counters;
	/* Private. What is being hashed; index 0: nothing, or it is not needed any more. */
	struct scrub_read read;
	bool is_reading;
	uint64_t index, state;
	/* The hash last sent by this replica; index 0: none, or nobody waits for it. */
	struct {
		uint64_t index;
		struct scrub_hash hash;
		int64_t again_ms, until_ms;
	} told;
	/* The primary's entry that is being compared; report.index 0: none. */
	struct {
		struct scrub_report report;
		uint64_t epoch;
		struct row_slice slice;
		struct member_set awaited, mute; /* mute: those that could not compute a hash */
		int64_t until_ms;
	} round;
	uint32_t slice;      /* number of the next one */
	int64_t next_ms;     /* when the next one is due; 0: not known yet */
	scrub_done_fn asked; /* NULL: no request */
	void *asked_arg;
	bool is_asked_of; /* the round is the requested one */
	bool stopped;
};

void scrub_init(struct scrub *s, const struct scrub_options *options);
/* Scrubs all rows at one index now, and reports the hashes of all replicas. `done` runs once, maybe
 * before this returns. E_BUSY: another request is pending. */
weir_status scrub_ask(struct scrub *s, scrub_done_fn done, void *arg) WEIR_MUST_CHECK;
/* partition_host_ops.scrub */
void scrub_applied(struct scrub *s, const struct log_entry *e, bool exact);
void scrub_received(struct scrub *s, const struct replica_message *m); /* a SCRUBBED message */
void scrub_tick(struct scrub *s);                                      /* about every 100 ms */
/* Cancels the hash under way, because the rows are about to go. */
void scrub_cancel(struct scrub *s);
/* Stops for good. Answers a pending request with an empty report. Does nothing when called
 * again. */
void scrub_stop(struct scrub *s);

#endif
