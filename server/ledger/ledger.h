/* The ledger: table registry, live workers, work units, steps. No rows, no gradients. It decides
 * who computes what, and when a unit, a step and a pass are closed. Single-threaded: everything is
 * called on the ledger's own loop. Its log (ledger_log.h) is made of the objects that a request has
 * changed.
 *
 * * Invariants: a unit has at most one live attempt; attempts only grow; a committed unit is
 * never leased again; a watermark never moves back; a step is closed once, with its included and
 * dropped batches in one record, and every included batch was reported done; a server's mark
 * never moves back. */
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
	uint32_t lease_ms, passes, partitions, servers_count, allow_skip;
	uint32_t progress_timeout_ms; /* 0: by each worker's longest batch (ledger_idle.c) */
	enum { LEDGER_RATE_AS_IT_IS, LEDGER_RATE_LINEAR, LEDGER_RATE_SQRT } rate_rule; /* in trainers that live over `workers` */
	uint32_t replicas;            /* of each partition, as placement.h puts them; 0: 1 */
	uint64_t memory_budget_bytes; /* of a server, for dense tables; 0: no limit */
	uint32_t
	    workers; /* trainers that the job is meant for: its learning rates, its synchronous steps; 0: not said, nobody is waited for */
	bool ack_sent; /* these three: as clients are told */
	uint32_t read_staleness_ms;
	uint64_t read_staleness_entries;
	uint32_t patience_ms; /* how long clients wait for a server that is gone; 0: as they see fit */
	uint64_t boot;        /* of this process, server 0, where the ledger and what servers hold are lost with theirs; else 0 */
	uint64_t seed;        /* of the units' order */
	bool shuffle;         /* order of units by (seed, pass) */
	bool gate;            /* a pass waits for its evaluation before the next one opens */
	const char *const *servers;       /* addresses (servers_count) */
	const uint32_t *partition_server; /* (partitions) */
};

weir_status ledger_create(struct ledger **out, const struct ledger_options *options, weir_error *err);
/* A new one with the options of another. */
weir_status ledger_create_like(struct ledger **out, const struct ledger *other, weir_error *err);
/* Answers every request that waits (long polls). Before the transport that carries them stops; ledger_destroy does it too. */
void ledger_close(struct ledger *l);
void ledger_destroy(struct ledger *l);

/* Answers a request. May be called later than the request (step, clock: long polls), once. `reply` is borrowed. */
typedef void (*ledger_reply_fn)(void *arg, const ProtobufCMessage *reply);
/* Who joins, as the transport knows it. */
struct ledger_peer {
	const char *address; /* without its port; "": unknown */
	uint64_t connection; /* 0: unknown */
	unsigned role;       /* of its certificate, principal.h's; 0: it has none */
	const char *name;    /* likewise */
};
void ledger_join(struct ledger *l, const Weir__V1__JoinRequest *q, const struct ledger_peer *peer, ledger_reply_fn reply,
                 void *arg); /* peer: NULL where nothing is known */
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
/* Expires leases. Called every 100 ms or so. */
void ledger_tick(struct ledger *l);

/* --- Its state, for the log and for checkpoints: LedgerState of state.proto, packed. */

/* From now on changes are remembered for ledger_export_changes. */
void ledger_record_changes(struct ledger *l);
/* What has changed since the last one; NULL with OK when nothing has. E_MEMORY: nothing is lost, call it again. */
weir_status ledger_export_changes(struct ledger *l, struct message **out, weir_error *err);
/* The next ledger_export_changes gives everything. */
void ledger_mark_all(struct ledger *l);
/* All of it, as of log index `index`. */
weir_status ledger_export_all(struct ledger *l, uint64_t index, struct message **out, weir_error *err);
/* Takes the objects of an export over, as they come from the log or a snapshot. E_CORRUPT, E_MEMORY: the ledger must not be used. *index (NULL
 * allowed): of a snapshot. */
weir_status ledger_merge(struct ledger *l, const void *bytes, size_t n, uint64_t *index, weir_error *err) WEIR_MUST_CHECK;
/* Where the epochs of its log began, as far as it has been merged; none where it has no replicas. A snapshot has them too. */
void ledger_begin_epoch(struct ledger *l, uint64_t epoch, uint64_t first);
const struct epochs *ledger_epochs(const struct ledger *l);
/* Everybody alive has a whole lease term from now: the ledger could not be heard for a while. */
void ledger_renew_all(struct ledger *l);

#endif
