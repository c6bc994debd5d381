/* The coordinator's records and keys, which any of its clients may write. They are refused, or
 * packed again and then read alike.
 *
 * Input: u8 kind (beyond the last: a key), the record. */
#include "tests/fuzz/fuzz.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "server/coord/coord_records_format.h"
#include "tests/unit/proto/pieces.h"

enum { PARTITION, HOSTS, SERVER, NEXT, KEY, KINDS };
#define REVISION   9u
#define GENERATION 3u
#define PREFIX     "/weir/00112233445566778899aabbccddeeff/3/"

union record {
	struct replica_record partition;
	struct assignment hosts;
	struct {
		char address[WEIR_ADDRESS_BYTES_MAX];
		uint64_t incarnation;
	} server;
	struct rewind_record next;
};

static weir_status unpack(uint8_t kind, const void *bytes, size_t n, union record *out, weir_error *err)
{
	memset(out, 0, sizeof *out);
	return kind == PARTITION ? coord_records_unpack(bytes, n, REVISION, &out->partition, err)
	       : kind == HOSTS   ? coord_records_unpack_assignment(bytes, n, REVISION, &out->hosts, err)
	       : kind == SERVER  ? coord_records_unpack_server(bytes, n, out->server.address, &out->server.incarnation, err)
	                         : coord_records_unpack_next(bytes, n, GENERATION, &out->next, err);
}

static struct message *pack(uint8_t kind, const union record *r)
{
	struct message *m = kind == PARTITION ? coord_records_pack(&r->partition)
	                    : kind == HOSTS   ? coord_records_pack_assignment(&r->hosts)
	                    : kind == SERVER  ? coord_records_pack_server(r->server.address, r->server.incarnation)
	                                      : coord_records_pack_next(&r->next);
	assert(m);
	return m;
}

static bool same(uint8_t kind, const union record *a, const union record *b)
{
	const struct replica_record *x = &a->partition, *y = &b->partition;
	switch (kind) {
	case PARTITION:
		return x->epoch == y->epoch && x->primary == y->primary && x->min_isr == y->min_isr && member_set_equal(&x->isr, &y->isr);
	case HOSTS:
		return a->hosts.epoch == b->hosts.epoch && a->hosts.primary == b->hosts.primary &&
		       member_set_equal(&a->hosts.hosts, &b->hosts.hosts);
	case SERVER:
		return a->server.incarnation == b->server.incarnation && strcmp(a->server.address, b->server.address) == 0;
	default:
		return a->next.generation == b->next.generation && a->next.step == b->next.step &&
		       strcmp(a->next.checkpoint, b->next.checkpoint) == 0 && strcmp(a->next.why, b->next.why) == 0;
	}
}

static void read_key(const uint8_t *bytes, size_t n)
{
	char key[sizeof PREFIX + 256] = PREFIX, again[WEIR_COORD_KEY_BYTES_MAX];
	enum coord_records_kind kind;
	uint16_t id = 0;
	if (n >= 256)
		return;
	memcpy(key + sizeof PREFIX - 1, bytes, n); /* the watcher only gets keys with the prefix */
	if (!coord_records_key_read(PREFIX, key, 64, &kind, &id))
		return;
	assert(kind < COORD_RECORDS_KINDS);
	coord_records_key(PREFIX, kind, id, again);
	assert(strcmp(again, key) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	union record r, again;
	weir_error err = {0};
	if (size < 1)
		return 0;
	const uint8_t kind = data[0] % KINDS;
	if (kind == KEY) {
		read_key(data + 1, size - 1);
		return 0;
	}
	if (unpack(kind, data + 1, size - 1, &r, &err)) {
		assert(err.text[0]);
		return 0;
	}
	struct message *m = pack(kind, &r);
	uint8_t *bytes = pieces_join(m);
	const weir_status status = unpack(kind, bytes, m->bytes, &again, &err);
	assert(status == WEIR_OK && same(kind, &r, &again));
	(void)status;
	free(bytes);
	message_release(m);
	return 0;
}

uint8_t *fuzz_seed(uint32_t i, size_t *size)
{
	static const char *const keys[] = {"partition/7", "partition/ledger", "hosts/3",  "server/2", "start/1",
	                                   "next",        "partition/65536",  "server/-1"};
	union record r = {0};
	uint8_t kind = (uint8_t)i, *bytes, *seed;
	if (i >= KEY + sizeof keys / sizeof *keys)
		return NULL;
	if (i >= KEY) {
		*size = 1 + strlen(keys[i - KEY]);
		seed = malloc(*size);
		assert(seed);
		seed[0] = KEY;
		memcpy(seed + 1, keys[i - KEY], *size - 1);
		return seed;
	}
	if (kind == PARTITION) {
		r.partition = (struct replica_record){.epoch = 5, .primary = 1, .min_isr = 2};
		member_set_add(&r.partition.isr, 1);
		member_set_add(&r.partition.isr, 2);
	} else if (kind == HOSTS) {
		r.hosts = (struct assignment){.primary = 2, .epoch = 4};
		member_set_add(&r.hosts.hosts, 0);
		member_set_add(&r.hosts.hosts, 2);
	} else if (kind == SERVER) {
		strcpy(r.server.address, "127.0.0.1:7000");
		r.server.incarnation = 12;
	} else {
		r.next = (struct rewind_record){
		    .generation = GENERATION + 1, .checkpoint = "ck-20260101-000000-00112233", .step = 70, .why = "asked"};
	}
	struct message *m = pack(kind, &r);
	bytes = pieces_join(m);
	*size = 1 + m->bytes;
	seed = malloc(*size);
	assert(seed);
	seed[0] = kind;
	memcpy(seed + 1, bytes, m->bytes);
	free(bytes);
	message_release(m);
	return seed;
}
