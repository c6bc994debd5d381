/* Frames of messages between replicas, for tests of the reader. */
#ifndef REPLICA_FRAMES_H
#define REPLICA_FRAMES_H

#include "server/replication/replica_wire.h"

extern const uint8_t replica_frames_uuid[16];
#define REPLICA_FRAMES_GENERATION 7u
#define REPLICA_FRAMES_RATES      3u

/* An entry of partition 5 with a body of body_bytes bytes, index % (REPLICA_FRAMES_RATES + 1)
 * rates, and values that follow from its index. rates: REPLICA_FRAMES_RATES. The message has one
 * reference. */
struct log_entry replica_frames_entry(uint64_t index, uint64_t epoch, size_t body_bytes, float *rates);
/* Whether `a` equals that entry. */
bool replica_frames_is_entry(const struct log_entry *a, uint64_t index, uint64_t epoch, size_t body_bytes);

/* A message of the given kind from server 2 to server 9, of partition 5. epochs: for an
 * ESTABLISH. */
struct replica_message replica_frames_message(enum replica_message_kind kind, struct epochs *epochs);
/* Frame i: first one frame per kind, in the order of kinds, where the APPEND has three entries of
 * two epochs; then one frame with all messages. NULL: i is above the last frame. */
struct message *replica_frames_build(uint32_t i);

#endif
