/* The network between nodes, and the transport over it that production code calls through rpc.h.
 *
 * It carries what TCP would: of one stream or call, in one direction, nothing is lost or out of order while the connection lives. Packets are late, and stall
 * where the way is cut; then they go on when it heals, or the connection breaks: reset, or given up by keepalive in a node that has heard nothing.
 * A broken connection loses whatever was on its way, so that the sender cannot know what has arrived. Calls and streams share their channel's connection. */
#ifndef WEIR_SIM_NETWORK_H
#define WEIR_SIM_NETWORK_H

#include "proto/rpc/rpc.h"
#include "tests/sim/world/world.h"

struct network_mood {
	int64_t delay_ns, rare_delay_ns; /* of a packet: at most */
	double rare;                     /* how often the latter */
	uint32_t window;                 /* messages of a stream under way at once; 1 or more */
};
/* Once in a world. */
void network_begin(const struct network_mood *mood);
void network_calm(void); /* no packet is late any more */
/* The transport of the current process. Addresses are "sim:NAME"; a name is the node's that listened there last. */
struct rpc *rpc_sim_create(struct logger *logger);

/* One direction. */
void network_cut(const struct node *from, const struct node *to);
void network_heal(const struct node *from, const struct node *to);
bool network_is_cut(const struct node *from, const struct node *to);
/* The connections between the two are reset: both ends are told, soon. */
void network_reset(const struct node *a, const struct node *b);

struct network_count {
	uint64_t packets, stalled, early, resets, silences, refusals;
};
struct network_count network_counts(void);

#endif
