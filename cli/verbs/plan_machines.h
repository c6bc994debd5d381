/* The machines of a plan: a YAML file of `weir plan --machines`.
 *
 *     figures: figures.json        # what `weir plan --probe` printed; without it: measured here
 *     rate: 10Gb/s                 # of each card, each way; off: no limit
 *     latency_ms: 0.1              # of a message, one way
 *     workers: [{count: 4, cores: 8, speed: 1.5}]    # speed: times that of the measured machine
 *     servers: [{count: 2, cores: 8, speed: 1}] */
#ifndef WEIR_PLAN_MACHINES_H
#define WEIR_PLAN_MACHINES_H

#include "cli/plan/plan.h"

struct plan_machines {
	char figures[WEIR_PATH_BYTES_MAX]; /* ""; else a file, relative to the folder that weir starts in */
	double rate_bits_per_s, latency_s;
	double worker_speed[PLAN_MACHINES_MAX], server_speed[PLAN_MACHINES_MAX];
	double worker_cores, server_cores; /* the least of each list */
	uint32_t workers, servers;
};

weir_status plan_machines_read(const char *path, struct plan_machines *out, weir_error *err) WEIR_MUST_CHECK;
/* The site of a job whose processes each have one of the machines. */
struct plan_site plan_machines_site(const struct plan_machines *m, const struct job *job, const struct plan_figures *f);

#endif
