/* The bytes of a heartbeat between two servers, little-endian: the sender, and small messages of
 * replicas (replica.h), which share it.
 *
 *   header, 64 bytes
 *    0  magic 0x48524957 ("WIRH")   u32      4  crc32c of the whole message with this field 0
 *    8  version = 1                 u32     12  items             u32
 *   16  job uuid                    16 bytes
 *   32  generation                  u64     40  incarnation       u64   of the sender's start
 *   48  boot                        u64   drawn at random at that start
 *   56  from                        u16     58  to                u16   servers
 *   60  1: slow (its disk)          u32
 *   item, 56 bytes
 *    0  partition                   u16      2  kind              u8    heartbeat_kind
 *    3  1: gap (of an ACK)          u8       4  zero              u32
 *    8  epoch                       u64     16  incarnation       u64
 *   24  first                       u64     32  last              u64
 *   40  commit                      u64     48  durable           u64
 *
 * A server's heartbeat to itself has no items.
 *
 * Whatever the input, reading ends with a header and as many items as it announces, all within
 * their limits, or with an error. It allocates nothing. */
#ifndef WEIR_HEARTBEAT_FORMAT_H
#define WEIR_HEARTBEAT_FORMAT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/message.h"
#include "server/replica/replica.h"

#define HEARTBEAT_VERSION      1u
#define HEARTBEAT_HEADER_BYTES 64u
#define HEARTBEAT_ITEM_BYTES   56u

/* Messages of replicas that consist of their fields only. An APPEND qualifies only without entries:
 * it tells the commit index. The numbers are those on the wire. */
#define HEARTBEAT_KIND_MAP(X) X(JOIN, 1) X(ACK, 2) X(REFUSE, 3) X(APPEND, 4)
#define HEARTBEAT_KINDS       4u

/* The number of the message's kind, 1 to HEARTBEAT_KINDS; 0: a heartbeat cannot carry it. */
uint8_t heartbeat_kind(const struct replica_message *m);

struct heartbeat_header {
	uint8_t uuid[16];
	uint64_t generation, incarnation, process_id;
	uint16_t from, to;
	bool slow; /* the sender's disk is slow: do not wait for it (sync_watch.h) */
	uint32_t items;
};
struct heartbeat_item {
	uint16_t partition; /* or JOURNAL_LEDGER */
	struct replica_message message;
};

/* Returns one reference. items: (h->items), at most WEIR_HEARTBEAT_ITEMS_MAX, of kinds that
 * heartbeat_kind knows. `from` and `to` of their messages are the header's. NULL: out of memory. */
struct message *heartbeat_pack(const struct heartbeat_header *h, const struct heartbeat_item *items);
/* Checks all of m. *items: for heartbeat_next, as often as h->items says. E_CORRUPT; E_VERSION:
 * from a newer Weir. */
weir_status heartbeat_unpack(const struct message *m, struct heartbeat_header *h, struct cursor *items,
                             weir_error *err) WEIR_MUST_CHECK;
struct heartbeat_item heartbeat_next(struct cursor *items, const struct heartbeat_header *h);

#endif
