#include "server/coord/coord_records_format.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/wire/wire.h"
#include "server/log/journal.h"
#include "state.pb-c.h"

static void name_job(const uint8_t uuid[16], char out[33])
{
	for (uint32_t i = 0; i < 16; i++)
		snprintf(out + 2 * (size_t)i, 3, "%02x", uuid[i]);
}

void coord_records_mark_key(const uint8_t uuid[16], uint16_t server, char out[WEIR_COORD_KEY_BYTES_MAX])
{
	char job[33];
	name_job(uuid, job);
	snprintf(out, WEIR_COORD_KEY_BYTES_MAX, "/weir/%s/mark/%u", job, server);
}

void coord_records_incarnation_key(const uint8_t uuid[16], uint16_t server, char out[WEIR_COORD_KEY_BYTES_MAX])
{
	char job[33];
	name_job(uuid, job);
	snprintf(out, WEIR_COORD_KEY_BYTES_MAX, "/weir/%s/incarnation/%u", job, server);
}

void coord_records_prefix(const uint8_t uuid[16], uint64_t generation, char out[WEIR_COORD_KEY_BYTES_MAX])
{
	char job[33];
	name_job(uuid, job);
	snprintf(out, WEIR_COORD_KEY_BYTES_MAX, "/weir/%s/%llu/", job, (unsigned long long)generation);
}

static const char *const kinds[COORD_RECORDS_KINDS] = {[COORD_RECORDS_PARTITION] = "partition/",
                                                       [COORD_RECORDS_HOSTS] = "hosts/",
                                                       [COORD_RECORDS_SERVER] = "server/",
                                                       [COORD_RECORDS_START] = "start/",
                                                       [COORD_RECORDS_NEXT] = "next"};

void coord_records_key(const char *prefix, enum coord_records_kind kind, uint16_t id, char out[WEIR_COORD_KEY_BYTES_MAX])
{
	const int n = kind == COORD_RECORDS_NEXT ? snprintf(out, WEIR_COORD_KEY_BYTES_MAX, "%s%s", prefix, kinds[kind])
	                                         : snprintf(out, WEIR_COORD_KEY_BYTES_MAX, "%s%s%u", prefix, kinds[kind], id);
	assert(n < (int)WEIR_COORD_KEY_BYTES_MAX);
}

static bool is_possible(enum coord_records_kind kind, unsigned long long id, uint32_t partitions)
{
	if (kind == COORD_RECORDS_NEXT)
		return id == 0;
	return kind == COORD_RECORDS_SERVER || kind == COORD_RECORDS_START ? id < WEIR_SERVERS_MAX
	                                                                   : id < partitions || id == JOURNAL_LEDGER;
}

static bool key_read_as(const char *prefix, enum coord_records_kind kind, const char *key, uint32_t partitions, uint16_t *out)
{
	char same[WEIR_COORD_KEY_BYTES_MAX];
	const size_t before = strlen(prefix), n = strlen(kinds[kind]);
	if (strncmp(key, prefix, before) != 0 || strncmp(key + before, kinds[kind], n) != 0)
		return false;
	const unsigned long long id = strtoull(key + before + n, NULL, 10);
	*out = (uint16_t)id;
	if (!is_possible(kind, id, partitions))
		return false;
	coord_records_key(prefix, kind, *out, same);
	return strcmp(same, key) == 0;
}

bool coord_records_key_read(const char *prefix, const char *key, uint32_t partitions, enum coord_records_kind *kind, uint16_t *id)
{
	for (uint32_t k = 0; k < COORD_RECORDS_KINDS; k++)
		if (key_read_as(prefix, (enum coord_records_kind)k, key, partitions, id)) {
			*kind = (enum coord_records_kind)k;
			return true;
		}
	return false;
}

const char *coord_records_name(uint16_t partition, char out[COORD_RECORDS_NAME_BYTES])
{
	if (partition == JOURNAL_LEDGER)
		snprintf(out, COORD_RECORDS_NAME_BYTES, "ledger");
	else
		snprintf(out, COORD_RECORDS_NAME_BYTES, "%u", partition);
	return out;
}

