/* A heartbeat from a stranger: refused, or read within its bounds, alike however the bytes are cut,
 * and written again byte for byte.
 *
 * Input: cut_input.h, with a heartbeat. */
#include "tests/fuzz/fuzz.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/crc32c.h"
#include "common/base/little_endian.h"
#include "server/cluster/heartbeat_format.h"
#include "server/log/journal.h"
#include "tests/fuzz/cut_input.h"
#include "tests/unit/proto/pieces.h"

static void repair(uint8_t *bytes, size_t size)
{
	if (size < HEARTBEAT_HEADER_BYTES)
		return;
	put32(bytes + 4, 0);
	put32(bytes + 4, crc32c(0, bytes, size));
}

static void check_item(const struct heartbeat_item *i, const struct heartbeat_header *h)
{
	assert(i->partition < WEIR_PARTITIONS_MAX || i->partition == JOURNAL_LEDGER);
	assert(heartbeat_kind(&i->message) && i->message.from == h->from && i->message.to == h->to && !i->message.epochs);
}

/* Reads m and writes it again; NULL when it is refused. */
static struct message *again(const struct message *m)
{
	struct heartbeat_header h;
	struct cursor c;
	weir_error err = {0};
	weir_status status = heartbeat_unpack(m, &h, &c, &err);
	assert(status == WEIR_OK || err.text[0]);
	if (status)
		return NULL;
	struct heartbeat_item *items = calloc(h.items + 1, sizeof *items);
	assert(items && h.items <= WEIR_HEARTBEAT_ITEMS_MAX && (h.from != h.to || !h.items) && h.from < WEIR_SERVERS_MAX &&
	       h.to < WEIR_SERVERS_MAX);
	for (uint32_t i = 0; i < h.items; i++) {
		items[i] = heartbeat_next(&c, &h);
		check_item(&items[i], &h);
	}
	assert(c.left == 0);
	struct message *out = heartbeat_pack(&h, items);
	assert(out);
	free(items);
	return out;
}

static void check_cut(const uint8_t *bytes, size_t n, size_t cut)
{
	struct message *m = pieces_of(bytes, n, cut), *written = again(m);
	assert(!written || (written->bytes == n && memcmp(written->spans[0].data, bytes, n) == 0));
	message_release(written);
	message_release(m);
}

static void check(const uint8_t *bytes, size_t n, size_t cut, uint8_t flags)
{
	(void)flags;
	check_cut(bytes, n, n + 1);
	check_cut(bytes, n, cut);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	return cut_input(data, size, repair, check);
}

/* A heartbeat with `items` items of each kind. */
static uint8_t *example(uint32_t items, size_t *size)
{
	static const enum replica_message_kind kinds[] = {REPLICA_JOIN, REPLICA_ACK, REPLICA_REFUSE, REPLICA_APPEND};
	struct heartbeat_item list[64] = {0};
	const struct heartbeat_header h = {
	    .uuid = "fuzz", .generation = 1, .incarnation = 2, .process_id = 3, .from = 4, .to = 5, .items = items};
	for (uint32_t i = 0; i < items; i++)
		list[i] = (struct heartbeat_item){
		    .partition = i == 0 ? JOURNAL_LEDGER : (uint16_t)i,
		    .message = {
		        .kind = kinds[i % 4], .epoch = 2, .incarnation = 2, .first = i + 1, .last = i, .commit = i, .gap = i % 8 == 1}};
	struct message *m = heartbeat_pack(&h, list);
	assert(m);
	return cut_input_seed(7, CUT_INPUT_REPAIR, m, size);
}

uint8_t *fuzz_seed(uint32_t i, size_t *size)
{
	static const uint32_t items[] = {0, 1, 4, 64};
	return i < sizeof items / sizeof *items ? example(items[i], size) : NULL;
}
