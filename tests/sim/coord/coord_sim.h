/* The coordinator that the servers of a simulated job share: proto/coord/coord.h as etcd would be it, at a node of its own, over messages that take their time, are
 * lost, or are carried out when nobody waits for their answer any more. One store, always consistent: a read sees every transaction answered before. */
#ifndef WEIR_SIM_COORD_H
#define WEIR_SIM_COORD_H

#include "common/base/callback_executor.h"
#include "proto/coord/coord.h"
#include "tests/sim/world/world.h"

struct coord_mood {
	int64_t delay_ns; /* of a message, one way: at most */
	double silent;    /* how many requests never arrive, */
	double late;      /* arrive up to seconds later, */
	double mute;      /* are carried out and not answered */
	double missed;    /* how many watches that had fallen behind are told that they have missed something */
};

/* Once in a world. Who is cut off from `at` does not reach it. */
void coord_sim_begin(struct node *at, const struct coord_mood *mood);
void coord_sim_calm(void); /* nothing is lost or late any more */
/* A session of the current node's process. */
weir_status coord_sim_open(struct coord **out, const struct callback_executor *run_on, const struct coord_options *options,
                           weir_error *err);

/* --- Faults */
void coord_sim_down(bool down); /* away for everybody; leases stand still */
bool coord_sim_is_down(void);
void coord_sim_freeze(const struct node *n, bool frozen); /* its watches hear nothing until thawed */
void coord_sim_expire(const struct node *n);              /* its sessions' leases end now */

/* --- For checkers */
/* fn(arg, record) runs at each change, when it happens; value NULL: a deletion. */
void coord_sim_observe(void (*fn)(void *arg, const struct coord_record *record), void *arg);
uint32_t
coord_sim_under_way(const struct node *n); /* its transactions that may yet be carried out, also of a process that is gone */

#endif
