/* What a server that starts finds of the job's going back (rewind.h): the generation to serve is not the one it was told, but the last that follows it. */
#ifndef WEIR_REWIND_FOLLOW_H
#define WEIR_REWIND_FOLLOW_H

#include "server/coord/coord_ask.h"
#include "server/records/rewind_record.h"

struct rewind_follow_options {
	uint8_t uuid[16]; /* of the job */
	uint64_t generation;
	const char *restore; /* the checkpoint that this generation was told to begin with; NULL or "": none */
	struct coord_ask_options ask;
};

/* Waits until the coordinator has answered. *last: what the last generation was begun by; its
 * generation is 0 where the job has not gone back. E_CANCELLED: asked to end. E_STATE: the
 * generation was begun from another checkpoint than `restore`. E_CORRUPT, E_VERSION: a record
 * that is not understood. */
weir_status rewind_follow(const struct rewind_follow_options *options, struct rewind_record *last,
                          weir_error *err) WEIR_MUST_CHECK;

#endif
