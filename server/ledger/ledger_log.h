/* The ledger's log. What a request has changed is one entry; what is said to anybody waits until everything it may speak of stays, whatever happens: is
 * durable or, where the ledger has replicas on other servers, committed.
 *
 * A reply is made while its request runs, before the entry is: it is handed over here (ledger_log_reply) and belongs to the entry that the end of the
 * request appends (ledger_log_commit). Nothing else sends. One owner: the ledger's loop. */
#ifndef WEIR_LEDGER_LOG_H
#define WEIR_LEDGER_LOG_H

#include "server/ledger/ledger.h"
#include "server/log/log.h"
#include "server/replica/replica.h"
#include "server/store/cold_writer.h"

struct journal_cut;
struct ledger_log;
struct ledger_log_options {
	struct ledger *ledger;
	struct log *log; /* the ledger's channel; taken over */
	uint64_t epoch, generation;
	const struct clock *clock;
	struct logger *logger;
	struct cold_writer *writer; /* for snapshots; NULL: they stay in memory */
	struct poster poster;       /* to the ledger's loop */
	uint32_t flush_interval_ms; /* between two snapshots; 0: only ledger_log_flush */
	bool replicated;            /* the last part of this header is used */
	uint64_t backlog_bytes;     /* of entries that are kept in memory then; 0: WEIR_LEDGER_LOG_BYTES */
	bool ack_disk;              /* then: replies wait until it is on the disks of the replicas, too */
	/* An entry of this primary is in the log. Where it is replicated. */
	void (*appended)(void *arg, uint64_t index);
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

/* --- With replicas (ledger_role.c). Of a replica that is not primary, or does not serve yet, the ledger is what is committed. */

/* Once: the snapshot that the ledger was restored from. Taken over. */
void ledger_log_set_base(struct ledger_log *l, struct message *state);
void ledger_log_find(const struct ledger_log *l, struct replica_found *found);
/* replication_subject's store, truncate, commit, begin, serve, step_down, entry and durable. */
weir_status ledger_log_take(struct ledger_log *l, const struct log_entry *e, weir_error *err);
weir_status ledger_log_truncate(struct ledger_log *l, uint64_t last, weir_error *err);
void ledger_log_commit_to(struct ledger_log *l, uint64_t index);
void ledger_log_begin(struct ledger_log *l, uint64_t epoch);
void ledger_log_serve(struct ledger_log *l);
void ledger_log_on_disks(struct ledger_log *l, uint64_t index); /* what replica_on_disks says now */
/* drop(arg) of each who waits. Returns the ledger, which may be another one from now on: what was decided and is not committed has not happened. */
struct ledger *ledger_log_step_down(struct ledger_log *l, void (*drop)(void *arg));
const struct log_entry *ledger_log_entry(struct ledger_log *l, uint64_t index);
uint64_t ledger_log_durable_index(const struct ledger_log *l);
/* From a tick. */
void ledger_log_begin_again(struct ledger_log *l); /* if there was no space to begin */
uint64_t ledger_log_trim(struct ledger_log *l,
                         uint64_t owed); /* lets go of old entries in memory below `owed`; the first that is left */
bool ledger_log_serves(const struct ledger_log *l);
/* For snapshots (ledger_snapshot.h). The last one, what is committed up to *index, to be released; NULL: there is none. */
struct message *ledger_log_base(const struct ledger_log *l, uint64_t *index);
struct log *ledger_log_entries(struct ledger_log *l);
struct ledger *ledger_log_ledger(const struct ledger_log *l);
void ledger_log_halt(struct ledger_log *l);           /* nothing is written any more, until ledger_log_renew */
bool ledger_log_is_still(const struct ledger_log *l); /* halted, and nothing is being written */
/* The ledger is made anew: of a snapshot up to index, which is taken over, or of nothing (NULL, 0). The log has been restarted behind it. E_MEMORY, E_CORRUPT:
 * final. */
weir_status ledger_log_renew(struct ledger_log *l, struct message *state, uint64_t index, weir_error *err);
void ledger_log_fail(struct ledger_log *l, const weir_error *err); /* the server must stop */

#endif
