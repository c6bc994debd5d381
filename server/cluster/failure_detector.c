#include "server/cluster/failure_detector.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "server/log/journal.h"

#define ITEMS_FIRST 16u

struct peer {
	struct failure_detector_peer start;
	bool silent;                  /* reported through `silence` */
	struct heartbeat_item *items; /* (count) for the next heartbeat */
	uint32_t count, capacity;
	/* (partitions and the ledger, HEARTBEAT_KINDS) Position in `items`, from 1; 0: none waits. */
	uint16_t *at;
};

struct failure_detector {
	struct failure_detector_options options;
	struct heartbeat silences;
	uint32_t ticks;
	bool hears_itself;  /* by a path that still exists */
	bool heard_itself;  /* since the last tick */
	struct peer *peers; /* (options.servers) */
};

/* --- Life */

static uint32_t kinds_of_all(const struct failure_detector *h)
{
	return (h->options.partitions + 1) * HEARTBEAT_KINDS;
}

struct failure_detector *failure_detector_create(const struct failure_detector_options *options)
{
	assert(options->servers <= WEIR_SERVERS_MAX && options->self < options->servers);
	assert(options->partitions <= WEIR_PARTITIONS_MAX && options->incarnation > 0);
	struct failure_detector *h = calloc(1, sizeof *h);
	if (!h)
		return NULL;
	h->options = *options;
	if (!h->options.silent_ticks)
		h->options.silent_ticks = WEIR_HEARTBEAT_SILENT_TICKS;
	heartbeat_init(&h->silences);
	h->peers = calloc(options->servers, sizeof *h->peers);
	bool whole = h->peers;
	if (whole)
		h->peers[options->self].start =
		    (struct failure_detector_peer){.incarnation = options->incarnation, .process_id = options->process_id};
	for (uint32_t i = 0; i < options->servers && whole; i++)
		whole = (h->peers[i].at = calloc(kinds_of_all(h), sizeof *h->peers[i].at)) != NULL;
	if (whole)
		return h;
	failure_detector_destroy(h);
	return NULL;
}

void failure_detector_destroy(struct failure_detector *h)
{
	if (!h)
		return;
	for (uint32_t i = 0; h->peers && i < h->options.servers; i++) {
		free(h->peers[i].items);
		free(h->peers[i].at);
	}
	free(h->peers);
	free(h);
}

struct failure_detector_peer failure_detector_get_peer(const struct failure_detector *h, uint16_t server)
{
	assert(server < h->options.servers);
	return h->peers[server].start;
}

const struct heartbeat *failure_detector_silences(const struct failure_detector *h)
{
	return &h->silences;
}

/* --- Silence */

static void report(struct failure_detector *h, uint16_t server)
{
	struct peer *p = &h->peers[server];
	const bool silent = heartbeat_silent(&h->silences, server) >= h->options.silent_ticks;
	if (server == h->options.self || silent == p->silent)
		return;
	p->silent = silent;
	h->options.silence(h->options.arg, server, silent);
}

static bool is_expected(const struct failure_detector *h, uint16_t server)
{
	return !h->peers[server].start.incarnation && h->ticks + h->options.silent_ticks <= h->options.first_ticks;
}

/* Whether messages sent by others since the last tick would have been heard. */
static bool has_listened(struct failure_detector *h)
{
	const bool listened = h->heard_itself || !h->hears_itself;
	h->heard_itself = false;
	return listened;
}

void failure_detector_lost_itself(struct failure_detector *h)
{
	h->hears_itself = false;
}

void failure_detector_tick(struct failure_detector *h)
{
	if (!has_listened(h))
		return;
	heartbeat_tick(&h->silences);
	h->ticks += h->ticks < h->options.first_ticks;
	for (uint16_t i = 0; i < h->options.servers; i++) {
		if (is_expected(h, i))
			heartbeat_heard(&h->silences, i);
		report(h, i);
	}
}

void failure_detector_heard(struct failure_detector *h, uint16_t server)
{
	assert(server < h->options.servers);
	heartbeat_heard(&h->silences, server);
	report(h, server);
}

/* --- Sending */

static uint16_t *place_of(const struct failure_detector *h, const struct heartbeat_item *i)
{
	const uint32_t partition = i->partition == JOURNAL_LEDGER ? h->options.partitions : i->partition;
	assert(partition <= h->options.partitions);
	return &h->peers[i->message.to].at[partition * HEARTBEAT_KINDS + heartbeat_kind(&i->message) - 1u];
}

/* False: out of memory. */
static bool make_room(struct peer *p)
{
	if (p->count < p->capacity)
		return true;
	const uint32_t capacity = p->capacity ? 2 * p->capacity : ITEMS_FIRST;
	struct heartbeat_item *items = realloc(p->items, capacity * sizeof *items);
	if (!items)
		return false;
	p->items = items;
	p->capacity = capacity;
	return true;
}

