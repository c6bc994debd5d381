/* Opens a lane: connects, greets and waits for the answer, all within WEIR_LANE_OPEN_MS. On the
 * loop's thread. */
#ifndef WEIR_LANE_DIAL_H
#define WEIR_LANE_DIAL_H

#include <sys/socket.h>

#include "proto/lane/lane_poll.h"
#include "proto/lane/lane_wire.h"

struct lane_dial;
/* Once, in lane_poll_wait. fd: for lane_end_create; the callee owns it. Negative: `why` tells why
 * there is no lane. The dial is gone. */
typedef void (*lane_dialled_fn)(void *arg, int fd, const char *why);
/* NULL: it cannot even begin, and `done` is not called. E_MEMORY, E_UNAVAILABLE. */
struct lane_dial *lane_dial_start(struct lane_poll *poll, const struct sockaddr *to, socklen_t to_bytes,
                                  const uint8_t token[LANE_TOKEN_BYTES], lane_dialled_fn done, void *arg, weir_error *err);
void lane_dial_cancel(struct lane_dial *d); /* `done` is not called */

#endif
