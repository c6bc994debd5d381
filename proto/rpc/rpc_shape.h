/* A slow network, simulated at its ends, so that one machine shows what a cluster's network would do.
 *
 * A shape is a machine's network card, full duplex: what the machine's loops send goes out at a rate, one message after the other, and what they
 * receive comes in at the same rate; each message is a latency on its way. A side is a bucket with the time at which it is free next. A message
 * takes its turn piece by piece, so that a heartbeat waits for a piece of each message under way, not for all of them. Turns are booked in virtual time: a timer that
 * fires late costs no bandwidth, and what would wait for less than SHAPE_EARLY_NS goes at once, as a burst; the latency is waited for in full.
 *
 * Nothing is queued without bound. The next message of a stream goes when the last one has departed; on the wire (departed, not there yet) is what
 * the rate allows in the latency, and while the receiver takes nothing more nothing departs; a receiver asks for the next message when the last has come in.
 * What is counted is what Ethernet would carry: the message, gRPC's and HTTP/2's frames, TCP and IP; neither acknowledgements nor HTTP's headers.
 * This file has the arithmetic, over times that the caller gives; the messages' side of it is in rpc_transport.h. */
#ifndef WEIR_RPC_SHAPE_H
#define WEIR_RPC_SHAPE_H

#include <stddef.h>
#include <stdint.h>

#define SHAPE_EARLY_NS 1000000ll  /* what gRPC's timers are rounded to */
#define SHAPE_LATE_NS  20000000ll /* a stream that had its turn later than it could have makes up for so much at most */

/* Bytes on the wire of a message of so many. */
uint64_t shape_wire_bytes(size_t message_bytes);
/* The most that takes one turn: what 4 ms carry, but a packet at least, and 64 KiB at most. */
uint64_t shape_piece_bytes(uint64_t rate_bits_per_s);
/* How long wire_bytes take, rounded up. rate 0: no time. */
int64_t shape_span_ns(uint64_t rate_bits_per_s, uint64_t wire_bytes);

struct shape_bucket {
	int64_t free_ns;
};
/* Books a turn for what could begin at ready_ns; returns when its last bit is through. */
int64_t shape_book(struct shape_bucket *bucket, uint64_t rate_bits_per_s, uint64_t wire_bytes, int64_t ready_ns);

#endif
