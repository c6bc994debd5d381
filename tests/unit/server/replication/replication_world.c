#include "tests/unit/server/replication/replication_world.h"

#include <stdlib.h>

#include "tests/cmocka_check.h"

#define STEP_MS     5
#define PATIENCE_MS 20000
#define TIMEOUT_MS  1000
#define LEASE_MS    3000

/* --- Invariants */

static bool same_entry(const struct log_entry *a, const struct log_entry *b)
{
	return a->epoch == b->epoch && a->index == b->index && a->record.request_id == b->record.request_id;
}

static void check_commit(struct world *w, const struct log_entry *e)
{
	if (e->index > w->committed) {
		assert_int_equal(e->index, w->committed + 1);
		w->content[++w->committed] = *e;
	}
	assert_true(same_entry(e, &w->content[e->index]));
}

static void check_begin(struct world *w, const struct member *m, uint64_t epoch)
{
	for (uint32_t i = 0; i < w->begun_count; i++)
		assert_int_not_equal(w->begun[i], epoch);
	assert_true(w->begun_count < EPOCHS_MAX);
	w->begun[w->begun_count++] = epoch;
	for (uint64_t i = 1; i <= m->last; i++)
		if (w->was_acknowledged[i])
			assert_true(same_entry(&m->log[i], &w->content[i]));
	for (uint64_t i = m->last + 1; i <= w->committed; i++)
		assert_false(w->was_acknowledged[i]);
}

/* --- The driver's subject: a log */

static bool is_full(struct member *m)
{
	m->refusals += m->full;
	return m->full;
}

static weir_status store(void *subject, const struct log_entry *e)
{
	struct member *m = subject;
	assert_int_equal(e->index, m->last + 1);
	if (is_full(m) || m->last == ENTRIES_MAX)
		return WEIR_E_NO_SPACE;
	m->log[++m->last] = *e;
	return WEIR_OK;
}

static weir_status truncate_log(void *subject, uint64_t last)
{
	struct member *m = subject;
	assert_true(last >= m->committed && last < m->last);
	if (is_full(m))
		return WEIR_E_NO_SPACE;
	m->last = last;
	m->durable = m->durable < last ? m->durable : last;
	return WEIR_OK;
}

static weir_status reset(void *subject)
{
	struct member *m = subject;
	if (is_full(m))
		return WEIR_E_NO_SPACE;
	m->last = m->durable = m->committed = 0;
	return WEIR_OK;
}

static bool append(struct member *m, uint64_t value)
{
	const struct log_entry e = {.epoch = m->epoch, .index = m->last + 1, .record = {.request_id = value}};
	if (store(m, &e))
		return false;
	replication_appended(m->x, e.index);
	return true;
}

static void commit(void *subject, uint64_t index)
{
	struct member *m = subject;
	assert_true(index <= m->last);
	while (m->committed < index) {
		const struct log_entry *e = &m->log[++m->committed];
		check_commit(m->world, e);
		if (!m->serves || e->epoch != m->epoch)
			continue;
		m->world->was_acknowledged[e->index] = true;
		m->world->acknowledged++;
		if (m->chain) {
			m->chain--;
			(void)member_push(m);
		}
	}
}

static void try_begin(struct member *m)
{
	if (m->beginning && append(m, m->beginning << 32))
		m->beginning = 0;
}

static void begin(void *subject, uint64_t epoch)
{
	struct member *m = subject;
	check_begin(m->world, m, epoch);
	m->epoch = m->beginning = epoch;
	try_begin(m);
}

static void serve(void *subject)
{
	struct member *m = subject;
	m->serves = true;
}

static void pause_serving(void *subject)
{
	struct member *m = subject;
	m->serves = false;
}

static void step_down(void *subject)
{
	struct member *m = subject;
	m->serves = false;
	m->beginning = 0;
}

static void snapshot(void *subject, uint16_t member, uint64_t incarnation)
{
	(void)subject, (void)incarnation;
	fail_msg("member %u needs a snapshot of a log that nobody trims", member);
}

static void lost(void *subject)
{
	((struct member *)subject)->world->lost++;
}

static uint64_t durable(const void *subject)
{
	return ((const struct member *)subject)->durable;
}

