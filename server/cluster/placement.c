#include "server/cluster/placement.h"

#include <pthread.h>
#include <stdlib.h>

#include "server/context/context.h"
#include "server/coord/coord_records_format.h"
#include "server/log/journal.h"
#include "server/replication/replication.h"

struct hosted {
	struct placement_view view;
	uint64_t leaves_below; /* roles of earlier epochs move to other servers */
};
struct placement {
	const struct server *server;
	pthread_mutex_t lock;
	/* Guarded by lock. */
	bool all, leaves, lives[WEIR_SERVERS_MAX];
	struct hosted of[]; /* (partitions, then the ledger) */
};

static uint16_t self_of(const struct placement *h)
{
	return (uint16_t)h->server->options.index;
}

/* --- Known records */

/* NULL: there is no such partition. */
static struct placement_view *view_of(struct placement *h, uint16_t partition)
{
	const uint32_t partitions = h->server->options.partitions;
	if (partition == JOURNAL_LEDGER)
		return &h->of[partitions].view;
	return partition < partitions ? &h->of[partition].view : NULL;
}

struct placement *placement_create(const struct server *s)
{
	const uint32_t count = s->options.partitions + 1u;
	struct placement *h = calloc(1, sizeof *h + count * sizeof *h->of);
	if (!h)
		return NULL;
	h->server = s;
	pthread_mutex_init(&h->lock, NULL);
	for (uint32_t p = 0; p < count; p++) {
		struct placement_view *v = &h->of[p].view;
		v->wanted.primary = v->seen.primary = MEMBER_NONE;
		v->wanted.hosts = server_first_hosts(s, p < s->options.partitions ? (uint16_t)p : JOURNAL_LEDGER);
	}
	return h;
}

void placement_destroy(struct placement *h)
{
	if (!h)
		return;
	pthread_mutex_destroy(&h->lock);
	free(h);
}

void placement_note_wanted(struct placement *h, uint16_t partition, const struct assignment *wanted)
{
	pthread_mutex_lock(&h->lock);
	struct placement_view *v = view_of(h, partition);
	if (v && wanted->revision > v->wanted.revision)
		v->wanted = *wanted;
	pthread_mutex_unlock(&h->lock);
}

void placement_note_record(struct placement *h, uint16_t partition, const struct replica_record *record)
{
	pthread_mutex_lock(&h->lock);
	struct placement_view *v = view_of(h, partition);
	if (v && record->revision > v->seen.revision)
		v->seen = *record;
	pthread_mutex_unlock(&h->lock);
}

void placement_note_server(struct placement *h, uint16_t server, bool lives)
{
	pthread_mutex_lock(&h->lock);
	h->lives[server] = lives;
	pthread_mutex_unlock(&h->lock);
}

bool placement_lives(struct placement *h, uint32_t server)
{
	pthread_mutex_lock(&h->lock);
	const bool lives = server < WEIR_SERVERS_MAX && h->lives[server];
	pthread_mutex_unlock(&h->lock);
	return lives;
}

void placement_note_all(struct placement *h)
{
	pthread_mutex_lock(&h->lock);
	h->all = true;
	pthread_mutex_unlock(&h->lock);
}

bool placement_look(struct placement *h, uint16_t partition, struct placement_view *out)
{
	pthread_mutex_lock(&h->lock);
	*out = *view_of(h, partition);
	const bool all = h->all;
	pthread_mutex_unlock(&h->lock);
	return all;
}

/* The partitions, plus the ledger if the job has one. */
static uint32_t hosted_count(const struct placement *h)
{
	return h->server->options.partitions + (h->server->ledger_loop != NULL);
}

bool placement_is_whole(struct placement *h)
{
	pthread_mutex_lock(&h->lock);
	bool whole = h->all && !h->leaves;
	for (uint32_t p = 0; p < hosted_count(h) && whole; p++) {
		const struct placement_view *v = &h->of[p].view;
		whole = !member_set_has(&v->wanted.hosts, self_of(h)) || member_set_has(&v->seen.isr, self_of(h));
	}
	pthread_mutex_unlock(&h->lock);
	return whole;
}

/* --- Leaving */

void placement_leave(struct placement *h)
{
	pthread_mutex_lock(&h->lock);
	h->leaves = true;
	for (uint32_t p = 0; p <= h->server->options.partitions; p++)
		h->of[p].leaves_below = h->of[p].view.seen.epoch + 1;
	pthread_mutex_unlock(&h->lock);
}

