/* What ledger_log.c (entries, replies, snapshots, recovery) and ledger_log_replica.c (what other servers' replicas make of it) share, and nobody else. */
#ifndef WEIR_LEDGER_LOG_INTERNAL_H
#define WEIR_LEDGER_LOG_INTERNAL_H

#include "server/ledger/ledger_log.h"

struct held_reply {
	struct held_reply *next;
	uint64_t index; /* of the entry it waits for; UNSEALED: of the one that the running request will append */
	void (*send)(void *arg);
	void *arg;
};

struct ledger_log {
	struct ledger_log_options options;
	uint64_t applied;               /* last index that the ledger has; once recovered with one copy, in the log */
	uint64_t flushed;               /* that the last snapshot covers */
	bool unflushed;                 /* there was none: not even what it began with is in one */
	struct message *refused;        /* an entry that found the disk full */
	bool recovered, closed;         /* nothing is appended before, no snapshot written after */
	bool running_out;               /* no memory to write down what has changed: nothing is sent until there is */
	struct held_reply *held, **end; /* indices rise; those that wait for the running request are last */
	struct record_writer *writer;
	struct {                 /* the snapshot under way */
		bool running, begun; /* begun: being written, as the log is safe up to index */
		uint64_t index;
		struct message *state;
		struct cold_write write, sync;
		void (*done)(void *arg);
		void *arg;
		int64_t next_ms;
	} flush;
	/* With replicas. */
	uint64_t epoch; /* of this primary */
	uint64_t committed, on_disks;
	bool beginning, serving; /* its first entry waits for space; requests are taken */
	struct message *base;    /* a snapshot of what is committed up to base_index; NULL: nothing, 0 */
	uint64_t base_index;
	uint64_t kept_bytes;  /* of the entries in memory, */
	uint64_t since_bytes; /* of those that the last snapshot has not, about */
	bool halted;
	bool broken; /* `failed` has been told: nothing is done any more */
};

/* The entry goes behind the log. Errors as of log_ops.append. */
weir_status ledger_log_append(struct ledger_log *l, const struct log_entry *e, weir_error *err);
/* An entry of ours: its place. */
struct log_entry ledger_log_entry_next(struct ledger_log *l);
weir_status ledger_log_merge_next(struct ledger_log *l, weir_error *err);
/* What waits and may go now: replies, the snapshot. */
void ledger_log_go_on(struct ledger_log *l);
uint64_t ledger_log_backlog(const struct ledger_log *l); /* bytes */
/* The snapshot under way is given up, if nothing of it is written yet. */
void ledger_log_drop_flush(struct ledger_log *l);

#endif
