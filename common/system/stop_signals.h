/* The signals that ask a program to end: SIGINT, SIGTERM, and SIGHUP (its terminal has gone) unless
 * it is ignored, as under nohup. */
#ifndef WEIR_STOP_SIGNALS_H
#define WEIR_STOP_SIGNALS_H

#include <signal.h>
#include <stdbool.h>

/* The exit status of a program that ended because of a signal, as shells tell it: 130 for Ctrl-C,
 * 143 for SIGTERM, 129 for SIGHUP. */
#define EXIT_BY_SIGNAL(number) (128 + (number))

/* Adds them to a set. */
void stop_signals_add(sigset_t *set);
/* Whether one of them is pending. */
bool stop_signals_pending(void);
/* Has `handler` called at each of them. */
void stop_signals_handle(void (*handler)(int));

#endif
