/* Asks a running job for overviews: its ledger first, then all servers at once, over connections that stay open. */
#ifndef WEIR_WATCHER_H
#define WEIR_WATCHER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/job/job.h"
#include "common/system/logger.h"
#include "overview/overview.h"
#include "weir/status.h"

struct watcher;
/* ledger: address of the server that hosts it, or of all that may, "A,B,C": it is looked for where it was last, then at each. job: as transport_open has it. E_UNAVAILABLE comes later, from
 * watcher_poll. */
weir_status watcher_open(struct watcher **out, const struct job *job, const char *ledger, struct logger *logger,
                         weir_error *err) WEIR_MUST_CHECK;
/* Fills *out (free it with overview_free also after an error). Fails only when the ledger does not answer in timeout_ms; servers that do not
 * answer are marked in the overview. */
weir_status watcher_poll(struct watcher *w, uint32_t timeout_ms, struct overview *out, weir_error *err) WEIR_MUST_CHECK;
/* What a server says was lost for good, in this generation or a later one; also when the ledger is what was. Each call asks one server. False: nothing, or it does not answer
 * in timeout_ms. */
bool watcher_find_lost(struct watcher *w, uint64_t generation, uint32_t timeout_ms, char out[WEIR_ERROR_TEXT_BYTES]);
/* Has the replicas of every partition compared, of servers that a poll has told of. Those of servers that do not answer in timeout_ms are not. E_MEMORY. */
weir_status watcher_scrub(struct watcher *w, uint32_t timeout_ms, struct overview_replicas *out, weir_error *err) WEIR_MUST_CHECK;
void watcher_close(struct watcher *w);

#endif
