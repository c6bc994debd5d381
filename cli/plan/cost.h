/* The cost model: what a batch takes under a setting. docs/PLANNER.md has each formula, under the
 * name of the function here. */
#ifndef WEIR_PLAN_COST_H
#define WEIR_PLAN_COST_H

#include "cli/plan/setting.h"

/* Seconds of a batch, by what takes them. X(NAME, name, what would make it smaller) */
#define PLAN_TERM_MAP(X)                                                                   \
	X(COMPUTE, "compute", "faster cores, or more workers on machines of their own")        \
	X(ENCODE, "encode", "a cheaper codec, or faster cores")                                \
	X(PULL, "pull", "a faster card, less latency, or smaller pulls")                       \
	X(UP, "up", "a faster card for workers, or smaller pushes")                            \
	X(DOWN, "down", "a faster card for workers, or smaller pulls")                         \
	X(SERVER_CARD, "servers' cards", "one more server, or a faster card for servers")      \
	X(SERVER, "servers", "one more server, or more executors")                             \
	X(PROCESSOR, "processors", "more cores, or servers and workers on different machines") \
	X(WAIT, "wait", "a mode that does not wait for the slowest worker")                    \
	X(EVALUATION, "evaluation", "fewer rows in the validation part")
enum plan_term {
#define PLAN_TERM_ENUM(name, text, remedy) PLAN_TERM_##name,
	PLAN_TERM_MAP(PLAN_TERM_ENUM)
#undef PLAN_TERM_ENUM
	    PLAN_TERMS
};
const char *plan_term_name(enum plan_term term);
const char *plan_term_remedy(enum plan_term term);

/* The costs of a batch's legs together, as the setting's codes, rounds and servers make them. The
 * busiest server is the one with the most chunks of the dense table. */
struct plan_traffic {
	double up_bytes, down_bytes; /* of the worker's card */
	double in_bytes, out_bytes;  /* of the busiest server's card */
	/* of the worker's card, the dense table's: pushes of codes that look at no more than a layer */
	double layers_up_bytes, layers_down_bytes;
	double caller_s, client_s;  /* of the worker */
	double server_s, busiest_s; /* of all servers, of the busiest one */
	double pull_bytes, pull_s;  /* of a batch's own pull: on the wire, in processors */
	double round_bytes, round_in_bytes,
	    round_s;  /* that a round of local steps waits for, per batch: both ways, and in processors */
	double steps; /* factor of the batches that the codes need (steps.h) */
};

struct plan_bill {
	/* Of one batch of one worker; of a shared term, per batch of the job. */
	double term_s[PLAN_TERMS];
	double period_s; /* between two batches of the job */
	double samples_per_s;
	double steps;         /* factor of the batches to the same validation value */
	double cost_s;        /* seconds of an example, times steps: what the planner minimizes */
	enum plan_term limit; /* the term that decides the period */
};

struct plan_traffic plan_traffic_of(const struct plan_figures *f, const struct plan_setting *s);
/* What no choice of codes can be below: the least of each column over the candidates. */
struct plan_traffic plan_traffic_least(const struct plan_figures *f, const struct plan_space *space,
                                       const struct plan_setting *s);

/* The bill of a setting. Without queueing, it is a lower bound that rises with every member of
 * traffic, which branch and bound relies on. */
void plan_bill_of(const struct plan_figures *f, const struct plan_site *site, const struct plan_setting *s,
                  const struct plan_traffic *traffic, bool queueing, struct plan_bill *out);

/* Threads of one worker that compute. */
uint32_t plan_threads(const struct plan_figures *f, const struct plan_site *site, uint32_t workers);

#endif
