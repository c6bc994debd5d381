/* Names servers with slow disks, and those that live and do not answer: a thread is stuck, a
 * process is stopped, a network is cut. */
#ifndef WEIR_SILENT_H
#define WEIR_SILENT_H

#include "cli/core/progress_line.h"
#include "cli/core/supervise.h"
#include "overview/overview.h"

struct silent_server {
	int64_t heard_ms; /* when it answered last; 0: never */
	int64_t since_ms; /* since when it does not; 0: it does */
	bool told;
	bool told_slow;
};

struct silent {
	struct silent_server servers[WEIR_SERVERS_MAX], ledger;
	uint64_t count; /* times that one was named */
};

/* Called after each look at the job. `now` is NULL where the ledger did not answer. */
void silent_look(struct silent *s, struct live *l, struct supervisor *children, const struct overview *now, int64_t now_ms);

#endif
