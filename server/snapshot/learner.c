#include "server/snapshot/learner.h"

#include <inttypes.h>
#include <string.h>

#include "server/partition/partition_state.h"

void learner_init(struct learner *l, const struct learner_options *options)
{
	*l = (struct learner){.options = *options,
	                      .reset = {.partition = options->partition, .writer = options->writer, .run_on = options->owner}};
}

bool learner_is_busy(const struct learner *l)
{
	return l->receiver || l->is_spoilt || l->reset.stage != RESET_IDLE;
}

/* --- Reset */

static void stop_receiving(struct learner *l)
{
	snapshot_fetch_stop(l->fetch);
	snapshot_receiver_destroy(l->receiver);
	l->fetch = NULL;
	l->receiver = NULL;
}

static void give_up(struct learner *l)
{
	stop_receiving(l);
	l->is_spoilt = true;
}

weir_status learner_reset(struct learner *l)
{
	weir_error err = {0};
	if (l->stopped)
		return WEIR_E_BUSY;
	stop_receiving(l);
	weir_status status = partition_reset_go_on(&l->reset, &err);
	if (status == WEIR_E_BUSY || status == WEIR_E_NO_SPACE || status == WEIR_E_MEMORY)
		return status;
	if (status) {
		l->options.failed(l->options.arg, &err);
		return status;
	}
	LOG_AT(l->options.logger, LOG_INFO, "replica begins anew", "partition=%u", partition_id(l->options.partition));
	l->is_void = true;
	l->is_spoilt = false;
	l->options.changed(l->options.arg);
	return WEIR_OK;
}

bool learner_lets_store(struct learner *l)
{
	if (l->receiver) { /* the primary has all entries, so no snapshot is needed */
		give_up(l);
		return false;
	}
	l->is_void = false;
	return !l->is_spoilt;
}

/* --- Receiving */

static bool is_wanted(void *arg, uint64_t epoch, uint64_t index)
{
	const struct learner *l = arg;
	return replication_takes_snapshot(l->options.replication, epoch, index);
}

static weir_status keep_table(void *arg, uint32_t id, const weir_table_spec *spec, weir_error *err)
{
	const struct learner *l = arg;
	return l->options.add_table(l->options.arg, id, spec, err);
}

static void on_received(void *arg, uint64_t next)
{
	const struct learner *l = arg;
	(void)next; /* use snapshot_receiver_received */
	if (l->fetch)
		snapshot_fetch_tick(l->fetch);
}

static void install(struct learner *l)
{
	struct replica_found found;
	stop_receiving(l);
	partition_find(l->options.partition, &found);
	LOG_AT(l->options.logger, LOG_INFO, "snapshot installed", "partition=%u server=%u session=%" PRIu64 " entry=%" PRIu64,
	       partition_id(l->options.partition), l->from, l->session, found.applied);
	l->options.changed(l->options.arg);
	replication_installed(l->options.replication, l->epoch, partition_state_needs(l->options.partition), found.last,
	                      found.applied, &found.epochs);
}

static void note_failure(struct learner *l, weir_status status, const char *text)
{
	LOG_AT(l->options.logger, LOG_WARN, "snapshot not received",
	       "partition=%u server=%u session=%" PRIu64 " status=%s reason=\"%s\"", partition_id(l->options.partition), l->from,
	       l->session, weir_status_name(status), text);
	give_up(l);
}

static void on_ended(void *arg, weir_status status, const char *text)
{
	struct learner *l = arg;
	if (status)
		note_failure(l, status, text);
	else
		install(l);
}

static void on_fetch_failed(void *arg, weir_status status, const char *text)
{
	struct learner *l = arg;
	l->fetch = NULL; /* it no longer exists */
	note_failure(l, status, text);
}

static weir_status start(struct learner *l, weir_error *err)
{
	const struct learner_options *o = &l->options;
	struct rpc_channel *channel;
	weir_status status = o->connect(o->arg, l->from, &channel, err);
	if (status)
		return status;
	struct snapshot_receiver_options receiver = {.generation = o->generation,
	                                             .partitions = o->partitions,
	                                             .into = o->partition,
	                                             .log = partition_log(o->partition),
	                                             .writer = o->writer,
	                                             .run_on = o->owner,
	                                             .wanted = is_wanted,
	                                             .add_table = keep_table,
	                                             .received = on_received,
	                                             .ended = on_ended,
	                                             .arg = l};
	memcpy(receiver.uuid, o->uuid, sizeof receiver.uuid);
	l->receiver = snapshot_receiver_create(&receiver);
	struct snapshot_fetch_options fetch = {.channel = channel,
	                                       .receiver = l->receiver,
	                                       .generation = o->generation,
	                                       .session = l->session,
	                                       .clock = o->clock,
	                                       .failed = on_fetch_failed,
	                                       .arg = l};
	memcpy(fetch.uuid, o->uuid, sizeof fetch.uuid);
	l->fetch = l->receiver ? snapshot_fetch_start(&fetch) : NULL;
	return l->fetch ? WEIR_OK : weir_fail(err, WEIR_E_MEMORY, "out of memory for a snapshot");
}

/* Needs: the partition is void. Nothing else uses it until the end. */
static void begin(struct learner *l)
{
	weir_error err = {0};
	l->from = l->offer.from;
	l->epoch = l->offer.epoch;
	l->session = l->offer.session;
	l->offer.session = 0;
	l->is_void = false;
	partition_halt(l->options.partition);
	if (start(l, &err))
		note_failure(l, err.status, err.text);
}

/* --- Offers */

void learner_offered(struct learner *l, const struct replica_message *offer)
{
	/* Ignores a repeated offer. */
	if (!l->receiver || l->session != offer->session || l->epoch != offer->epoch)
		l->offer = *offer;
}

/* Entries that have arrived since the offer may suffice. */
static bool needs_offer(const struct learner *l)
{
	return l->offer.session &&
	       replica_is_left_behind(replication_replica(l->options.replication), l->offer.epoch, l->offer.first);
}

static bool is_established(const struct learner *l, uint64_t epoch)
{
	return replica_epoch(replication_replica(l->options.replication)) == epoch;
}

/* Continues while the primary is the same and offers no other snapshot. */
static void go_on(struct learner *l)
{
	if (l->offer.session || !is_established(l, l->epoch)) {
		note_failure(l, WEIR_E_STALE, "its primary is another, or offers another");
		return;
	}
	snapshot_receiver_durable(l->receiver);
	if (l->fetch)
		snapshot_fetch_tick(l->fetch);
}

void learner_tick(struct learner *l)
{
	if (l->stopped)
		return;
	if (l->receiver)
		go_on(l);
	if (!needs_offer(l))
		l->offer.session = 0;
	if (l->is_spoilt || (l->offer.session && !l->is_void))
		(void)replication_start_over(l->options.replication);
	else if (l->offer.session)
		begin(l);
}

void learner_stop(struct learner *l)
{
	l->stopped = true;
	stop_receiving(l);
}
