/* An hour of a job on many machines, some of which fail. Production servers and clients run in a
 * simulated world in which work takes its measured time. Machines fail by a Poisson process. An
 * empty machine replaces each one. The program reports how much longer the job takes.
 *
 *   main.c      runs each seed without failures and with them; prints figures
 *   hour.c      one job: machines, failures, end
 *   server.c    a server's process, and the time its work takes
 *   worker.c    a worker's process, and the check of its sums */
#ifndef WEIR_SIM_HOUR_H
#define WEIR_SIM_HOUR_H

#include "tests/sim/disk/disk_sim.h"
#include "tests/sim/net/network.h"
#include "weir/weir.h"

enum {
	SERVERS = 10,
	WORKERS = 20,
	MACHINES = SERVERS + WORKERS,
	REPLICAS = 2,
	PARTITIONS = 20,
	BATCHES = 16, /* per unit */
	KEYS = 100,   /* per batch: nearly every partition has some */
	KEY_SPACE = 2000,
	WIDTH = 4,
	DENSE = 300
};

/* Durations in simulated time. */
struct costs {
	int64_t compute_ns; /* a worker's time per batch */
	/* An executor's time per partition's share of a batch: lookup; apply. */
	int64_t pull_ns, push_ns;
	int64_t delay_ns;       /* maximum, per packet */
	int64_t coordinator_ns; /* maximum, per message to or from the coordinator */
	int64_t sync_ns;        /* maximum, per fsync */
	int64_t copy_ns;        /* sending all data of a server to its replacement */
};

struct failures {
	double per_s;        /* rate of one machine */
	int64_t replaced_ns; /* time until the replacement starts */
};

struct machine {
	struct hour *hour;
	struct node *node;
	uint32_t index; /* index among servers or among workers */
	uint32_t life;  /* number of machines before it in its place */
	bool is_server, finished;
	struct prng failures;
	struct disk_sim *disk; /* servers only */
	char name[16], address[32];
};

/* In the world's memory. */
struct hour {
	struct costs costs;
	struct failures failures;
	uint32_t units;
	struct machine of[MACHINES]; /* servers first */
	const char *addresses[SERVERS];
	char ledger[REPLICAS * 32];
	uint32_t servers_failed, workers_failed;
	bool checked;
	char failure[WEIR_ERROR_TEXT_BYTES]; /* "" without a failure */
};

struct result {
	int64_t took_ns;
	uint32_t servers_failed, workers_failed;
	char failure[WEIR_ERROR_TEXT_BYTES];
};
/* Executes `units` units of BATCHES batches, from the machines' start until the last worker hears
 * that no units are left. */
void hour_run(struct result *out, uint64_t seed, uint32_t units, const struct costs *costs, const struct failures *failures,
              bool verbose);

/* Keeps the first failure. */
void hour_fail(struct hour *h, const char *format, ...) WEIR_PRINTF(2, 3);

/* First threads of processes. arg is a machine; for check_main it is the hour. */
void server_main(void *machine);
void worker_main(void *machine);
void check_main(void *hour);

#endif
