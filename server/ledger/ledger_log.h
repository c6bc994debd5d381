/* The ledger's log. The changes of one request form one entry. Every reply waits until all state it
 * may speak of is permanent: durable or, if the ledger has replicas on other servers, committed.
 *
 * A request makes its reply before its entry exists. The reply is handed over here
 * (ledger_log_reply) and belongs to the entry that ledger_log_commit appends at the end of the
 * request. Nothing else sends. One owner: the ledger's loop. */
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
	struct log *log; /* the ledger's channel; owned */
	uint64_t epoch, generation;
	const struct clock *clock;
	struct logger *logger;
	struct cold_writer *writer;      /* for snapshots; NULL: they stay in memory */
	struct callback_executor run_on; /* to the ledger's loop */
	uint32_t flush_interval_ms;      /* between two snapshots; 0: only ledger_log_flush */
	bool replicated;                 /* the last part of this header applies */
	/* If replicated: entries kept in memory; 0: WEIR_LEDGER_LOG_BYTES. */
	uint64_t backlog_bytes;
	bool ack_disk; /* if replicated: replies also wait for the replicas' disks */
	/* An entry of this primary is in the log. Only if replicated. */
	void (*appended)(void *arg, uint64_t index);
	/* The log cannot continue, or a snapshot cannot be written: the server must stop. */
	void (*failed)(void *arg, const weir_error *err);
	void *arg;
};
/* On failure the log is destroyed. */
struct ledger_log *ledger_log_create(const struct ledger_log_options *options, weir_error *err);
/* ledger_log_close asks nothing more of the writer, which may then be destroyed.
 * ledger_log_destroy requires: the log is closed, the writer is destroyed, all that it posted has
 * run, and no reply waits. */
void ledger_log_close(struct ledger_log *l);
void ledger_log_destroy(struct ledger_log *l);

/* Recovery. First the bytes of the last snapshot (*needs: the first entry to replay), then every
 * entry from there with every cut in its place, then ledger_log_recovered. Merges what is
 * committed, as far as entries say so; the tail stays in the log. With one copy,
 * ledger_log_recovered requires that there is no tail. */
weir_status ledger_log_restore(struct ledger *ledger, const void *bytes, size_t n, uint64_t *needs,
                               weir_error *err) WEIR_MUST_CHECK;
weir_status ledger_log_replay(struct ledger_log *l, const struct log_entry *e, weir_error *err) WEIR_MUST_CHECK;
weir_status ledger_log_replay_cut(struct ledger_log *l, const struct journal_cut *cut, weir_error *err) WEIR_MUST_CHECK;
uint64_t ledger_log_applied(const struct ledger_log *l); /* last entry merged into the ledger */
void ledger_log_recovered(struct ledger_log *l);

/* send(arg) runs once the changes of the present request, and everything before it, are
 * permanent. */
void ledger_log_reply(struct ledger_log *l, void (*send)(void *arg), void *arg);
/* Ends a request or a tick: appends the changes. The first call that finds space again renews all
 * leases for a whole term. */
void ledger_log_commit(struct ledger_log *l);
/* The log has become durable further. */
void ledger_log_durable(struct ledger_log *l);
/* Whether a full disk or lack of memory holds the log up. Nobody gets a reply then, so no lease may
 * expire. */
bool ledger_log_is_blocked(struct ledger_log *l);
void ledger_log_tick(struct ledger_log *l, int64_t now_ms);
/* Writes a snapshot and lets the log be truncated. False: a snapshot is under way, or nothing
 * changed. `done` (may be NULL) runs when it ends. */
bool ledger_log_flush(struct ledger_log *l, void (*done)(void *arg), void *arg);
/* The last snapshot has nothing of the ledger's state, because the state comes from a checkpoint.
 * The next snapshot covers all of it, even with an empty log. */
void ledger_log_set_unflushed(struct ledger_log *l);
/* Whether the last snapshot has everything. */
bool ledger_log_is_flushed(const struct ledger_log *l);
/* Drops the waiting replies: calls drop(arg) for each, which must end its call without a reply. */
void ledger_log_abandon(struct ledger_log *l, void (*drop)(void *arg));

/* --- With replicas (ledger_role.c). If the replica is not primary or does not serve yet, the
 * ledger is the committed state. */

/* Sets the snapshot that the ledger was restored from. Once; owned. */
void ledger_log_set_base(struct ledger_log *l, struct message *state);
void ledger_log_find(const struct ledger_log *l, struct replica_found *found);
/* The store, truncate, commit, begin, serve, step_down, entry and durable of
 * replication_subject_ops. */
weir_status ledger_log_take(struct ledger_log *l, const struct log_entry *e, weir_error *err);
weir_status ledger_log_truncate(struct ledger_log *l, uint64_t last, weir_error *err);
void ledger_log_commit_to(struct ledger_log *l, uint64_t index);
void ledger_log_begin(struct ledger_log *l, uint64_t epoch);
void ledger_log_serve(struct ledger_log *l);
void ledger_log_on_disks(struct ledger_log *l, uint64_t index); /* the present replica_on_disks */
/* Calls drop(arg) for each waiting reply. Returns the ledger, which may be a new one from now on:
 * decisions that are not committed have not happened. */
struct ledger *ledger_log_step_down(struct ledger_log *l, void (*drop)(void *arg));
const struct log_entry *ledger_log_entry(struct ledger_log *l, uint64_t index);
uint64_t ledger_log_durable_index(const struct ledger_log *l);
/* From a tick: */
void ledger_log_begin_again(struct ledger_log *l); /* retries if there was no space to begin */
/* Releases old entries in memory below `owed`. Returns the first entry that is left. */
uint64_t ledger_log_trim(struct ledger_log *l, uint64_t owed);
bool ledger_log_serves(const struct ledger_log *l);
/* For snapshots (ledger_snapshot.h). Returns the last one, which holds the committed state up to
 * *index; the caller releases it. NULL: none. */
struct message *ledger_log_base(const struct ledger_log *l, uint64_t *index);
struct log *ledger_log_entries(struct ledger_log *l);
struct ledger *ledger_log_ledger(const struct ledger_log *l);
void ledger_log_halt(struct ledger_log *l);           /* stops all writing until ledger_log_renew */
bool ledger_log_is_still(const struct ledger_log *l); /* halted, and no write is under way */
/* Rebuilds the ledger from a snapshot up to `index` (owned), or from nothing (NULL, 0). The log has
 * been restarted behind it. E_MEMORY, E_CORRUPT: final. */
weir_status ledger_log_renew(struct ledger_log *l, struct message *state, uint64_t index, weir_error *err);
void ledger_log_fail(struct ledger_log *l, const weir_error *err); /* the server must stop */

#endif
