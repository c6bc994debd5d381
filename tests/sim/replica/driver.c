/* The server's part around the state machine: executes actions and reports when they end. */
#include <stdlib.h>

#include "tests/sim/replica/explorer.h"

#define BATCH_ENTRIES 8u

static bool disk_full(const struct sim *s, uint16_t node)
{
	return s->nodes[node].full_until > s->now_us;
}

static void log_put(struct sim *s, uint16_t node, uint32_t partition, struct entry e)
{
	struct copy *c = &s->nodes[node].copies[partition];
	assert(c->disk.last < LOG_ENTRIES);
	c->disk.log[++c->disk.last] = e;
	if (s->mood.sync_store)
		c->disk.durable = c->disk.last;
}

static void stored(struct sim *s, uint16_t node, uint32_t partition, uint64_t epoch)
{
	struct copy *c = &s->nodes[node].copies[partition];
	replica_stored(c->replica, epoch, c->disk.last, &c->actions);
	check_stored(s, node, partition);
	if (s->mood.sync_store) {
		replica_durable(c->replica, c->disk.durable, &c->actions);
	} else if (sim_chance(s, 0.3)) {
		struct event *e = sim_schedule(s, sim_between(s, 1000, s->mood.sync_us), EVENT_SYNCED, node);
		e->life = s->nodes[node].life;
		e->partition = partition;
		e->generation = s->partitions[partition].generation;
		e->a = c->disk.last;
		e->b = c->cuts;
	}
}

void driver_synced(struct sim *s, uint16_t node, uint32_t partition, uint64_t index)
{
	struct copy *c = &s->nodes[node].copies[partition];
	if (index <= c->disk.durable || index > c->disk.last)
		return;
	c->disk.durable = index;
	replica_durable(c->replica, index, &c->actions);
	driver_run(s, node, partition, NULL);
}

/* --- Actions */

static void ship(struct sim *s, uint16_t node, uint32_t partition)
{
	struct copy *c = &s->nodes[node].copies[partition];
	uint16_t peers[WEIR_REPLICAS_MAX];
	struct replica_batch b;
	const uint32_t count = replica_peers(c->replica, peers);
	for (uint32_t i = 0; i < count; i++)
		while (replica_batch(c->replica, peers[i], &b)) {
			if (b.last + 1 > b.first + BATCH_ENTRIES)
				b.last = b.first + BATCH_ENTRIES - 1;
			net_send(s, node, peers[i], partition,
			         &(struct replica_message){.kind = REPLICA_APPEND,
			                                   .from = node,
			                                   .to = peers[i],
			                                   .epoch = b.epoch,
			                                   .incarnation = b.incarnation,
			                                   .first = b.first,
			                                   .last = b.last,
			                                   .commit = b.commit},
			         c->disk.log);
			replica_shipped(c->replica, peers[i], b.last, b.commit);
		}
}

static void commit(struct sim *s, uint16_t node, uint32_t partition, uint64_t to)
{
	struct copy *c = &s->nodes[node].copies[partition];
	check_commit(s, node, partition, to);
	while (c->applied < to && !s->failure[0]) {
		const struct entry *e = &c->disk.log[++c->applied];
		c->state = check_fold(c->state, c->applied, e->value);
		if (replica_is_primary(c->replica) && e->epoch == c->begun && !(e->value >> 63))
			check_acknowledged(s, partition, c->applied, e->value);
	}
}

static void truncate_above(struct sim *s, uint16_t node, uint32_t partition, uint64_t last)
{
	struct copy *c = &s->nodes[node].copies[partition];
	s->count.truncations++;
	c->cuts++;
	c->disk.last = last;
	if (c->disk.durable > last)
		c->disk.durable = last;
	check_stored(s, node, partition);
}

static void reset(struct copy *c)
{
	c->disk.lossy = true; /* set before the log is cut */
	c->disk.first = 1;
	c->disk.last = c->disk.durable = c->disk.base = c->disk.base_state = 0;
	c->disk.base_epochs.count = 0;
	c->applied = c->state = 0;
	c->cuts++;
}

