/* A fixed small snapshot: two rows, a stub, and an entry that a step waits for. */
#ifndef TEST_SNAPSHOT_FRAMES_H
#define TEST_SNAPSHOT_FRAMES_H

#include "server/snapshot/snapshot_format.h"

enum { SMALL_BEGIN, SMALL_TABLE, SMALL_STATE, SMALL_STATE_REST, SMALL_ROWS, SMALL_STUBS, SMALL_ENTRY, SMALL_END, SMALL_FRAMES };
#define SMALL_PARTITION  1u
#define SMALL_PARTITIONS 4u
#define SMALL_GENERATION 3u
#define SMALL_SESSION    77u
extern const uint8_t small_uuid[16];

void small_frames(struct message *out[SMALL_FRAMES]); /* owned by the caller */
/* Copies m, changes the byte at `at` of its payload, and repairs its checksum. */
struct message *small_changed(const struct message *m, size_t at);

#endif
