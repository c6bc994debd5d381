/* Finds the generation that a starting server must serve. If the job was rewound (rewind.h), this
 * is not the configured generation but the last one that follows it. */
#ifndef WEIR_REWIND_FOLLOW_H
#define WEIR_REWIND_FOLLOW_H

#include "server/coord/coord_ask.h"
#include "server/records/rewind_record.h"

struct rewind_follow_options {
	uint8_t uuid[16]; /* of the job */
	uint64_t generation;
	/* The checkpoint configured for the start of this generation; NULL or "": none. */
	const char *restore;
	struct coord_ask_options ask;
};

/* Waits until the coordinator has answered. *last: the record that began the last generation; its
 * generation is 0 if the job has not been rewound. E_CANCELLED: asked to end. E_STATE: the
 * generation began from a checkpoint other than `restore`. E_CORRUPT, E_VERSION: an unreadable
 * record. */
weir_status rewind_follow(const struct rewind_follow_options *options, struct rewind_record *last,
                          weir_error *err) WEIR_MUST_CHECK;

#endif