static void vote(struct sim *s, uint16_t node, uint32_t partition, uint64_t epoch)
{
	struct event *e = sim_schedule(s, sim_between(s, 100, s->mood.sync_us), EVENT_PROMISED, node);
	e->life = s->nodes[node].life;
	e->partition = partition;
	e->generation = s->partitions[partition].generation;
	e->a = epoch;
}

static void begin(struct sim *s, uint16_t node, uint32_t partition, uint64_t epoch)
{
	struct copy *c = &s->nodes[node].copies[partition];
	check_begin(s, node, partition, epoch);
	c->begun = epoch;
	c->cuts++;
	log_put(s, node, partition, (struct entry){epoch, epoch | 1ull << 63});
}

static void carry_out(struct sim *s, uint16_t node, uint32_t partition, const struct replica_action *a, const struct wire *w,
                      bool *began)
{
	struct copy *c = &s->nodes[node].copies[partition];
	sim_trace(s, a->kind, (uint64_t)node << 32 | partition, a->last + a->epoch);
	switch (a->kind) {
	case REPLICA_DO_SEND:
		check_sent(s, node, partition, &a->message);
		net_send(s, node, a->member, partition, &a->message, NULL);
		break;
	case REPLICA_DO_SHIP: /* shipped after the list */
		break;
	case REPLICA_DO_STORE:
		if (disk_full(s, node))
			break;
		for (uint64_t i = a->first; i <= a->last; i++)
			log_put(s, node, partition, w->entries[i - w->message.first]);
		break;
	case REPLICA_DO_TRUNCATE:
		truncate_above(s, node, partition, a->last);
		break;
	case REPLICA_DO_RESET:
		check_reset(s, node, partition);
		reset(c);
		break;
	case REPLICA_DO_COMMIT:
		commit(s, node, partition, a->last);
		break;
	case REPLICA_DO_PROMISE:
		vote(s, node, partition, a->epoch);
		break;
	case REPLICA_DO_BEGIN:
		begin(s, node, partition, a->epoch);
		*began = true;
		break;
	case REPLICA_DO_SERVE:
		c->serving = true;
		break;
	case REPLICA_DO_PAUSE:
	case REPLICA_DO_STEP_DOWN:
		c->serving = false;
		break;
	case REPLICA_DO_READ:
		coord_ask(s, node, partition, false, NULL);
		break;
	case REPLICA_DO_CHANGE:
		coord_ask(s, node, partition, true, &a->record);
		break;
	case REPLICA_DO_SNAPSHOT:
		net_snapshot(s, node, a->member, partition);
		break;
	case REPLICA_DO_FETCH: /* snapshots arrive unasked */
		break;
	case REPLICA_DO_LOST:
		check_lost(s, node, partition);
		s->partitions[partition].lost = true;
		break;
	}
	if (s->verbose && a->kind != REPLICA_DO_SEND && a->kind != REPLICA_DO_SHIP) {
		static const char *const names[] = {
#define EXPLORER_NAME(name) #name,
		    REPLICA_ACTION_MAP(EXPLORER_NAME)
#undef EXPLORER_NAME
		};
		sim_note(s, "partition %u server %u: %s epoch=%llu first=%llu last=%llu isr=%u primary=%u", partition, node,
		         names[a->kind], (unsigned long long)a->epoch, (unsigned long long)a->first, (unsigned long long)a->last,
		         a->record.isr.count, a->record.primary);
	}
}

/* Reports entries that STORE and BEGIN put into the log, one run per epoch. */
static void tell_stored(struct sim *s, uint16_t node, uint32_t partition, uint64_t from)
{
	struct copy *c = &s->nodes[node].copies[partition];
	const uint64_t last = c->disk.last;
	for (uint64_t i = from; i <= last; i++)
		if (i == last || c->disk.log[i + 1].epoch != c->disk.log[i].epoch) {
			c->disk.last = i;
			stored(s, node, partition, c->disk.log[i].epoch);
		}
}

