/* The ledger: the table registry, live workers, work units and steps. It holds no rows and no
 * gradients. It decides who computes what, and when a unit, a step and a pass close.
 *
 * Single-threaded: every call runs on the ledger's own loop. Its log (ledger_log.h) consists of the
 * objects that requests change.
 *
 * Invariants:
 *   - A unit has at most one live attempt, and attempts only grow.
 *   - A committed unit is never leased again.
 *   - A watermark never moves back.
 *   - A step closes once. One record holds its included and dropped batches, and every included
 *     batch was reported done.
 *   - A server's mark never moves back. */
#ifndef WEIR_LEDGER_H
#define WEIR_LEDGER_H

#include <stdint.h>

#include "common/base/clock.h"
#include "common/base/prng.h"
#include "common/system/logger.h"
#include "proto/wire/wire.h"
#include "server/records/epochs.h"

struct ledger;
struct ledger_options {
	const struct clock *clock;
	struct entropy *entropy;
	struct logger *logger;
	uint8_t uuid[16];
	uint64_t generation;
	uint32_t lease_ms, partitions, servers_count, allow_skip;
	uint32_t passes;              /* 0: those of the first trainer */
	uint32_t progress_timeout_ms; /* 0: derived from each worker's longest batch (ledger_idle.c) */
	/* How rates scale with live trainers / `workers`. */
	enum { LEDGER_RATE_AS_IT_IS, LEDGER_RATE_LINEAR, LEDGER_RATE_SQRT } rate_rule;
	uint32_t replicas;            /* of each partition, placed by key_partition.h; 0: 1 */
	uint64_t memory_budget_bytes; /* of one server, for dense tables; 0: no limit */
	/* Trainers that the job is meant for. Scales learning rates and sizes synchronous steps. 0:
	 * unknown; the ledger waits for no trainer. */
	uint32_t workers;
	/* Clients learn these three when they join. */
	bool ack_sent;
	uint32_t read_staleness_ms;
	uint64_t read_staleness_entries;
	uint32_t patience_ms; /* how long clients wait for a lost server; 0: they decide */
	/* Process id of this process, server 0, if the ledger and the servers' state live in memory
	 * only; else 0. */
	uint64_t process_id;
	uint64_t seed; /* of the unit order */
	bool shuffle;  /* permute the units by (seed, pass) */
	/* The next pass opens only after the evaluation of this one. */
	bool gate;
	const char *const *servers;       /* (servers_count) addresses */
	const uint32_t *partition_server; /* (partitions) */
};

weir_status ledger_create(struct ledger **out, const struct ledger_options *options, weir_error *err);
/* Creates a new ledger with the options of another. */
weir_status ledger_create_like(struct ledger **out, const struct ledger *other, weir_error *err);
/* Answers every parked request (long polls). Call it before the transport that carries them stops.
 * ledger_destroy also does it. */
void ledger_close(struct ledger *l);
void ledger_destroy(struct ledger *l);

/* Answers a request, exactly once. The call may come later than the request (step, clock: long
 * polls). `reply` is borrowed. */
typedef void (*ledger_reply_fn)(void *arg, const ProtobufCMessage *reply);
/* A joining worker, as the transport knows it. */
struct ledger_peer {
	const char *address; /* without the port; "": unknown */
	uint64_t connection; /* 0: unknown */
	unsigned role;       /* of its certificate, as of peer_identity.h; 0: none */
	const char *name;    /* of its certificate; "": none */
};
void ledger_join(struct ledger *l, const Weir__V1__JoinRequest *q, const struct ledger_peer *peer, ledger_reply_fn reply,
                 void *arg); /* `peer` may be NULL: nothing is known */
void ledger_create_table(struct ledger *l, const Weir__V1__CreateTableRequest *q, ledger_reply_fn reply, void *arg);
void ledger_lease(struct ledger *l, const Weir__V1__LeaseRequest *q, ledger_reply_fn reply, void *arg);
void ledger_progress(struct ledger *l, const Weir__V1__ProgressRequest *q, ledger_reply_fn reply, void *arg);
void ledger_step(struct ledger *l, const Weir__V1__StepRequest *q, ledger_reply_fn reply, void *arg);
void ledger_clock(struct ledger *l, const Weir__V1__ClockRequest *q, ledger_reply_fn reply, void *arg);
void ledger_commit(struct ledger *l, const Weir__V1__CommitRequest *q, ledger_reply_fn reply, void *arg);
void ledger_gate(struct ledger *l, const Weir__V1__GateRequest *q, ledger_reply_fn reply, void *arg);
void ledger_leave(struct ledger *l, const Weir__V1__LeaveRequest *q, ledger_reply_fn reply, void *arg);
void ledger_status(struct ledger *l, const Weir__V1__StatusRequest *q, ledger_reply_fn reply, void *arg);
void ledger_server_mark(struct ledger *l, const Weir__V1__MarkRequest *q, ledger_reply_fn reply, void *arg);
/* Expires leases. Call it about every 100 ms. */
void ledger_tick(struct ledger *l);

/* --- State, for the log and for checkpoints: a packed LedgerState of state.proto */

/* From now on, records changes for ledger_export_changes. */
void ledger_record_changes(struct ledger *l);
/* Exports the changes since the last call. *out is NULL, with OK, if nothing changed. E_MEMORY:
 * nothing is lost; call again. */
weir_status ledger_export_changes(struct ledger *l, struct message **out, weir_error *err);
/* Makes the next ledger_export_changes export everything. */
void ledger_mark_all(struct ledger *l);
/* Exports everything, as of log index `index`. */
weir_status ledger_export_all(struct ledger *l, uint64_t index, struct message **out, weir_error *err);
/* Merges the objects of an export, from the log or a snapshot. *index receives a snapshot's index;
 * `index` may be NULL. E_CORRUPT, E_MEMORY: the ledger must not be used. */
weir_status ledger_merge(struct ledger *l, const void *bytes, size_t n, uint64_t *index, weir_error *err) WEIR_MUST_CHECK;
/* Where the epochs of its log began, as far as merged. Empty without replicas. A snapshot includes
 * them. */
void ledger_begin_epoch(struct ledger *l, uint64_t epoch, uint64_t first);
const struct epochs *ledger_epochs(const struct ledger *l);
/* Gives every live worker a whole lease term from now, after a time in which the ledger could not
 * be reached. */
void ledger_renew_all(struct ledger *l);

#endif