struct message *coord_records_pack(const struct replica_record *r)
{
	Weir__V1__PartitionRecord p = WEIR__V1__PARTITION_RECORD__INIT;
	uint32_t isr[WEIR_REPLICAS_MAX];
	for (uint32_t i = 0; i < r->isr.count; i++)
		isr[i] = r->isr.ids[i];
	p.version = COORD_RECORDS_VERSION;
	p.epoch = r->epoch;
	p.primary = r->primary;
	p.isr = isr;
	p.n_isr = r->isr.count;
	p.min_isr = r->min_isr;
	return wire_pack(&p.base);
}

static weir_status check_version(uint32_t version, weir_error *err)
{
	if (version > COORD_RECORDS_VERSION)
		return weir_fail(err, WEIR_E_VERSION, "version %u, this program knows %u", version, COORD_RECORDS_VERSION);
	return version == 0 ? weir_fail(err, WEIR_E_CORRUPT, "a record of no version") : WEIR_OK;
}

/* The epoch is 32 bits on the wire (frame.h, RESUME_REPLY). */
static bool can_be(const Weir__V1__PartitionRecord *p)
{
	bool fits = p->n_isr > 0 && p->n_isr <= WEIR_REPLICAS_MAX && p->min_isr > 0 && p->min_isr <= WEIR_REPLICAS_MAX &&
	            p->epoch <= UINT32_MAX;
	bool in_sync = p->primary == MEMBER_NONE;
	for (size_t i = 0; i < p->n_isr && fits; i++) {
		fits = p->isr[i] < WEIR_SERVERS_MAX && (i == 0 || p->isr[i] > p->isr[i - 1]);
		in_sync = in_sync || p->isr[i] == p->primary;
	}
	return fits && in_sync;
}

weir_status coord_records_unpack(const void *value, size_t bytes, uint64_t revision, struct replica_record *out, weir_error *err)
{
	ProtobufCMessage *unpacked;
	weir_status status = wire_unpack_state(&weir__v1__partition_record__descriptor, value, bytes, &unpacked, err);
	if (status)
		return status;
	const Weir__V1__PartitionRecord *p = (const Weir__V1__PartitionRecord *)unpacked;
	status = check_version(p->version, err);
	if (!status && !can_be(p))
		status = weir_fail(err, WEIR_E_CORRUPT, "no such record can be: epoch %llu, primary %u, %zu in sync, at least %u",
		                   (unsigned long long)p->epoch, p->primary, p->n_isr, p->min_isr);
	if (!status)
		*out = (struct replica_record){
		    .revision = revision, .epoch = p->epoch, .primary = (uint16_t)p->primary, .min_isr = (uint16_t)p->min_isr};
	for (size_t i = 0; i < p->n_isr && !status; i++)
		member_set_add(&out->isr, (uint16_t)p->isr[i]);
	wire_destroy(unpacked);
	return status;
}

/* --- Assignments */

struct message *coord_records_pack_assignment(const struct assignment *r)
{
	Weir__V1__HostsRecord h = WEIR__V1__HOSTS_RECORD__INIT;
	uint32_t hosts[WEIR_REPLICAS_MAX];
	for (uint32_t i = 0; i < r->hosts.count; i++)
		hosts[i] = r->hosts.ids[i];
	h.version = COORD_RECORDS_VERSION;
	h.hosts = hosts;
	h.n_hosts = r->hosts.count;
	h.primary = r->primary;
	h.epoch = r->epoch;
	return wire_pack(&h.base);
}

static bool hosts_can_be(const Weir__V1__HostsRecord *h)
{
	bool fits = h->n_hosts > 0 && h->n_hosts <= WEIR_REPLICAS_MAX;
	bool hosted = h->primary == MEMBER_NONE;
	for (size_t i = 0; i < h->n_hosts && fits; i++) {
		fits = h->hosts[i] < WEIR_SERVERS_MAX && (i == 0 || h->hosts[i] > h->hosts[i - 1]);
		hosted = hosted || h->hosts[i] == h->primary;
	}
	return fits && hosted;
}

