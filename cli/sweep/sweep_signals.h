/* The signals of a sweep: ends of its children, and requests to stop (stop_signals.h). */
#ifndef WEIR_SWEEP_SIGNALS_H
#define WEIR_SWEEP_SIGNALS_H

#include <stdbool.h>

#include "weir/status.h"

struct sweep_signals {
	int fd;
	int stop_signal;   /* the first request to stop; 0: none */
	bool stop_at_once; /* a second one came */
};

/* Blocks the signals, to read them from a descriptor. Call before creating any thread. */
weir_status sweep_signals_open(struct sweep_signals *out, weir_error *err) WEIR_MUST_CHECK;
/* Waits for a signal, or until `also` (-1: none) can be read. Returns whether a request to stop
 * came: the signal's number, or 0. */
int sweep_signals_read(struct sweep_signals *s, int also, int timeout_ms);
void sweep_signals_close(struct sweep_signals *s);

#endif
