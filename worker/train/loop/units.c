#include "worker/train/loop/units.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "worker/client/client_trace.h"

/* Whether the reader hangs in a lost unit. It would delay every further one, so none is leased
 * until it is back. */
static bool reader_is_behind(struct units *all)
{
	const bool behind = prefetcher_is_behind(all->prefetcher);
	if (behind && !all->behind)
		LOG_AT(all->options->logger, LOG_WARN, "reader behind",
		       "it still reads a unit that other workers have now: this worker asks for no more until it comes back");
	all->behind = behind;
	return behind;
}

weir_status units_lease_ahead(struct units *all, weir_error *err)
{
	struct held_unit *free_unit = NULL;
	uint32_t unread = 0, used = 0;
	for (uint32_t i = 0; i < UNITS_HELD; i++) {
		used += all->held[i].used;
		unread += all->held[i].used && !all->held[i].read;
		if (!all->held[i].used)
			free_unit = &all->held[i];
	}
	if (all->finished || unread >= 2 || !free_unit || atomic_load(all->options->stop) || reader_is_behind(all))
		return WEIR_OK;
	weir_unit lease;
	weir_status status = weir_unit_lease(*all->client, &lease, used > 0 ? 0 : UNITS_POLL_MS, err);
	if (status == WEIR_E_TIMEOUT)
		return WEIR_OK;
	if (status != WEIR_OK)
		return status;
	if (lease.state == WEIR_UNIT_FINISHED) {
		all->finished = true;
		return WEIR_OK;
	}
	*free_unit = (struct held_unit){.lease = lease, .used = true};
	const struct prefetch_unit wanted = {
	    .tag = (uint64_t)(free_unit - all->held),
	    .data_unit = lease.data_unit,
	    .order_seed = trainer_order_seed(all->options->job, lease.pass, lease.place),
	    .first_batch = lease.watermark,
	    .end_batch = lease.end > 0 ? lease.end : UINT32_MAX,
	    .wants_content = true,
	};
	status = prefetcher_submit(all->prefetcher, &wanted);
	return status == WEIR_OK ? status : weir_fail(err, status, "the reader refused a unit");
}

/* Pushes residuals, so that nothing stays with a worker that may no longer be needed. */
static weir_status push_residuals(struct units *all, const struct held_unit *u, weir_error *err)
{
	const weir_batch id = {.pass = u->lease.pass, .unit = u->lease.unit, .attempt = u->lease.attempt, .batch = u->batches};
	const weir_status status = tables_push_residuals(all->tables, *all->client, &id, err);
	if (status != WEIR_E_LIMIT)
		return status;
	LOG_AT(all->options->logger, LOG_WARN, "residuals stay",
	       "what was kept back is too much for one push, and stays with this worker: %s", err->text);
	return WEIR_OK;
}

/* Whether the unit is of the last pass, or of one after which training may stop early, and no other
 * unit is held. */
static bool is_perhaps_last(const struct units *all, const struct held_unit *u)
{
	for (uint32_t i = 0; i < UNITS_HELD; i++)
		if (all->held[i].used && &all->held[i] != u)
			return false;
	const uint32_t patience = all->options->job->train.early_stop.patience;
	return u->lease.pass + 1 == weir_passes(*all->client) || (patience > 0 && u->lease.pass >= patience);
}

weir_status units_close(struct units *all, weir_error *err)
{
	for (uint32_t i = 0; i < UNITS_HELD; i++) {
		struct held_unit *u = &all->held[i];
		if (!u->used || !u->read || u->in_ring > 0)
			continue;
		weir_status status = WEIR_OK;
		if (u->begun && tables_keep_residuals(all->tables) && is_perhaps_last(all, u))
			status = push_residuals(all, u, err);
		const int64_t begun_ns = trace_begin(client_trace(*all->client));
		if (status == WEIR_OK)
			status =
			    u->failed ? weir_unit_fail(*all->client, &u->lease, u->why, err) : weir_unit_commit(*all->client, &u->lease, err);
		const struct trace_what what = {.kind = TRACE_COMMIT,
		                                .pass = u->lease.pass,
		                                .unit = u->lease.unit,
		                                .batch = TRACE_NO_BATCH,
		                                .attempt = u->lease.attempt};
		trace_end(client_trace(*all->client), begun_ns, &what);
		if (status != WEIR_OK)
			return status;
		u->used = false;
	}
	return WEIR_OK;
}