static bool is_leaving(const struct placement *h, const struct hosted *x)
{
	const struct replica_record *seen = &x->view.seen;
	return seen->primary == self_of(h) && seen->epoch < x->leaves_below && seen->isr.count > 1;
}

bool placement_is_leaving(struct placement *h)
{
	bool any = false;
	pthread_mutex_lock(&h->lock);
	for (uint32_t p = 0; p < hosted_count(h) && !any; p++)
		any = is_leaving(h, &h->of[p]);
	pthread_mutex_unlock(&h->lock);
	return any;
}

static bool leaves(struct placement *h, uint16_t partition)
{
	pthread_mutex_lock(&h->lock);
	const bool does = is_leaving(h, &h->of[partition == JOURNAL_LEDGER ? h->server->options.partitions : partition]);
	pthread_mutex_unlock(&h->lock);
	return does;
}

/* --- Steps */

bool placement_is_wanted(struct placement *h, uint16_t partition, const struct replica_record *own)
{
	const uint16_t self = self_of(h);
	struct placement_view v;
	if (!placement_look(h, partition, &v))
		return own != NULL;
	return member_set_has(&v.wanted.hosts, self) || member_set_has(&v.seen.isr, self) || (own && member_set_has(&own->isr, self));
}

static bool is_covered(const struct member_set *wanted, const struct member_set *by)
{
	for (uint32_t i = 0; i < wanted->count; i++)
		if (!member_set_has(by, wanted->ids[i]))
			return false;
	return true;
}

/* The intended primary once all assigned servers are in sync. Without an intended primary, an
 * assigned present primary stays. Otherwise partitions spread over the assigned servers. */
static uint16_t next_primary(const struct assignment *wanted, const struct replica_record *now, uint16_t partition)
{
	if (wanted->primary != MEMBER_NONE && wanted->epoch == now->epoch)
		return wanted->primary;
	if (member_set_has(&wanted->hosts, now->primary))
		return now->primary;
	return wanted->hosts.ids[partition % wanted->hosts.count];
}

/* Another server in sync; partitions spread over them. */
static uint16_t successor(const struct replica_record *now, uint16_t self, uint16_t partition)
{
	struct member_set others = now->isr;
	member_set_remove(&others, self);
	return others.count ? others.ids[partition % others.count] : self;
}

static void move(struct placement *h, struct replication *x, uint16_t to, uint64_t epoch)
{
	char name[COORD_RECORDS_NAME_BYTES];
	if (replication_move(x, to) == WEIR_OK)
		LOG_AT(h->server->options.logger, LOG_INFO, "partition moves", "partition=%s to=%u epoch=%llu",
		       coord_records_name(replication_partition(x), name), to, (unsigned long long)epoch);
}

static void drop(struct placement *h, struct replication *x, uint16_t member)
{
	char name[COORD_RECORDS_NAME_BYTES];
	if (replication_drop(x, member))
		LOG_AT(h->server->options.logger, LOG_DEBUG, "replica not dropped yet", "partition=%s server=%u",
		       coord_records_name(replication_partition(x), name), member);
}

static void drop_unwanted(struct placement *h, struct replication *x, const struct member_set *wanted, bool in_sync_too)
{
	const struct replica *r = replication_replica(x);
	const struct member_set isr = replica_get_record(r)->isr;
	uint16_t peers[WEIR_REPLICAS_MAX];
	const uint32_t count = replica_peers(r, peers);
	for (uint32_t i = 0; i < count; i++)
		if (!member_set_has(wanted, peers[i]) && (in_sync_too || !member_set_has(&isr, peers[i])))
			drop(h, x, peers[i]);
}

void placement_bring_about(struct placement *h, struct replication *x)
{
	const struct replica *r = replication_replica(x);
	const uint16_t partition = replication_partition(x), self = self_of(h);
	struct placement_view v;
	if (!replica_serves(r) || !placement_look(h, partition, &v))
		return;
	const struct replica_record *now = replica_get_record(r);
	if (leaves(h, partition)) {
		move(h, x, successor(now, self, partition), now->epoch);
		return;
	}
	const bool covered = is_covered(&v.wanted.hosts, &now->isr);
	const uint16_t next = next_primary(&v.wanted, now, partition);
	drop_unwanted(h, x, &v.wanted.hosts, covered && next == self);
	if (covered && next != self)
		move(h, x, next, now->epoch);
}