weir_status coord_records_unpack_assignment(const void *value, size_t bytes, uint64_t revision, struct assignment *out,
                                            weir_error *err)
{
	ProtobufCMessage *unpacked;
	weir_status status = wire_unpack_state(&weir__v1__hosts_record__descriptor, value, bytes, &unpacked, err);
	if (status)
		return status;
	const Weir__V1__HostsRecord *h = (const Weir__V1__HostsRecord *)unpacked;
	status = check_version(h->version, err);
	if (!status && !hosts_can_be(h))
		status = weir_fail(err, WEIR_E_CORRUPT, "no such hosts can be: %zu, primary %u", h->n_hosts, h->primary);
	if (!status)
		*out = (struct assignment){.revision = revision, .primary = (uint16_t)h->primary, .epoch = h->epoch};
	for (size_t i = 0; i < h->n_hosts && !status; i++)
		member_set_add(&out->hosts, (uint16_t)h->hosts[i]);
	wire_destroy(unpacked);
	return status;
}

/* --- Servers */

struct message *coord_records_pack_server(const char *address, uint64_t incarnation)
{
	Weir__V1__ServerRecord r = WEIR__V1__SERVER_RECORD__INIT;
	r.version = COORD_RECORDS_VERSION;
	r.address = (char *)(uintptr_t)address;
	r.incarnation = incarnation;
	return wire_pack(&r.base);
}

weir_status coord_records_unpack_server(const void *value, size_t bytes, char *address, uint64_t *incarnation, weir_error *err)
{
	ProtobufCMessage *unpacked;
	weir_status status = wire_unpack_state(&weir__v1__server_record__descriptor, value, bytes, &unpacked, err);
	if (status)
		return status;
	const Weir__V1__ServerRecord *r = (const Weir__V1__ServerRecord *)unpacked;
	status = check_version(r->version, err);
	if (!status)
		snprintf(address, WEIR_ADDRESS_BYTES_MAX, "%s", r->address);
	*incarnation = status ? 0 : r->incarnation;
	wire_destroy(unpacked);
	return status;
}

/* --- Marks */

struct message *coord_records_pack_mark(const struct mark *m)
{
	Weir__V1__MarkRecord r = WEIR__V1__MARK_RECORD__INIT;
	r.version = COORD_RECORDS_VERSION;
	r.generation = m->generation;
	r.epoch = m->epoch;
	r.position = m->position;
	return wire_pack(&r.base);
}

weir_status coord_records_unpack_mark(const void *value, size_t bytes, struct mark *out, weir_error *err)
{
	ProtobufCMessage *unpacked;
	weir_status status = wire_unpack_state(&weir__v1__mark_record__descriptor, value, bytes, &unpacked, err);
	if (status)
		return status;
	const Weir__V1__MarkRecord *r = (const Weir__V1__MarkRecord *)unpacked;
	status = check_version(r->version, err);
	*out = status ? (struct mark){0} : (struct mark){.generation = r->generation, .epoch = r->epoch, .position = r->position};
	wire_destroy(unpacked);
	return status;
}

/* --- The next generation */

struct message *coord_records_pack_next(const struct rewind_record *r)
{
	Weir__V1__NextRecord n = WEIR__V1__NEXT_RECORD__INIT;
	n.version = COORD_RECORDS_VERSION;
	n.generation = r->generation;
	n.checkpoint = (char *)(uintptr_t)r->checkpoint;
	n.step = r->step;
	n.why = (char *)(uintptr_t)r->why;
	return wire_pack(&n.base);
}

weir_status coord_records_unpack_next(const void *value, size_t bytes, uint64_t generation, struct rewind_record *out,
                                      weir_error *err)
{
	ProtobufCMessage *unpacked;
	weir_status status = wire_unpack_state(&weir__v1__next_record__descriptor, value, bytes, &unpacked, err);
	if (status)
		return status;
	const Weir__V1__NextRecord *n = (const Weir__V1__NextRecord *)unpacked;
	status = check_version(n->version, err);
	if (!status && (n->generation <= generation || !n->checkpoint[0] || strlen(n->checkpoint) >= sizeof out->checkpoint))
		status = weir_fail(err, WEIR_E_CORRUPT, "generation %llu cannot follow generation %llu, from checkpoint '%.64s'",
		                   (unsigned long long)n->generation, (unsigned long long)generation, n->checkpoint);
	if (!status) {
		*out = (struct rewind_record){.generation = n->generation, .step = n->step};
		snprintf(out->checkpoint, sizeof out->checkpoint, "%s", n->checkpoint);
		snprintf(out->why, sizeof out->why, "%s", n->why);
	}
	wire_destroy(unpacked);
	return status;
}