void failure_detector_add(struct failure_detector *h, uint16_t partition, const struct replica_message *m)
{
	assert(heartbeat_kind(m) && m->to < h->options.servers && m->to != h->options.self);
	struct peer *p = &h->peers[m->to];
	const struct heartbeat_item item = {.partition = partition, .message = *m};
	uint16_t *place = place_of(h, &item);
	if (*place) {
		struct replica_message *waiting = &p->items[*place - 1].message;
		const bool gap = waiting->gap && waiting->epoch == m->epoch; /* kept until it is sent */
		*waiting = *m;
		waiting->gap |= gap;
	} else if (make_room(p)) { /* else as if lost on its way */
		p->items[p->count++] = item;
		*place = (uint16_t)p->count;
	}
}

static void beat(struct failure_detector *h, uint16_t to)
{
	const struct failure_detector_options *o = &h->options;
	struct peer *p = &h->peers[to];
	struct heartbeat_header header = {.generation = o->generation,
	                                  .incarnation = o->incarnation,
	                                  .process_id = o->process_id,
	                                  .from = o->self,
	                                  .to = to,
	                                  .slow = h->silences.slow[o->self],
	                                  .items = p->count};
	memcpy(header.uuid, o->uuid, sizeof header.uuid);
	struct message *m = heartbeat_pack(&header, p->items);
	if (!m)
		return;
	for (uint32_t i = 0; i < p->count; i++)
		*place_of(h, &p->items[i]) = 0;
	p->count = 0;
	o->send(o->arg, to, m);
}

void failure_detector_say_slow(struct failure_detector *h, bool slow)
{
	h->silences.slow[h->options.self] = slow;
}

void failure_detector_beat(struct failure_detector *h)
{
	for (uint16_t i = 0; i < h->options.servers; i++)
		beat(h, i);
}

/* --- Receiving */

static weir_status check_parties(const struct failure_detector *h, const struct heartbeat_header *got, weir_error *err)
{
	const struct failure_detector_options *o = &h->options;
	if (memcmp(got->uuid, o->uuid, sizeof got->uuid) != 0 || got->generation != o->generation)
		return weir_fail(err, WEIR_E_GENERATION,
		                 "a heartbeat of server %u, which is of another job, or of its generation %llu, not %llu", got->from,
		                 (unsigned long long)got->generation, (unsigned long long)o->generation);
	if (got->to != o->self || got->from >= o->servers)
		return weir_fail(err, WEIR_E_INVALID,
		                 "a heartbeat from server %u to server %u has come to server %u of %u: check the addresses", got->from,
		                 got->to, o->self, o->servers);
	return WEIR_OK;
}

static weir_status check_start(const struct failure_detector *h, const struct heartbeat_header *got, weir_error *err)
{
	const struct failure_detector_peer *known = &h->peers[got->from].start;
	if (got->incarnation < known->incarnation)
		return weir_fail(
		    err, WEIR_E_STALE,
		    "a heartbeat of server %u in incarnation %llu, it is in %llu: a late one, or the server has lost its folder",
		    got->from, (unsigned long long)got->incarnation, (unsigned long long)known->incarnation);
	if (got->incarnation == known->incarnation && got->process_id != known->process_id)
		return weir_fail(
		    err, WEIR_E_STATE,
		    "two processes are server %u in incarnation %llu: stop one of them, the one with a copied or a new folder", got->from,
		    (unsigned long long)got->incarnation);
	return WEIR_OK;
}

static weir_status check_partitions(const struct failure_detector *h, const struct heartbeat_header *got, struct cursor items,
                                    weir_error *err)
{
	for (uint32_t i = 0; i < got->items; i++) {
		const uint16_t partition = heartbeat_next(&items, got).partition;
		if (partition != JOURNAL_LEDGER && partition >= h->options.partitions)
			return weir_fail(err, WEIR_E_INVALID, "a heartbeat of server %u speaks of partition %u, the job has %u", got->from,
			                 partition, h->options.partitions);
	}
	return WEIR_OK;
}

weir_status failure_detector_receive(struct failure_detector *h, const struct message *m, weir_error *err)
{
	struct heartbeat_header got;
	struct cursor items;
	weir_status status = heartbeat_unpack(m, &got, &items, err);
	if (!status)
		status = check_parties(h, &got, err);
	if (!status)
		status = check_start(h, &got, err);
	if (!status)
		status = check_partitions(h, &got, items, err);
	if (status)
		return status;
	if (got.from == h->options.self) {
		h->hears_itself = h->heard_itself = true;
		return WEIR_OK;
	}
	h->peers[got.from].start = (struct failure_detector_peer){.incarnation = got.incarnation, .process_id = got.process_id};
	h->silences.slow[got.from] = got.slow;
	failure_detector_heard(h, got.from);
	for (uint32_t i = 0; i < got.items; i++) {
		const struct heartbeat_item item = heartbeat_next(&items, &got);
		h->options.deliver(h->options.arg, item.partition, &item.message);
	}
	return WEIR_OK;
}