void driver_run(struct sim *s, uint16_t node, uint32_t partition, const struct wire *w)
{
	struct copy *c = &s->nodes[node].copies[partition];
	while (c->actions.count && !s->failure[0]) {
		const struct replica_actions todo = c->actions;
		bool began = false, grown = false;
		uint64_t from = 0;
		c->actions.count = 0;
		for (uint32_t i = 0; i < todo.count; i++) {
			const uint64_t before = c->disk.last;
			carry_out(s, node, partition, &todo.list[i], w, &began);
			if (c->disk.last > before) {
				from = before + 1;
				grown = true;
			}
		}
		if (grown)
			tell_stored(s, node, partition, from);
	}
	if (replica_is_whole(c->replica))
		c->disk.lossy = false;
	ship(s, node, partition);
}

/* --- Requests, flushes, snapshots */

void driver_push(struct sim *s, uint16_t node, uint32_t partition, uint32_t count)
{
	struct copy *c = &s->nodes[node].copies[partition];
	if (!c->serving || !replica_serves(c->replica) || disk_full(s, node) || c->disk.last + 64 > LOG_ENTRIES)
		return;
	s->count.pushes += count;
	for (uint32_t i = 0; i < count; i++)
		log_put(s, node, partition, (struct entry){replica_epoch(c->replica), ++s->partitions[partition].next_value});
	stored(s, node, partition, replica_epoch(c->replica));
	driver_run(s, node, partition, NULL);
}

/* The epochs of the applied entries. */
static void epochs_of(const struct copy *c, struct epochs *out)
{
	*out = c->disk.base_epochs;
	for (uint64_t i = c->disk.base + 1; i <= c->applied; i++)
		epochs_begin(out, c->disk.log[i].epoch, i);
}

/* Writes rows and header to disk. Drops log entries that nobody needs, and sometimes more. */
void driver_flush(struct sim *s, uint16_t node, uint32_t partition)
{
	struct copy *c = &s->nodes[node].copies[partition];
	struct epochs epochs;
	if (c->disk.durable < c->applied || s->mood.memory_log)
		return;
	epochs_of(c, &epochs);
	c->disk.base_epochs = epochs;
	c->disk.base = c->applied;
	c->disk.base_state = c->state;
	uint64_t first = c->applied + 1, needs = replica_needs(c->replica);
	if (needs < first && sim_chance(s, 0.7))
		first = needs;
	if (first > c->disk.first) {
		c->disk.first = first;
		replica_trimmed(c->replica, first);
	}
}

void net_snapshot(struct sim *s, uint16_t from, uint16_t to, uint32_t partition)
{
	struct copy *c = &s->nodes[from].copies[partition];
	struct snapshot *n = malloc(sizeof *n);
	const int64_t delay = sim_between(s, 1000, 300000);
	assert(n);
	*n = (struct snapshot){.epoch = replica_epoch(c->replica), .last = c->applied, .state = c->state};
	epochs_of(c, &n->epochs);
	s->count.snapshots++;
	struct event *e = sim_schedule(s, delay, EVENT_SNAPSHOT, to);
	e->partition = partition;
	e->generation = s->partitions[partition].generation;
	e->payload = n;
	e->flag = !s->cut[from][to] && !sim_chance(s, s->mood.snapshot_loss);
	e = sim_schedule(s, delay + 1000, EVENT_SNAPSHOT_ENDED, from);
	e->life = s->nodes[from].life;
	e->partition = partition;
	e->generation = s->partitions[partition].generation;
	e->peer = to;
}

void driver_snapshot(struct sim *s, const struct event *e)
{
	struct copy *c = &s->nodes[e->node].copies[e->partition];
	const struct snapshot *n = e->payload;
	if (!e->flag || !replica_takes_snapshot(c->replica, n->epoch, n->last))
		return;
	c->disk.base = c->disk.last = c->disk.durable = n->last;
	c->disk.first = n->last + 1;
	c->disk.base_state = n->state;
	c->disk.base_epochs = n->epochs;
	c->applied = n->last;
	c->state = n->state;
	c->cuts++;
	replica_installed(c->replica, n->epoch, n->last + 1, n->last, n->last, &n->epochs, &c->actions);
	driver_run(s, e->node, e->partition, NULL);
}
