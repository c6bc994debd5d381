/* A slow network, simulated at its ends, so that one machine shows the behaviour of a cluster's
 * network.
 *
 * A shape is a machine's network card, full duplex. What the machine's loops send leaves at a rate,
 * one message after another; what they receive arrives at the same rate; each message travels for a
 * latency. Each direction is a bucket with the time at which it is next free. A message takes its
 * turns piece by piece, so that a heartbeat waits for one piece of each message in progress, not
 * for whole messages. Turns are booked in virtual time: a late timer costs no bandwidth. A wait
 * shorter than SHAPE_EARLY_NS is skipped, as a burst; the latency is always waited for in full.
 *
 * All queues are bounded. The next message of a stream goes when the last one has departed. The
 * wire (departed, not yet arrived) holds as much as the rate allows in the latency, and nothing
 * departs while the receiver takes nothing more. A receiver requests the next message when the last
 * has arrived.
 *
 * Counted bytes are those that Ethernet would carry: the message, the frames of gRPC and HTTP/2,
 * TCP and IP, but neither acknowledgements nor HTTP headers. This file has the arithmetic, over
 * times that the caller passes; rpc_transport.h has the message side. */
#ifndef WEIR_RPC_SHAPE_H
#define WEIR_RPC_SHAPE_H

#include <stddef.h>
#include <stdint.h>

#define SHAPE_EARLY_NS 1000000ll  /* the rounding of gRPC's timers */
#define SHAPE_LATE_NS  20000000ll /* the most that a stream whose turn came late may catch up */

/* Bytes on the wire of a message. */
uint64_t shape_wire_bytes(size_t message_bytes);
/* The bytes of the largest turn: what the rate carries in 4 ms, at least a packet, at most 64
 * KiB. */
uint64_t shape_piece_bytes(uint64_t rate_bits_per_s);
/* The time that wire_bytes take, rounded up. rate 0: no time. */
int64_t shape_span_ns(uint64_t rate_bits_per_s, uint64_t wire_bytes);

struct shape_bucket {
	int64_t free_ns;
};
/* Books a turn that could begin at ready_ns; returns the time at which its last bit has passed. */
int64_t shape_book(struct shape_bucket *bucket, uint64_t rate_bits_per_s, uint64_t wire_bytes, int64_t ready_ns);

#endif