static const struct log_entry *entry(void *subject, uint64_t index)
{
	return &((struct member *)subject)->log[index];
}

static const struct replication_subject_ops subject_ops = {.store = store,
                                                           .truncate = truncate_log,
                                                           .reset = reset,
                                                           .commit = commit,
                                                           .begin = begin,
                                                           .serve = serve,
                                                           .pause = pause_serving,
                                                           .step_down = step_down,
                                                           .snapshot = snapshot,
                                                           .lost = lost,
                                                           .durable = durable,
                                                           .entry = entry};

bool member_push(struct member *m)
{
	return m->up && m->serves && m->last < ENTRIES_MAX && append(m, ++m->world->pushed);
}

/* --- The network */

static struct wire *put_on_wire(struct world *w, const struct replica_message *m)
{
	if (w->wires_count == WIRES_MAX || w->cut[m->from][m->to] || prng_unit(&w->random) < w->loss)
		return NULL;
	struct wire *x = &w->wires[w->wires_count++];
	*x = (struct wire){.due_ms = w->now_ms + (int64_t)prng_below(&w->random, (uint32_t)w->delay_ms + 1), .message = *m};
	if (m->epochs)
		x->epochs = *m->epochs;
	return x;
}

static void send_message(void *network, uint16_t partition, const struct replica_message *m)
{
	struct member *from = network;
	assert_int_equal(partition, PARTITION);
	assert_int_equal(m->from, from->id);
	assert_true(m->to < from->world->members_count && m->to != from->id);
	(void)put_on_wire(from->world, m);
}

static void ship(void *network, struct replication *x)
{
	struct member *m = network;
	assert_ptr_equal(x, m->x);
	m->ships = true;
}

static void ship_to(struct member *m, uint16_t to)
{
	struct replica_batch b;
	while (replica_batch(replication_replica(m->x), to, &b)) {
		b.last = b.last + 1 > b.first + BATCH_ENTRIES ? b.first + BATCH_ENTRIES - 1 : b.last;
		struct wire *x = put_on_wire(m->world, &(struct replica_message){.kind = REPLICA_APPEND,
		                                                                 .from = m->id,
		                                                                 .to = to,
		                                                                 .epoch = b.epoch,
		                                                                 .incarnation = b.incarnation,
		                                                                 .first = b.first,
		                                                                 .last = b.last,
		                                                                 .commit = b.commit});
		for (uint64_t i = b.first; x && i <= b.last; i++)
			x->entries[i - b.first] = *replication_entry(m->x, i);
		replication_shipped(m->x, to, b.last, b.commit);
	}
}

static void ship_all(struct member *m)
{
	uint16_t peers[WEIR_REPLICAS_MAX];
	const uint32_t count = replica_peers(replication_replica(m->x), peers);
	m->ships = false;
	for (uint32_t i = 0; i < count; i++)
		ship_to(m, peers[i]);
}

static void deliver(struct world *w)
{
	const uint32_t count = w->wires_count;
	uint32_t kept = 0;
	for (uint32_t i = 0; i < count; i++) {
		struct wire x = w->wires[i];
		struct member *to = &w->members[x.message.to];
		if (x.due_ms > w->now_ms) {
			w->wires[kept++] = x;
			continue;
		}
		x.message.epochs = &x.epochs;
		if (to->up)
			replication_receive(to->x, &x.message, x.entries);
	}
	memmove(&w->wires[kept], &w->wires[count], (w->wires_count - count) * sizeof *w->wires);
	w->wires_count -= count - kept;
}

/* --- Members */

static weir_status open_session(void *arg, struct coord **out, const struct coord_options *options, weir_error *err)
{
	struct member *m = arg;
	const struct callback_executor run_on = task_queue_executor(m->loop);
	m->sessions++;
	weir_status status = coord_memory_open(out, m->world->coordinator, &run_on, options, err);
	m->coord = *out;
	return status;
}