/* Batches of a unit, or of a part of one, which may have none. */
static uint32_t batches_of(const weir_unit *u, uint32_t whole)
{
	const uint32_t end = u->end > 0 && u->end < whole ? u->end : whole;
	return end > u->watermark ? end : u->watermark;
}

/* Checks that the unit holds the same examples as when it was first read, before anything of it is
 * pushed. */
static weir_status check_content(const struct units *all, const struct held_unit *u, uint64_t content, weir_error *err)
{
	weir_error why = {0};
	char unit[DATASET_UNIT_BYTES];
	const weir_status status = weir_unit_content(*all->client, &u->lease, content, &why);
	dataset_describe_unit(all->dataset, u->lease.data_unit, unit);
	return status == WEIR_OK ? status : weir_fail(err, status, "%s: %s", unit, why.text);
}

weir_status units_note(struct units *all, const struct prefetched *item, bool *usable, weir_error *err)
{
	struct held_unit *u = &all->held[item->unit.tag];
	assert(u->used);
	*usable = false;
	if (item->status != WEIR_OK) {
		LOG_AT(all->options->logger, LOG_ERROR, "unit unreadable", "unit=%u why=\"%s\"", item->unit.data_unit, item->error.text);
		snprintf(u->why, sizeof u->why, "%s", item->error.text);
		u->read = u->failed = true;
		return WEIR_OK;
	}
	if (!u->begun) {
		weir_status status = check_content(all, u, item->content, err);
		if (status != WEIR_OK)
			return status;
		u->batches = batches_of(&u->lease, item->batches);
		status = weir_unit_begin(*all->client, &u->lease, u->batches + tables_keep_residuals(all->tables), err);
		if (status != WEIR_OK)
			return status;
		u->begun = true;
		u->bad_lines = item->bad_lines;
	}
	u->read = item->last;
	*usable = !item->empty;
	return WEIR_OK;
}

bool units_any(const struct units *all)
{
	for (uint32_t i = 0; i < UNITS_HELD; i++)
		if (all->held[i].used)
			return true;
	return false;
}

void units_drop(struct units *all)
{
	memset(all->held, 0, sizeof all->held);
}

weir_status units_leave_nothing(struct units *all, weir_error *err)
{
	struct held_unit fresh = {0};
	weir_stats stats = {0};
	if (!tables_keep_residuals(all->tables))
		return WEIR_OK;
	for (uint32_t i = 0; i < UNITS_HELD; i++)
		if (all->held[i].used && all->held[i].begun)
			return push_residuals(all, &all->held[i], err);
	weir_status status = weir_unit_lease(*all->client, &fresh.lease, LAST_LEASE_MS, err);
	if (status != WEIR_OK || fresh.lease.state != WEIR_UNIT_LEASED) {
		weir_get_stats(*all->client, &stats);
		if (stats.residual_norm > 0)
			LOG_AT(all->options->logger, LOG_WARN, "residuals stay",
			       "no unit is left whose batch they could be: what was kept back (norm %.3g when last measured) is lost with "
			       "this worker",
			       stats.residual_norm);
		return status == WEIR_E_TIMEOUT ? WEIR_OK : status;
	}
	fresh.batches = batches_of(&fresh.lease, all->options->job->data.unit_batches);
	status = weir_unit_begin(*all->client, &fresh.lease, fresh.batches + 1, err);
	return status == WEIR_OK ? push_residuals(all, &fresh, err) : status;
}
