/* Pulls from replicas that are not primary, if the job allows it and no table of the pull is
 * synchronous.
 *
 * Reads are spread over the in-sync replicas that the map names, in turn. Such a replica answers
 * only if it is recent enough for the job and for this client: it has applied every entry
 * acknowledged to this client, and all but read.max_staleness_entries of the entries it has
 * received. If it does not answer, or not soon, the client asks the primary, as it would otherwise
 * have done, and leaves the replica alone for WEIR_READ_PAUSE_MS. So a failed read from a replica
 * costs only time. */
#include "worker/client/client.h"

static bool is_readable(struct link *l, int64_t now)
{
	return link_use(l, NULL) == WEIR_OK && l->pull.stream && l->recognised && now >= l->readable_ms;
}

struct link *read_choose(struct request *q)
{
	weir_client *c = q->op->client;
	struct map_place *at = &c->map.places[q->partition];
	const int64_t now = client_now(c);
	if (!q->op->anywhere || !c->read.staleness_ms || !at->replicas_count || now < at->readable_ms)
		return c->links[at->server];
	const uint32_t first = c->worker + at->turn++; /* workers start with different replicas */
	for (uint32_t i = 0; i < at->replicas_count; i++) {
		struct link *l = c->links[at->replicas[(first + i) % at->replicas_count]];
		if (l->index == at->server)
			break;
		if (is_readable(l, now)) {
			q->elsewhere = true;
			return l;
		}
	}
	return c->links[at->server];
}

uint64_t read_floor(const weir_client *c, uint32_t partition)
{
	const uint64_t seen = c->applied_seen[partition], acknowledged = c->acknowledged[partition];
	const uint64_t oldest = seen > c->read.staleness_entries ? seen - c->read.staleness_entries : 0;
	return acknowledged > oldest ? acknowledged : oldest;
}

void read_refused(struct lane *lane, struct request *q)
{
	weir_client *c = lane->link->client;
	struct map_place *at = &c->map.places[q->partition];
	struct link *home = c->links[at->server];
	at->readable_ms = client_now(c) + WEIR_READ_PAUSE_MS;
	request_done(lane, q);
	q->elsewhere = false;
	link_queue_pull(home, q);
	lane_pump(&home->pull);
}

void read_gave_up(struct link *l)
{
	weir_client *c = l->client;
	if (!c->read.staleness_ms || c->closing)
		return;
	l->readable_ms = client_now(c) + WEIR_READ_PAUSE_MS;
	if (!lane_return_reads(&l->pull))
		return;
	atomic_fetch_add_explicit(&c->reads_returned, 1, memory_order_relaxed);
	client_log(c, WEIR_LOG_WARN, "slow link: server %s does not answer reads; primaries are asked", l->address);
	links_wake(c);
}
