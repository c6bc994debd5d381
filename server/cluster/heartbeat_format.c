#include "server/cluster/heartbeat_format.h"

#include <assert.h>
#include <string.h>

#include "common/base/crc32c.h"
#include "common/base/little_endian.h"
#include "server/log/journal.h"

#define MAGIC     0x48524957u
#define CRC_AT    4u
#define FLAG_GAP  1u /* of an item */
#define FLAG_SLOW 1u /* of the header */

_Static_assert(HEARTBEAT_HEADER_BYTES + WEIR_HEARTBEAT_ITEMS_MAX * HEARTBEAT_ITEM_BYTES <= WEIR_MESSAGE_BYTES_TARGET,
               "what all partitions have to say in a tick must fit one message");

#define COUNT_KIND(name, number) +1u
_Static_assert(HEARTBEAT_KIND_MAP(COUNT_KIND) == HEARTBEAT_KINDS &&
                   HEARTBEAT_KINDS * (WEIR_PARTITIONS_MAX + 1) <= WEIR_HEARTBEAT_ITEMS_MAX,
               "one item of each kind for every partition must fit a heartbeat");
#undef COUNT_KIND

/* --- Kinds */

static uint8_t number_of(enum replica_message_kind kind)
{
	switch (kind) {
#define KIND_NUMBER(name, number) \
	case REPLICA_##name:          \
		return number;
		HEARTBEAT_KIND_MAP(KIND_NUMBER)
#undef KIND_NUMBER
	default:
		return 0;
	}
}

/* The kind of a number from 1 to HEARTBEAT_KINDS. */
static enum replica_message_kind kind_of(uint8_t number)
{
	static const enum replica_message_kind kinds[HEARTBEAT_KINDS + 1] = {
#define KIND_OF(name, number) [number] = REPLICA_##name,
	    HEARTBEAT_KIND_MAP(KIND_OF)
#undef KIND_OF
	};
	return kinds[number];
}

uint8_t heartbeat_kind(const struct replica_message *m)
{
	const bool has_entries = m->kind == REPLICA_APPEND && m->first != m->last + 1;
	return has_entries ? 0 : number_of(m->kind);
}

/* --- Writing */

static void put_header(uint8_t *out, const struct heartbeat_header *h)
{
	put32(out, MAGIC);
	put32(out + CRC_AT, 0);
	put32(out + 8, HEARTBEAT_VERSION);
	put32(out + 12, h->items);
	memcpy(out + 16, h->uuid, sizeof h->uuid);
	put64(out + 32, h->generation);
	put64(out + 40, h->incarnation);
	put64(out + 48, h->process_id);
	put16(out + 56, h->from);
	put16(out + 58, h->to);
	put32(out + 60, h->slow ? FLAG_SLOW : 0);
}

static void put_item(uint8_t *out, const struct heartbeat_item *i)
{
	const struct replica_message *m = &i->message;
	put16(out, i->partition);
	out[2] = heartbeat_kind(m);
	out[3] = m->kind == REPLICA_ACK && m->gap ? FLAG_GAP : 0;
	put32(out + 4, 0);
	put64(out + 8, m->epoch);
	put64(out + 16, m->incarnation);
	put64(out + 24, m->first);
	put64(out + 32, m->last);
	put64(out + 40, m->commit);
	put64(out + 48, m->durable);
}

struct message *heartbeat_pack(const struct heartbeat_header *h, const struct heartbeat_item *items)
{
	const size_t bytes = HEARTBEAT_HEADER_BYTES + (size_t)h->items * HEARTBEAT_ITEM_BYTES;
	uint8_t *out;
	assert(h->items <= WEIR_HEARTBEAT_ITEMS_MAX);
	struct message *m = message_alloc(bytes, &out);
	if (!m)
		return NULL;
	put_header(out, h);
	for (uint32_t i = 0; i < h->items; i++)
		put_item(out + HEARTBEAT_HEADER_BYTES + i * HEARTBEAT_ITEM_BYTES, &items[i]);
	put32(out + CRC_AT, crc32c(0, out, bytes));
	return m;
}

/* --- Reading */

static weir_status corrupt(const char *what, weir_error *err)
{
	return weir_fail(err, WEIR_E_CORRUPT, "a heartbeat: %s", what);
}

