/* Takes the incarnation of a server's start from the coordinator, before any other process hears of
 * the start.
 *
 * A later start has a higher incarnation. Peers refuse the heartbeats of a lower one, and a higher
 * one in the coordinator's records ends the process (coord_records.h). The server's folder makes
 * incarnations grow (vote_store.h), and a new folder begins with the wall clock. But a folder may
 * be lost while the clock is behind that of the previous start: another machine, or a clock that
 * was set back. The incarnation that peers have heard need not be recorded as the last start,
 * because the coordinator may be away. So each start first takes its number here. */
#ifndef WEIR_INCARNATION_H
#define WEIR_INCARNATION_H

#include "server/coord/coord_ask.h"

/* Call on the thread of a server that starts. Waits until the coordinator answers, as coord_ask_put
 * does. *incarnation: at least `least`, above all that were taken for this server, and recorded.
 * E_CORRUPT, E_VERSION: the record is not understood. E_CANCELLED: asked to end. E_MEMORY. */
weir_status incarnation_take(const struct coord_ask_options *options, const uint8_t uuid[16], uint16_t server, uint64_t least,
                             uint64_t *incarnation, weir_error *err) WEIR_MUST_CHECK;

#endif
