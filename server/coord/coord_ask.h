/* One question to the coordinator, by a server that starts and cannot begin without the answer.
 * Waits for the answer, and says that it waits. */
#ifndef WEIR_COORD_ASK_H
#define WEIR_COORD_ASK_H

#include <stdbool.h>

#include "common/base/callback_executor.h"
#include "common/base/message.h"
#include "common/system/logger.h"
#include "proto/coord/coord.h"

struct coord_ask_options {
	/* Opens a session whose thread is `session`; on the caller's thread, where it is closed, too. */
	weir_status (*open)(void *arg, struct coord **out, const struct coord_options *options, weir_error *err);
	struct poster session;
	bool (*asked_to_end)(void *arg); /* any thread */
	void *arg;                       /* of both */
	struct logger *logger;
	const char *coordinator; /* as a person knows it */
};

/* Calls take with the record, or NULL without one, on the session's thread; its status is the
 * result. E_CANCELLED: asked to end. */
weir_status coord_ask(const struct coord_ask_options *options, const char *key,
                      weir_status (*take)(void *arg, const struct coord_record *record, weir_error *err), void *arg,
                      weir_error *err) WEIR_MUST_CHECK;

/* The same, and puts what `make` makes of the record in its place, unless somebody else does so
 * meanwhile: then it is asked again. *value: one reference, ours. Returns once that is on record; what
 * was put by a try whose outcome is unknown may have been, too. */
weir_status coord_ask_put(const struct coord_ask_options *options, const char *key,
                          weir_status (*make)(void *arg, const struct coord_record *record, struct message **value,
                                              weir_error *err),
                          void *arg, weir_error *err) WEIR_MUST_CHECK;

#endif
