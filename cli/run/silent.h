/* Reports servers with slow disks, and living servers that do not answer: a stuck thread, a stopped
 * process, or a cut network. */
#ifndef WEIR_SILENT_H
#define WEIR_SILENT_H

#include "cli/core/progress_line.h"
#include "cli/core/supervise.h"
#include "overview/overview.h"

struct silent_server {
	int64_t heard_ms; /* when it last answered; 0: never */
	int64_t since_ms; /* when it stopped answering; 0: it answers */
	bool told;
	bool told_slow;
};

struct silent {
	struct silent_server servers[WEIR_SERVERS_MAX], ledger;
	uint64_t count; /* number of reports of a silent or stuck server, or of a silent ledger */
};

/* Call after each poll of the job. `now` is NULL if the ledger did not answer. */
void silent_look(struct silent *s, struct progress_line *l, struct supervisor *children, const struct overview *now,
                 int64_t now_ms);

#endif
