/* The ledger's log on disk. What a request has changed is one entry; what is said to anybody waits until everything it may speak of is durable.
 *
 * A reply is made while its request runs, before the entry is: it is handed over here (ledger_log_reply) and belongs to the entry that the end of the
 * request appends (ledger_log_commit). Nothing else sends. One owner: the ledger's loop. */
#ifndef WEIR_LEDGER_LOG_H
#define WEIR_LEDGER_LOG_H

#include "cold_writer.h"
#include "ledger.h"
#include "log.h"

struct journal_cut;
struct ledger_log;
struct ledger_log_options {
	struct ledger *ledger;
	struct log *log; /* the ledger's channel; taken over */
	uint64_t epoch, generation;
	const struct clock *clock;
	struct logger *logger;
	struct cold_writer *writer; /* for snapshots */
	struct poster poster;       /* to the ledger's loop */
	uint32_t flush_interval_ms; /* between two snapshots; 0: only ledger_log_flush */
	/* The log cannot go on, or a snapshot cannot be written: the server must stop. */
	void (*failed)(void *arg, const weir_error *err);
	void *arg;
};
/* On failure the log is destroyed. */
struct ledger_log *ledger_log_create(const struct ledger_log_options *options, weir_error *err);
/* Needs: closed, writer destroyed, what it posted has run, and nobody waits any more. */
void ledger_log_close(struct ledger_log *l); /* nothing more is asked of the writer: it may be destroyed */
void ledger_log_destroy(struct ledger_log *l);

/* Recovery: the last snapshot's bytes first (*needs: the first entry to replay), then every entry from there, and every cut in its place, then
 * recovered. Merged is what is committed, as far as an entry says so; the tail stays in the log. Needs for recovered: there is none. */
weir_status ledger_log_restore(struct ledger *ledger, const void *bytes, size_t n, uint64_t *needs,
                               weir_error *err) WEIR_MUST_CHECK;
weir_status ledger_log_replay(struct ledger_log *l, const struct log_entry *e, weir_error *err) WEIR_MUST_CHECK;
weir_status ledger_log_replay_cut(struct ledger_log *l, const struct journal_cut *cut, weir_error *err) WEIR_MUST_CHECK;
uint64_t ledger_log_applied(const struct ledger_log *l); /* index of the last entry that the ledger has */
void ledger_log_recovered(struct ledger_log *l);

/* send(arg) runs once all that the present request changes, and everything before it, is durable. */
void ledger_log_reply(struct ledger_log *l, void (*send)(void *arg), void *arg);
/* The end of a request, or of a tick: appends what has changed. When it is the first that finds space again, all leases get whole terms. */
void ledger_log_commit(struct ledger_log *l);
/* The log has become durable further. */
void ledger_log_durable(struct ledger_log *l);
/* Whether a full disk holds it up: nothing is said to anybody, so nobody's lease may expire. */
bool ledger_log_is_blocked(struct ledger_log *l);
void ledger_log_tick(struct ledger_log *l, int64_t now_ms);
/* Writes a snapshot and lets the log be truncated. False: one is under way, or nothing has changed. done (NULL allowed) runs when it is over. */
bool ledger_log_flush(struct ledger_log *l, void (*done)(void *arg), void *arg);
/* The last snapshot has nothing of it, whatever was merged: it comes from a checkpoint. The next one is then of all, also with an empty log. */
void ledger_log_set_unflushed(struct ledger_log *l);
bool ledger_log_is_flushed(const struct ledger_log *l); /* whether the last snapshot has all there is */
/* Drops what waits: drop(arg) of each, which must end its call without saying anything. */
void ledger_log_abandon(struct ledger_log *l, void (*drop)(void *arg));

#endif