static void open_votes(struct member *m)
{
	weir_error err = {0};
	struct vote_store_options o = {.disk = faulty_disk_interface(m->disk),
	                               .path = "folder/PROMISES",
	                               .id = "replication",
	                               .partitions = PARTITION + 1,
	                               .log = VOTE_LOG_CACHED,
	                               .stepped = true};
	m->boots += m->machine_lost || m->boots == 0;
	o.machine_boot[0] = (uint8_t)m->boots;
	CHECK_OK(vote_store_open(&m->votes, &o, &err), err);
}

static void open_records(struct member *m)
{
	weir_error err = {0};
	const struct coord_records_options o = {.uuid = "replication",
	                                        .generation = 1,
	                                        .partitions = PARTITION + 1,
	                                        .session = task_queue_executor(m->loop),
	                                        .keeper = task_queue_executor(m->loop),
	                                        .open = open_session,
	                                        .arg = m,
	                                        .lease_ms = LEASE_MS,
	                                        .timeout_ms = TIMEOUT_MS};
	CHECK_OK(coord_records_create(&m->records, &o, &err), err);
}

static void open_replication(struct member *m)
{
	static const struct replication_network_ops network = {.send = send_message, .ship = ship};
	struct world *w = m->world;
	struct replication_options o = {.partition = PARTITION,
	                                .replica = {.self = m->id,
	                                            .incarnation = vote_store_incarnation(m->votes),
	                                            .alone = w->alone,
	                                            .silent_ticks = 5,
	                                            .stall_ticks = 10,
	                                            .retry_ticks = 2,
	                                            .grow_lag = 16},
	                                .primary = MEMBER_NONE,
	                                .min_isr = w->min_isr,
	                                .subject = {&subject_ops, m},
	                                .network = {w->alone ? NULL : &network, m},
	                                .records = m->records,
	                                .votes = m->votes,
	                                .run_on = task_queue_executor(m->loop),
	                                .failed = check_no_error};
	struct replica_found found = {.first = 1, .last = m->last, .durable = m->durable};
	for (uint16_t i = 0; i < w->members_count; i++)
		member_set_add(&o.hosts, i);
	for (uint64_t i = 1; i <= m->last; i++)
		epochs_begin(&found.epochs, m->log[i].epoch, i);
	m->x = replication_create(&o, &found);
	assert_non_null(m->x);
}

void member_start(struct world *w, uint16_t id)
{
	struct member *m = &w->members[id];
	assert_false(m->up);
	faulty_disk_make_room(m->disk); /* it does not start on a full disk */
	m->full = false;
	m->up = true;
	m->loop = task_queue_create();
	m->committed = m->epoch = 0;
	heartbeat_init(&m->heartbeat);
	open_votes(m);
	open_records(m);
	open_replication(m);
	m->machine_lost = false;
}

void start_all(struct world *w)
{
	for (uint16_t i = 0; i < w->members_count; i++)
		if (!w->members[i].up)
			member_start(w, i);
}

static void forget_above(struct world *w, uint64_t index)
{
	w->committed = w->committed < index ? w->committed : index;
	memset(&w->was_acknowledged[index + 1], 0, (ENTRIES_MAX - index) * sizeof *w->was_acknowledged);
}

/* Ends the process: the work queued on its loop and the pending writes of its vote store are
 * lost. */
void member_crash(struct world *w, uint16_t id, bool machine)
{
	struct member *m = &w->members[id];
	assert_true(m->up);
	m->up = m->serves = m->ships = false;
	m->beginning = m->chain = 0;
	faulty_disk_power_off_at(m->disk, faulty_disk_steps(m->disk) + 1);
	coord_memory_crash(m->coord);
	m->coord = NULL;
	vote_store_close(m->votes, false);
	task_queue_destroy(m->loop);
	coord_records_destroy(m->records);
	replication_destroy(m->x);
	faulty_disk_crash(m->disk, machine ? CRASH_UNSYNCED : CRASH_PROCESS, prng_u64(&w->random));
	if (machine) {
		m->last = m->durable + prng_below(&w->random, (uint32_t)(m->last - m->durable) + 1);
		m->durable = m->last;
		m->machine_lost = true;
	}
	if (w->alone) /* clients learn of the loss */
		forget_above(w, m->last);
}