static weir_status check_header(const uint8_t *b, size_t bytes, uint32_t crc, weir_error *err)
{
	if (get32(b) != MAGIC)
		return corrupt("the magic number is another", err);
	if (get32(b + CRC_AT) != crc)
		return corrupt("its checksum is another", err);
	if (get32(b + 8) != HEARTBEAT_VERSION)
		return weir_fail(err, WEIR_E_VERSION, "a heartbeat of version %u, this program reads %u", get32(b + 8),
		                 HEARTBEAT_VERSION);
	if (get32(b + 12) > WEIR_HEARTBEAT_ITEMS_MAX ||
	    bytes != HEARTBEAT_HEADER_BYTES + (size_t)get32(b + 12) * HEARTBEAT_ITEM_BYTES)
		return corrupt("its length is not that of its items", err);
	if (get16(b + 56) >= WEIR_SERVERS_MAX || get16(b + 58) >= WEIR_SERVERS_MAX)
		return corrupt("it is not from one server to another", err);
	if (get16(b + 56) == get16(b + 58) && get32(b + 12))
		return corrupt("a server's to itself carries nothing", err);
	if (get64(b + 40) == 0)
		return corrupt("of no incarnation", err);
	return (get32(b + 60) & ~FLAG_SLOW) == 0 ? WEIR_OK : corrupt("what must be zero is not", err);
}

static struct heartbeat_header get_header(const uint8_t *b)
{
	struct heartbeat_header h = {.items = get32(b + 12),
	                             .generation = get64(b + 32),
	                             .incarnation = get64(b + 40),
	                             .process_id = get64(b + 48),
	                             .from = get16(b + 56),
	                             .to = get16(b + 58),
	                             .slow = get32(b + 60) & FLAG_SLOW};
	memcpy(h.uuid, b + 16, sizeof h.uuid);
	return h;
}

static weir_status check_item(const uint8_t *b, weir_error *err)
{
	const uint16_t partition = get16(b);
	if (partition >= WEIR_PARTITIONS_MAX && partition != JOURNAL_LEDGER)
		return corrupt("of no partition", err);
	if (b[2] == 0 || b[2] > HEARTBEAT_KINDS)
		return corrupt("of an unknown kind of message", err);
	if (b[3] > (kind_of(b[2]) == REPLICA_ACK ? FLAG_GAP : 0) || get32(b + 4) != 0)
		return corrupt("what must be zero is not", err);
	if (kind_of(b[2]) == REPLICA_APPEND && get64(b + 24) != get64(b + 32) + 1)
		return corrupt("it announces entries that it does not have", err);
	return WEIR_OK;
}

weir_status heartbeat_unpack(const struct message *m, struct heartbeat_header *h, struct cursor *items, weir_error *err)
{
	struct cursor c = cursor_at(m);
	uint8_t b[HEARTBEAT_HEADER_BYTES], item[HEARTBEAT_ITEM_BYTES], zeroed[HEARTBEAT_HEADER_BYTES];
	if (m->bytes > HEARTBEAT_HEADER_BYTES + WEIR_HEARTBEAT_ITEMS_MAX * HEARTBEAT_ITEM_BYTES ||
	    cursor_read(&c, b, sizeof b) != WEIR_OK)
		return corrupt("too short or too long", err);
	memcpy(zeroed, b, sizeof b);
	put32(zeroed + CRC_AT, 0);
	weir_status status = check_header(b, m->bytes, cursor_crc32c(&c, c.left, crc32c(0, zeroed, sizeof zeroed)), err);
	if (status)
		return status;
	*h = get_header(b);
	*items = c;
	for (uint32_t i = 0; i < h->items && !status; i++) {
		status = cursor_read(&c, item, sizeof item);
		status = status ? status : check_item(item, err);
	}
	return status;
}

struct heartbeat_item heartbeat_next(struct cursor *items, const struct heartbeat_header *h)
{
	uint8_t b[HEARTBEAT_ITEM_BYTES];
	const weir_status status = cursor_read(items, b, sizeof b);
	assert(status == WEIR_OK);
	(void)status;
	return (struct heartbeat_item){.partition = get16(b),
	                               .message = {.kind = kind_of(b[2]),
	                                           .from = h->from,
	                                           .to = h->to,
	                                           .epoch = get64(b + 8),
	                                           .incarnation = get64(b + 16),
	                                           .first = get64(b + 24),
	                                           .last = get64(b + 32),
	                                           .commit = get64(b + 40),
	                                           .durable = get64(b + 48),
	                                           .gap = b[3] & FLAG_GAP}};
}
