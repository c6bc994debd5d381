/* The network between nodes, and the transport on top of it that production code calls through
 * rpc.h.
 *
 * It has the guarantees of TCP: while a connection lives, one direction of a stream or call loses
 * and reorders nothing. Packets are late. They stall where the way is cut. When the way opens they
 * continue, or the connection breaks: by a reset, or because keepalive hears nothing at one node. A
 * broken connection loses all packets in flight, so the sender cannot know which ones arrived.
 * Calls and streams share the connection of their channel. */
#ifndef WEIR_SIM_NETWORK_H
#define WEIR_SIM_NETWORK_H

#include "proto/rpc/rpc.h"
#include "tests/sim/world/world.h"

struct network_mood {
	int64_t delay_ns, rare_delay_ns; /* maximum delays of a packet */
	double rare;                     /* share of packets with the rare delay */
	uint32_t window;                 /* messages of a stream in flight at once; at least 1 */
};
/* Call once per world. */
void network_begin(const struct network_mood *mood);
void network_calm(void); /* stops packet delays */
/* The transport of the current process. Addresses are "sim:NAME". NAME leads to the node that
 * listened there last. */
struct rpc *rpc_sim_create(struct logger *logger);

/* Affects one direction. */
void network_cut(const struct node *from, const struct node *to);
void network_heal(const struct node *from, const struct node *to);
bool network_is_cut(const struct node *from, const struct node *to);
/* Resets the connections between the two. Both ends hear of it soon. */
void network_reset(const struct node *a, const struct node *b);

struct network_count {
	uint64_t packets, stalled, early, resets, silences, refusals;
};
struct network_count network_counts(void);

#endif
