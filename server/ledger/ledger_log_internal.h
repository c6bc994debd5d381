/* Shared by ledger_log.c (entries, replies, snapshots, recovery) and ledger_log_replica.c
 * (replication to other servers). Nothing else includes this. */
#ifndef WEIR_LEDGER_LOG_INTERNAL_H
#define WEIR_LEDGER_LOG_INTERNAL_H

#include "server/ledger/ledger_log.h"

struct held_reply {
	struct held_reply *next;
	/* Of the entry that the reply waits for. UNSEALED: the entry that the running request will
	 * append. */
	uint64_t index;
	void (*send)(void *arg);
	void *arg;
};

struct ledger_log {
	struct ledger_log_options options;
	/* Last index in the ledger; after recovery with one copy, also the last in the log. */
	uint64_t applied;
	uint64_t flushed;        /* covered by the last snapshot */
	bool unflushed;          /* no snapshot yet, not even of the initial state */
	struct message *refused; /* an entry that found the disk full */
	bool recovered, closed;  /* no append before recovered, no snapshot after closed */
	/* No memory to export the changes: nothing is sent until there is. */
	bool running_out;
	struct held_reply *held, **end; /* indices rise; replies of the running request are last */
	struct record_writer *writer;
	struct {                 /* the snapshot under way */
		bool running, begun; /* begun: it is being written, as the log is safe up to index */
		uint64_t index;
		struct message *state;
		struct cold_write write, sync;
		void (*done)(void *arg);
		void *arg;
		int64_t next_ms;
	} flush;
	/* With replicas: */
	uint64_t epoch; /* of this primary */
	uint64_t committed, on_disks;
	bool beginning, serving; /* beginning: its first entry waits for space */
	struct message *base;    /* snapshot of the committed state up to base_index; NULL: none, 0 */
	uint64_t base_index;
	uint64_t kept_bytes;  /* of the entries in memory */
	uint64_t since_bytes; /* of the entries since the last snapshot, about */
	bool halted;
	bool broken; /* `failed` has been called: nothing is done any more */
};

/* Appends the entry to the log. Errors as of log_ops.append. */
weir_status ledger_log_append(struct ledger_log *l, const struct log_entry *e, weir_error *err);
/* Returns the header of this primary's next entry. */
struct log_entry ledger_log_entry_next(struct ledger_log *l);
weir_status ledger_log_merge_next(struct ledger_log *l, weir_error *err);
/* Runs all that waited and may go now: replies, the snapshot. */
void ledger_log_go_on(struct ledger_log *l);
uint64_t ledger_log_backlog(const struct ledger_log *l); /* bytes */
/* Gives up the snapshot under way, if no byte of it is written yet. */
void ledger_log_drop_flush(struct ledger_log *l);

#endif
