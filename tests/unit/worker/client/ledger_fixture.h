/* A ledger over a clock and an entropy source that the test owns, with its requests as plain calls. */
#ifndef WEIR_LEDGER_FIXTURE_H
#define WEIR_LEDGER_FIXTURE_H

#include <stdbool.h>

#include "server/ledger/ledger.h"

#define FIXTURE_PARTITIONS 4u

struct fixture {
	struct clock clock;
	struct entropy entropy;
	int64_t now_ms;
	struct prng random;
	struct ledger *ledger;
	uint32_t unit_batches; /* as trainers say that join */
	uint32_t wire_version; /* that who joins speaks; 0: the ledger's */
	struct {
		uint64_t client, pid_namespace; /* client 0: all joins are one client's */
		uint32_t pid, gone_pid;
		const struct ledger_peer *peer;
	} newcomer;                /* as the next joins say */
	bool tells_activity;       /* who joins */
	const char *fingerprint;   /* likewise; NULL: none, */
	const char *const *accept; /* (accept_count) and what it accepts */
	size_t accept_count;
	uint64_t content; /* that reports of a unit, and commits, say; 0: none */
	uint32_t partition_server[FIXTURE_PARTITIONS];
};

/* options: all but the clock, the entropy, and what partitions and servers there are. */
void fixture_open(struct fixture *f, const struct ledger_options *options, uint64_t seed);
void fixture_close(struct fixture *f);

/* What requests name; borrowed. */
Weir__V1__JobId *fixture_job(void);
/* A dense table; OK, or what the ledger says. */
weir_status fixture_table(struct fixture *f, const char *name, weir_mode mode);

struct joined {
	weir_status status;
	uint32_t worker;
	uint64_t incarnation;
	uint32_t holder_pid; /* E_EXISTS: who is in the way */
	uint64_t holder_heard;
	char text[WEIR_ERROR_TEXT_BYTES];
};
struct joined fixture_join(struct fixture *f, const char *name, Weir__V1__Role role, uint64_t fingerprint, uint32_t units);

struct leased {
	weir_status status;
	Weir__V1__LeaseState state;
	uint32_t pass, unit, attempt, data_unit, watermark, local_steps, place, end;
	float rate_scale;
	bool sealed, skip, last;
	uint32_t total; /* of the watermark's counts, over partitions */
	uint64_t content;
	char text[WEIR_ERROR_TEXT_BYTES];
};
struct leased fixture_lease(struct fixture *f, const struct joined *w, uint64_t sequence);
weir_status fixture_progress(struct fixture *f, const struct joined *w, const struct leased *u, uint32_t watermark);
/* A report of no unit, with what the worker's library says of it. */
weir_status fixture_tell(struct fixture *f, const struct joined *w, uint64_t idle_ms, uint64_t longest_ms, uint64_t batches);
/* Commits with `batches` parts in every partition. */
weir_status fixture_commit(struct fixture *f, const struct joined *w, const struct leased *u, uint32_t batches);
weir_status fixture_fail(struct fixture *f, const struct joined *w, const struct leased *u, const char *why);
weir_status fixture_leave(struct fixture *f, const struct joined *w, Weir__V1__BatchId *done); /* done: NULL, or of its step */
weir_status fixture_gate(struct fixture *f, const struct joined *w, uint32_t pass, bool stop);
weir_status fixture_verdict(struct fixture *f, const struct joined *w, uint32_t pass, double auc, double logloss, bool stop);
uint64_t fixture_evaluated_batches(struct fixture *f); /* as the ledger tells it */
/* A batch of a synchronous table is ready, and the one before it done; or (ready: false) this
 * one is done. Answered later, if at all. */
void fixture_step(struct fixture *f, const struct joined *w, const struct leased *u, uint32_t batch, bool ready);

struct replica_identity {
	Weir__V1__LeaseState state;
	uint32_t pass, units, committed;
	uint64_t expected[FIXTURE_PARTITIONS], fingerprint[FIXTURE_PARTITIONS], skipped[FIXTURE_PARTITIONS];
	uint32_t workers;
	uint64_t lost, stalled, expired, quarantined, steps, dropped, rows;
	double rows_per_s;
	char failure[WEIR_ERROR_TEXT_BYTES];
};
struct replica_identity fixture_status(struct fixture *f);

struct worker_seen {
	bool live, has_stall;
	uint32_t units_held;
	uint64_t idle_ms, idle_limit_ms;
	Weir__V1__Stall stall;
};
struct worker_seen fixture_worker(struct fixture *f, const struct joined *w);

#endif
