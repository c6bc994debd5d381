/* The coordinator that the servers of a simulated job share: implements proto/coord/coord.h with
 * etcd's semantics, at a node of its own.
 *
 * Messages take time. Some are lost, and some requests are executed after the caller gave up. The
 * one store is always consistent: a read sees every transaction answered before it. */
#ifndef WEIR_SIM_COORD_H
#define WEIR_SIM_COORD_H

#include "common/base/callback_executor.h"
#include "proto/coord/coord.h"
#include "tests/sim/world/world.h"

struct coord_mood {
	int64_t delay_ns; /* maximum one-way delay of a message */
	double silent;    /* share of requests that never arrive, */
	double late;      /* that arrive up to seconds late, */
	double mute;      /* that are executed but not answered */
	double missed;    /* share of lagging watches that are told they missed events */
};

/* Call once per world. A node that is cut off from `at` does not reach the coordinator. */
void coord_sim_begin(struct node *at, const struct coord_mood *mood);
void coord_sim_calm(void); /* stops losing and delaying messages */
/* Opens a session for the current node's process. */
weir_status coord_sim_open(struct coord **out, const struct callback_executor *run_on, const struct coord_options *options,
                           weir_error *err);

/* --- Faults */
void coord_sim_down(bool down); /* unreachable for all; leases stop running */
bool coord_sim_is_down(void);
/* Watches of the node hear nothing until thawed. */
void coord_sim_freeze(const struct node *n, bool frozen);
/* Ends the leases of the node's sessions now. */
void coord_sim_expire(const struct node *n);

/* --- For checkers */
/* fn(arg, record) runs at each change, when it happens. A NULL value is a deletion. */
void coord_sim_observe(void (*fn)(void *arg, const struct coord_record *record), void *arg);
/* Transactions that may still execute, even of a dead process. */
uint32_t coord_sim_under_way(const struct node *n);

#endif
