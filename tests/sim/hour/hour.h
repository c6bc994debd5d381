/* An hour of a job on many machines of which some fail: production servers and clients in a simulated world in which work takes as long as it was measured to take.
 * Machines fail by a Poisson process; another one takes the place of each, with nothing on its disk. How much longer does the job take?
 *
 *   main.c      a job without failures and with them, from each seed; what it comes to
 *   hour.c      one job: the machines, their failures, the end
 *   server.c    a server's process, and what it takes to serve
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
	BATCHES = 16, /* of a unit */
	KEYS = 100,   /* of a batch: nearly all partitions have some */
	KEY_SPACE = 2000,
	WIDTH = 4,
	DENSE = 300
};

/* What things take, in simulated time. */
struct costs {
	int64_t compute_ns;       /* a batch, of its worker */
	int64_t pull_ns, push_ns; /* the part of it that one partition has, of an executor: looked up; applied */
	int64_t delay_ns;         /* a packet, at most */
	int64_t coordinator_ns;   /* a message to the coordinator or from it, at most */
	int64_t sync_ns;          /* an fsync, at most */
	int64_t copy_ns;          /* all that a server has, from the others to one that is in its place */
};

struct failures {
	double per_s;        /* of one machine */
	int64_t replaced_ns; /* later another one is there */
};

struct machine {
	struct hour *hour;
	struct node *node;
	uint32_t index; /* among servers, or among workers */
	uint32_t life;  /* how many there were in its place before */
	bool is_server, finished;
	struct prng failures;
	struct disk_sim *disk; /* a server's */
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
	char failure[WEIR_ERROR_TEXT_BYTES]; /* "": none */
};

struct result {
	int64_t took_ns;
	uint32_t servers_failed, workers_failed;
	char failure[WEIR_ERROR_TEXT_BYTES];
};
/* units of BATCHES batches, from when the machines start until the last worker has heard that there are no more. */
void hour_run(struct result *out, uint64_t seed, uint32_t units, const struct costs *costs, const struct failures *failures,
              bool verbose);

/* The first one is kept. */
void hour_fail(struct hour *h, const char *format, ...) WEIR_PRINTF(2, 3);

/* First threads of processes; arg is a machine, of check_main the hour. */
void server_main(void *machine);
void worker_main(void *machine);
void check_main(void *hour);

#endif
