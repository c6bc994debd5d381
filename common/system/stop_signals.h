/* The signals that ask a program to end: SIGINT, SIGTERM, and SIGHUP (its terminal is gone). SIGHUP
 * is left alone if it is ignored, as under nohup. */
#ifndef WEIR_STOP_SIGNALS_H
#define WEIR_STOP_SIGNALS_H

#include <signal.h>
#include <stdbool.h>

#include "weir/status.h"

/* The exit status of a program that a signal ended, as shells report it: 130 for Ctrl-C, 143 for
 * SIGTERM, 129 for SIGHUP. */
#define EXIT_BY_SIGNAL(number) (128 + (number))

/* Adds the signals to a set. */
void stop_signals_add(sigset_t *set);
/* Blocks the signals and SIGCHLD, to read them from *fd, which does not wait. Call before creating
 * any thread. Children that supervise.h starts get an empty mask again. */
weir_status stop_signals_open(int *fd, weir_error *err) WEIR_MUST_CHECK;
/* Whether one of the signals is pending. */
bool stop_signals_pending(void);
/* Installs `handler` for each of the signals. */
void stop_signals_handle(void (*handler)(int));

#endif