static void member_tick(struct world *w, struct member *m)
{
	heartbeat_tick(&m->heartbeat);
	for (uint16_t i = 0; i < w->members_count; i++)
		if (w->members[i].up && !w->cut[i][m->id])
			heartbeat_heard(&m->heartbeat, i);
	try_begin(m);
	coord_records_tick(m->records);
	replication_tick(m->x, &m->heartbeat);
	if (prng_below(&w->random, 4) == 0) {
		m->durable = m->last;
		replication_durable(m->x);
	}
}

/* --- The world */

struct world *world_create(uint32_t members, uint16_t min_isr, uint64_t seed)
{
	struct world *w = calloc(1, sizeof *w);
	assert_non_null(w);
	prng_seed(&w->random, seed);
	w->clock = manual_clock_ms(&w->now_ms);
	w->members_count = members;
	w->min_isr = min_isr;
	w->alone = members == 1;
	w->coordinator = coord_memory_create(&w->clock.base);
	w->wires = malloc(WIRES_MAX * sizeof *w->wires);
	w->delay_ms = 2;
	for (uint16_t i = 0; i < members; i++) {
		w->members[i].world = w;
		w->members[i].id = i;
		w->members[i].disk = faulty_disk_create();
	}
	return w;
}

void world_destroy(struct world *w)
{
	for (uint16_t i = 0; i < w->members_count; i++) {
		if (w->members[i].up)
			member_crash(w, i, false);
		faulty_disk_destroy(w->members[i].disk);
	}
	coord_memory_destroy(w->coordinator);
	free(w->wires);
	free(w);
}

static void step(struct world *w)
{
	const bool tick = w->now_ms >= w->tick_ms;
	w->tick_ms += tick ? TICK_MS : 0;
	coord_memory_run(w->coordinator);
	deliver(w);
	for (uint16_t i = 0; i < w->members_count; i++) {
		struct member *m = &w->members[i];
		if (!m->up)
			continue;
		if (tick)
			member_tick(w, m);
		(void)vote_store_write(m->votes);
		(void)task_queue_run(m->loop, false);
		if (m->ships)
			ship_all(m);
	}
	w->now_ms += STEP_MS;
}

void world_run(struct world *w, int64_t ms)
{
	for (const int64_t end = w->now_ms + ms; w->now_ms < end;)
		step(w);
}

void world_until(struct world *w, bool (*holds)(struct world *w), const char *what)
{
	for (const int64_t end = w->now_ms + PATIENCE_MS; w->now_ms < end && !holds(w);)
		step(w);
	if (!holds(w))
		fail_msg("waited %d ms in vain for: %s", PATIENCE_MS, what);
}

struct member *world_primary(struct world *w)
{
	const uint64_t newest = w->begun_count ? w->begun[w->begun_count - 1] : 0;
	for (uint16_t i = 0; i < w->members_count; i++)
		if (w->members[i].up && w->members[i].serves && w->members[i].epoch == newest)
			return &w->members[i];
	return NULL;
}

bool one_serves(struct world *w)
{
	return world_primary(w) != NULL;
}

bool all_are_equal(struct world *w)
{
	const struct member *p = world_primary(w);
	for (uint16_t i = 0; i < w->members_count && p; i++) {
		const struct member *m = &w->members[i];
		if (!m->up)
			continue;
		if (m->last != p->last || m->committed != p->last || (m != p && m->serves))
			return false;
		for (uint64_t k = 1; k <= p->last; k++)
			assert_true(same_entry(&m->log[k], &p->log[k]));
	}
	return p != NULL;
}

bool all_are_in_sync(struct world *w)
{
	const struct member *p = world_primary(w);
	return p && replica_get_record(replication_replica(p->x))->isr.count == w->members_count;
}

void heal(struct world *w)
{
	w->loss = 0;
	w->delay_ms = 2;
	memset(w->cut, 0, sizeof w->cut);
	coord_memory_down(w->coordinator, false);
	start_all(w);
	for (uint16_t i = 0; i < w->members_count; i++) {
		struct member *m = &w->members[i];
		m->full = false;
		faulty_disk_make_room(m->disk);
		coord_memory_cut(m->coord, false);
		coord_memory_delay(m->coord, 0);
		coord_memory_freeze(m->coord, false);
	}
}
