/* The incarnation of a server's start, taken from the coordinator before anybody hears of the start.
 *
 * A later start has a higher one: peers refuse the heartbeats of a lower one, and the coordinator's
 * record of a higher one ends the process (authority.h). The server's folder makes incarnations grow
 * (promises.h), and a new folder begins with the wall clock. A folder may be lost, though, while the
 * clock is behind the start before: another machine, a clock that was set back. What peers have heard
 * need not be on record as the last start, as the coordinator may be away meanwhile. So each start
 * takes its number here first. */
#ifndef WEIR_INCARNATION_H
#define WEIR_INCARNATION_H

#include "server/coord/coord_ask.h"

/* At the thread of a server that starts, as coord_ask_put, which waits until the coordinator answers.
 * *incarnation: at least `least`, above all that were taken for this server, and on record. E_CORRUPT,
 * E_VERSION: a record that is not understood. E_CANCELLED: asked to end. E_MEMORY. */
weir_status incarnation_take(const struct coord_ask_options *options, const uint8_t uuid[16], uint16_t server, uint64_t least,
                             uint64_t *incarnation, weir_error *err) WEIR_MUST_CHECK;

#endif
