/* Polls a running job for overviews: first the ledger, then all servers at once, over persistent
 * connections. */
#ifndef WEIR_STATUS_POLLER_H
#define WEIR_STATUS_POLLER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/job/job.h"
#include "common/system/logger.h"
#include "overview/overview.h"
#include "weir/status.h"

struct status_poller;
/* ledger: the address of the server that hosts the ledger, or of all candidates, "A,B,C". The
 * poller looks for the ledger on its last server, then on the others. job: as in transport_open. An
 * unreachable ledger is reported by status_poller_poll (E_UNAVAILABLE), not here. */
weir_status status_poller_open(struct status_poller **out, const struct job *job, const char *ledger, struct logger *logger,
                               weir_error *err) WEIR_MUST_CHECK;
/* Fills *out. Free it with overview_destroy, also after an error. Fails only if the ledger does not
 * answer in timeout_ms; the overview marks servers that do not answer. */
weir_status status_poller_poll(struct status_poller *w, uint32_t timeout_ms, struct overview *out,
                               weir_error *err) WEIR_MUST_CHECK;
/* Asks one server for what was lost permanently, in this generation or a later one; works even if
 * the ledger itself was lost. Each call asks one server. False: nothing is lost, or the server does
 * not answer in timeout_ms. */
bool status_poller_find_lost(struct status_poller *w, uint64_t generation, uint32_t timeout_ms, char out[WEIR_ERROR_TEXT_BYTES]);
/* Compares the replicas of every partition, on the servers that a poll has reported. Omits servers
 * that do not answer in timeout_ms. E_MEMORY. */
weir_status status_poller_scrub(struct status_poller *w, uint32_t timeout_ms, struct overview_replicas *out,
                                weir_error *err) WEIR_MUST_CHECK;
void status_poller_close(struct status_poller *w);

#endif
