/* What a profile says: where the time of workers goes, what stands out, what their operations cost,
 * and the critical path of the median batch. All of it within the profile's window. */
#ifndef WEIR_PROFILE_REPORT_H
#define WEIR_PROFILE_REPORT_H

#include <stdio.h>

#include "cli/profile/profile_flows.h"

/* X(NAME, "what the trainer's thread does"). */
#define PROFILE_SHARE_MAP(X)                       \
	X(COMPUTE, "computing")                        \
	X(DEVICE, "waiting for the device")            \
	X(PULL, "waiting for pulls")                   \
	X(SEND, "encoding and sending pushes")         \
	X(CREDIT, "waiting for send credit")           \
	X(ACKNOWLEDGE, "waiting for acknowledgements") \
	X(DATA, "waiting for data")                    \
	X(LOAD, "making batches ready")                \
	X(LEDGER, "leasing and committing units")      \
	X(OTHER, "other work")
enum profile_share {
#define PROFILE_SHARE_ENUM(name, text) SHARE_##name,
	PROFILE_SHARE_MAP(PROFILE_SHARE_ENUM)
#undef PROFILE_SHARE_ENUM
	    PROFILE_SHARES
};
const char *profile_share_name(enum profile_share share);

struct profile_operation {
	char name[PROFILE_NAME_BYTES];
	uint64_t calls;
	int64_t total_ns;
};

/* One process. Means are over its calls; 0: it has none. */
struct profile_party {
	const char *name;
	bool is_server;
	int64_t share_ns[PROFILE_SHARES]; /* of a worker */
	uint64_t batches;                 /* of a worker: computed */
	double batch_ns;                  /* of a worker: mean time from batch to batch */
	double pull_ns;                   /* of a server: from a batch's pull until it has answered */
	double push_ns;                   /* of a server: from a part's way out until the worker knows it is acknowledged */
	double busy;                      /* of a server: share of the window that its busiest thread works */
	uint64_t answered, acknowledged;
};

/* A step of the critical path. */
struct profile_step {
	const char *what;  /* static */
	const char *where; /* the name of the process; NULL: between two of them */
	int64_t ns;
};
#define PROFILE_STEPS_MAX    16u
#define PROFILE_FINDINGS_MAX 8u
#define PROFILE_TEXT_BYTES   256u

struct profile_report {
	double seconds; /* of the window */
	uint64_t batches;
	struct profile_party *parties; /* (parties_count) as profile.processes */
	uint32_t parties_count;
	double shares[PROFILE_SHARES];        /* of all workers' time */
	struct profile_operation *operations; /* (operations_count) the longest first */
	uint32_t operations_count;
	char findings[PROFILE_FINDINGS_MAX][PROFILE_TEXT_BYTES];
	uint32_t findings_count;
	/* Of the batch whose time from its pull to its last acknowledgement is the median. */
	struct trace_what median;
	const char *median_worker; /* NULL: no batch is whole within the window */
	int64_t median_ns;
	uint64_t whole; /* batches that are */
	struct profile_step path[PROFILE_STEPS_MAX];
	uint32_t path_count;
};

/* E_MEMORY. The profile must outlive the report. */
weir_status profile_report_make(const struct profile *p, const struct profile_flows *flows, struct profile_report *out,
                                weir_error *err) WEIR_MUST_CHECK;
void profile_report_destroy(struct profile_report *r);
/* For people, and as JSON. */
void profile_report_print(const struct profile *p, const struct profile_report *r, FILE *out);
weir_status profile_report_json(const struct profile *p, const struct profile_report *r, FILE *out,
                                weir_error *err) WEIR_MUST_CHECK;

/* --- profile_path.c: the critical path, for profile_report_make */
weir_status profile_path_find(const struct profile *p, const struct profile_flows *flows, struct profile_report *r,
                              weir_error *err) WEIR_MUST_CHECK;
/* --- profile_findings.c: what stands out, likewise, once the rest is known */
void profile_findings_make(const struct profile *p, const struct profile_flows *flows, struct profile_report *r);

#endif
