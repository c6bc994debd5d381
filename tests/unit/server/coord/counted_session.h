/* A session with the coordinator in memory that reports the calls of its user. */
#ifndef WEIR_TESTS_COUNTED_SESSION_H
#define WEIR_TESTS_COUNTED_SESSION_H

#include "proto/coord/coord_memory.h"

enum session_call { SESSION_READ, SESSION_TXN, SESSION_CLOSE };

struct counted_session_options {
	struct coord_memory *coordinator;
	const struct callback_executor *run_on;
	const struct coord_options *session;
	/* Runs before each call. */
	void (*called)(void *arg, enum session_call call);
	void *arg;
};
weir_status counted_session_open(struct coord **out, const struct counted_session_options *options, weir_error *err);
/* The session behind a counted one. */
struct coord *counted_session_real(struct coord *c);

#endif
