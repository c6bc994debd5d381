/* Replicas of a partition prove to each other that they are equal. Now and then the primary appends a SCRUB entry. Each replica that applies it takes two hashes of
 * what it has at exactly that index, whatever of it is in memory or below:
 *
 *   rows     of every row of the entry's slice (row_slice.h): its name, version, state, value and slots, as row_batch.h has them, in no order
 *   state    of all else that is a function of the log (partition_state.h): epochs, identities, steps, clocks, counters
 *
 * Equal logs give equal hashes. The rows are copied as they were and hashed elsewhere (scrub_reader.h), so that the partition goes on. The others tell the
 * primary theirs, which compares. Hashes that differ are an error that names partition, slice and servers, and one replica begins anew: one that differs from the primary; the
 * primary itself, which steps down, where more of the others agree on something else. With two replicas nobody knows who is right, and the primary's counts.
 *
 * What is told may get lost: it is told again, once a second, for as long as anybody may wait for it.
 *
 * A replica that cannot take a hash says so, with hashes of 0: it has restarted and does not have all of its log applied again, is copying its rows for something
 * else, or has not done with the entry before. It is not compared, nor is what has not come after WEIR_SCRUB_PATIENCE_MS.
 *
 * One owner: the partition's thread. None of the calls comes from inside a function of the replication, but for scrub_applied. */
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
	uint64_t index; /* 0: there was no scrub, as this is not the primary, or it ends */
	uint32_t count;
	struct scrub_hash of[WEIR_REPLICAS_MAX]; /* (count) who has answered */
};
typedef void (*scrub_done_fn)(void *arg, const struct scrub_report *report);

struct scrub_options {
	struct partition *partition;
	struct replication *replication;
	struct scrub_reader *reader;
	struct cold *cold;    /* of the partition's store; NULL: every row is in memory */
	uint16_t self;        /* this server */
	uint32_t interval_ms; /* between two entries for a slice; 0: none but scrub_ask's */
	const struct clock *clock;
	struct poster owner; /* to its thread */
	struct logger *logger;
	void (*send)(void *arg, const struct replica_message *m); /* to m->to; it may get lost */
	/* The server stays from enter to leave. */
	void (*enter)(void *arg);
	void (*leave)(void *arg);
	void *arg;
};

/* The primary's; the thread writes them, anyone may read. */
struct scrub_counters {
	_Atomic uint64_t compared, differ; /* entries at which replicas were compared, and at which some were not equal */
};

struct scrub {
	struct scrub_options options;
	struct scrub_counters counters;
	/* Ours. What is being hashed; index 0: nothing is, or nobody wants it any more. */
	struct scrub_read read;
	bool is_reading;
	uint64_t index, state;
	/* What was told last of this replica; index 0: nothing, or nobody waits for it any more. */
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
		struct member_set awaited, mute; /* mute: those that could not take a hash */
		int64_t until_ms;
	} round;
	uint32_t slice;      /* the next one's number, */
	int64_t next_ms;     /* and when; 0: not known yet */
	scrub_done_fn asked; /* NULL: nobody has */
	void *asked_arg;
	bool is_asked_of; /* the round is the one that was asked for */
	bool stopped;
};

void scrub_init(struct scrub *s, const struct scrub_options *options);
/* All rows at one index, now, and what every replica says of them; `done` comes once, maybe before this returns. E_BUSY: somebody has asked. */
weir_status scrub_ask(struct scrub *s, scrub_done_fn done, void *arg) WEIR_MUST_CHECK;
void scrub_applied(struct scrub *s, const struct log_entry *e, bool exact); /* partition_options.scrub */
void scrub_received(struct scrub *s, const struct replica_message *m);      /* a SCRUBBED */
void scrub_tick(struct scrub *s);                                           /* every 100 ms or so */
/* What is being hashed is of no use any more: the rows are about to go. */
void scrub_cancel(struct scrub *s);
/* Nothing begins any more; who has asked is told what there is. Again: nothing. */
void scrub_stop(struct scrub *s);

#endif
