/* Frames of what replicas say to each other, for tests of reading them. */
#ifndef REPLICA_FRAMES_H
#define REPLICA_FRAMES_H

#include "server/replication/replica_wire.h"

extern const uint8_t replica_frames_uuid[16];
#define REPLICA_FRAMES_GENERATION 7u
#define REPLICA_FRAMES_RATES      3u

/* An entry of partition 5 whose body has so many bytes, index % (REPLICA_FRAMES_RATES + 1) rates, and values made of its index. rates: REPLICA_FRAMES_RATES. The
 * message is one reference. */
struct log_entry replica_frames_entry(uint64_t index, uint64_t epoch, size_t body_bytes, float *rates);
/* Whether a is such an entry. */
bool replica_frames_is_entry(const struct log_entry *a, uint64_t index, uint64_t epoch, size_t body_bytes);

/* One message of every kind: from server 2 to server 9, of partition 5. epochs is for that of an ESTABLISH. */
struct replica_message replica_frames_message(enum replica_message_kind kind, struct epochs *epochs);
/* Frame i: each kind alone in their order, an APPEND with three entries of two epochs; then all of them in one frame. NULL: there are no more. */
struct message *replica_frames_build(uint32_t i);

#endif
