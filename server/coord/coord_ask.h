/* Asks the coordinator one question, for a starting server that cannot begin without the answer.
 * Waits for the answer, and logs that it waits. */
#ifndef WEIR_COORD_ASK_H
#define WEIR_COORD_ASK_H

#include <stdbool.h>

#include "common/base/callback_executor.h"
#include "common/base/message.h"
#include "common/system/logger.h"
#include "proto/coord/coord.h"

struct coord_ask_options {
	/* Opens a session whose thread is `session`. Called on the caller's thread, which also closes
	 * the session. */
	weir_status (*open)(void *arg, struct coord **out, const struct coord_options *options, weir_error *err);
	struct callback_executor session;
	bool (*asked_to_end)(void *arg); /* any thread */
	void *arg;                       /* of both callbacks */
	struct logger *logger;
	const char *coordinator; /* as a person knows it */
};

/* Calls `take` with the record, or with NULL if absent, on the session's thread. Its status
 * is the result. E_CANCELLED: asked to end. */
weir_status coord_ask(const struct coord_ask_options *options, const char *key,
                      weir_status (*take)(void *arg, const struct coord_record *record, weir_error *err), void *arg,
                      weir_error *err) WEIR_MUST_CHECK;

/* Reads the record as coord_ask does, and replaces it with the one that `make` builds from it. If
 * another process changes the record meanwhile, `make` is called again. *value: one reference,
 * which coord_ask_put releases. Returns once the new record is stored. A try whose outcome is
 * unknown may have stored its record, too. */
weir_status coord_ask_put(const struct coord_ask_options *options, const char *key,
                          weir_status (*make)(void *arg, const struct coord_record *record, struct message **value,
                                              weir_error *err),
                          void *arg, weir_error *err) WEIR_MUST_CHECK;

#endif
