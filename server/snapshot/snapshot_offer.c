#include "server/snapshot/snapshot_offer.h"

#define REPEAT_TICKS 3u

static void on_ended(void *arg, weir_status status, const char *text)
{
	struct snapshot_offer *o = arg;
	(void)status, (void)text; /* the sender has logged it */
	o->running = false;
	replication_snapshot_ended(o->replication, o->member);
	o->leave(o->arg);
}

static weir_status begin(struct snapshot_offer *o, uint16_t member, uint64_t incarnation, weir_error *err)
{
	const struct snapshot_send_options s = {.partition = o->partition,
	                                        .owner = o->owner,
	                                        .epoch = replica_epoch(replication_replica(o->replication)),
	                                        .ended = on_ended,
	                                        .arg = o};
	uint64_t session;
	weir_status status = snapshot_send_begin(o->sender, &s, &session, err);
	if (status)
		return status;
	o->running = true;
	o->member = member;
	o->incarnation = incarnation;
	o->session = session;
	o->index = partition_applied(o->partition);
	o->quiet = REPEAT_TICKS;
	o->enter(o->arg);
	return WEIR_OK;
}

void snapshot_offer_begin(struct snapshot_offer *o, uint16_t member, uint64_t incarnation)
{
	weir_error err = {0};
	if (o->running && o->member == member) {
		if (o->incarnation != incarnation)
			snapshot_send_abort(o->sender, partition_id(o->partition), "its learner was started again");
		return;
	}
	if (o->running && !replica_hears(replication_replica(o->replication), o->member))
		snapshot_send_abort(o->sender, partition_id(o->partition), "its learner is silent, and another waits");
	if (!o->running && begin(o, member, incarnation, &err) == WEIR_OK)
		return;
	if (err.status && err.status != WEIR_E_BUSY)
		LOG_AT(o->logger, LOG_WARN, "no snapshot", "partition=%u server=%u %s", partition_id(o->partition), member, err.text);
	replication_snapshot_ended(o->replication, member);
}

void snapshot_offer_stop(struct snapshot_offer *o)
{
	if (o->running)
		snapshot_send_abort(o->sender, partition_id(o->partition), "another server is its primary");
}

void snapshot_offer_tick(struct snapshot_offer *o)
{
	const struct replica *r = replication_replica(o->replication);
	if (!o->running || ++o->quiet < REPEAT_TICKS)
		return;
	o->quiet = 0;
	/* It was requested again while the last one ended. */
	if (!replica_needs_snapshot(r, o->member)) {
		snapshot_send_abort(o->sender, partition_id(o->partition), "its learner has what it needs");
		return;
	}
	if (replica_incarnation_of(r, o->member) == o->incarnation)
		replication_offer(o->replication, o->member, o->session, o->index);
}

uint64_t snapshot_offer_needs(const struct snapshot_offer *o)
{
	return o->running ? o->index + 1 : UINT64_MAX;
}
