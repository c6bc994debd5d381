/* A ledger with the test's own clock and entropy; requests are plain calls. */
#ifndef WEIR_LEDGER_FIXTURE_H
#define WEIR_LEDGER_FIXTURE_H

#include <stdbool.h>

#include "common/base/figures.h"
#include "server/ledger/ledger.h"
#include "tests/manual_clock.h"

#define FIXTURE_PARTITIONS 4u

struct fixture {
	struct manual_clock clock;
	struct entropy entropy;
	int64_t now_ms;
	struct prng random;
	struct ledger *ledger;
	uint32_t unit_batches; /* as joining trainers say */
	uint32_t wire_version; /* of joining workers; 0: the ledger's own */
	struct {
		uint64_t client, pid_namespace; /* client 0: all joins come from one client */
		uint32_t pid, gone_pid;
		const struct ledger_peer *peer;
	} newcomer;                /* of the next joins */
	bool tells_activity;       /* joining workers do */
	const char *fingerprint;   /* of joining workers; NULL: none */
	const char *const *accept; /* (accept_count), accepted differences */
	size_t accept_count;
	uint32_t passes;  /* of joining workers */
	uint64_t content; /* in reports and commits of a unit; 0: none */
	uint32_t partition_server[FIXTURE_PARTITIONS];
};

/* options: without the clock, the entropy, the partitions and servers, which the fixture sets. */
void fixture_open(struct fixture *f, const struct ledger_options *options, uint64_t seed);
void fixture_close(struct fixture *f);

/* Callbacks for replies: add one to the uint32_t at arg, or ignore the reply. */
void fixture_count_reply(void *arg, const ProtobufCMessage *m);
void fixture_ignore_reply(void *arg, const ProtobufCMessage *m);

/* The whole state of a ledger as of this index of its log. */
struct message *fixture_export(struct ledger *l, uint64_t index);

/* The job id of all requests; borrowed. */
Weir__V1__JobId *fixture_job(void);
/* Registers a dense table; returns the ledger's status. */
weir_status fixture_table(struct fixture *f, const char *name, weir_mode mode);

struct joined {
	weir_status status;
	uint32_t worker;
	uint64_t incarnation;
	uint32_t holder_pid; /* E_EXISTS: the current holder's */
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
	uint32_t total; /* of the watermark's counts, summed over partitions */
	uint64_t content;
	char text[WEIR_ERROR_TEXT_BYTES];
};
struct leased fixture_lease(struct fixture *f, const struct joined *w, uint64_t sequence);
weir_status fixture_progress(struct fixture *f, const struct joined *w, const struct leased *u, uint32_t watermark);
/* A report without a unit, with the library's idle times. */
weir_status fixture_tell(struct fixture *f, const struct joined *w, uint64_t idle_ms, uint64_t longest_ms, uint64_t batches);
/* Commits with `batches` parts in every partition. */
weir_status fixture_commit(struct fixture *f, const struct joined *w, const struct leased *u, uint32_t batches);
weir_status fixture_fail(struct fixture *f, const struct joined *w, const struct leased *u, const char *why);
/* done: NULL, or the done batch of its step */
weir_status fixture_leave(struct fixture *f, const struct joined *w, Weir__V1__BatchId *done);
weir_status fixture_gate(struct fixture *f, const struct joined *w, uint32_t pass, bool stop);
weir_status fixture_verdict(struct fixture *f, const struct joined *w, uint32_t pass, double auc, double logloss, bool stop);
/* A verdict with further figures. */
weir_status fixture_figures(struct fixture *f, const struct joined *w, uint32_t pass, const struct figures *figures);
void fixture_read_figures(struct fixture *f, struct figures *out); /* from a status reply, as the next */
uint64_t fixture_evaluated_batches(struct fixture *f);
/* A batch of a synchronous table is ready and the previous one done, or (ready: false) this batch
 * is done. The answer may come later or never. */
void fixture_step(struct fixture *f, const struct joined *w, const struct leased *u, uint32_t batch, bool ready);

struct replica_identity {
	Weir__V1__LeaseState state;
	uint32_t pass, units, committed;
	uint64_t expected[FIXTURE_PARTITIONS], fingerprint[FIXTURE_PARTITIONS], skipped[FIXTURE_PARTITIONS];
	uint32_t workers;
	uint64_t lost, stalled, expired, quarantined, steps, dropped, rows;
	double rows_per_s;
	uint64_t rows_still_ms;
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
