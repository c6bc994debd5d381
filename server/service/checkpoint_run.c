/* One try at a checkpoint, in the order of checkpoint_coordinator.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/service/checkpoint_coordinator_internal.h"

#define REPLICATED_KEEP_MIN 2u

static weir_status prepare(struct checkpoint_run *run, weir_error *err)
{
	struct checkpoint_coordinator *c = run->coordinator;
	const struct server_options *o = &c->server->options;
	struct checkpoint_manifest *m = &run->manifest;
	memcpy(m->uuid, o->uuid, sizeof m->uuid);
	m->generation = o->generation;
	weir_status status = checkpoint_options_open(&c->options, &run->store, err);
	if (!status)
		status = checkpoint_next_ms(run->store, m->uuid, o->clock->ops->wall_ns(o->clock) / 1000000, &m->created_ms, err);
	if (status)
		return status;
	m->values = c->options.values;
	m->slots = c->options.slots;
	snprintf(m->job, sizeof m->job, "%s", c->options.job);
	checkpoint_name(m->name, m->uuid, m->created_ms);
	m->partitions = calloc(o->partitions, sizeof *m->partitions);
	m->partitions_count = m->partitions ? o->partitions : 0;
	run->begun = calloc(o->partitions, sizeof *run->begun);
	for (uint32_t p = 0; run->begun && p < o->partitions; p++)
		run->begun[p].server = WEIR_SERVER_NONE;
	return m->partitions && run->begun ? WEIR_OK : weir_fail(err, WEIR_E_MEMORY, "out of memory for a checkpoint");
}

/* Holds the ledger while its state is exported and every server begins. */
static weir_status begin_all(struct checkpoint_run *run, weir_error *err)
{
	weir_status status = checkpoint_hold_ledger(run, err);
	if (!status)
		status = checkpoint_begin_servers(run, err);
	checkpoint_release_ledger(run);
	return status;
}

static weir_status write_ledger(struct checkpoint_run *run, weir_error *err)
{
	char name[WEIR_BLOB_NAME_BYTES_MAX];
	checkpoint_object_name(name, run->manifest.uuid, run->manifest.name, "ledger");
	return checkpoint_object_write(run->store, name, run->ledger, run->ledger_bytes, &run->manifest.ledger, err);
}

static weir_status check_complete(const struct checkpoint_manifest *m, weir_error *err)
{
	for (uint32_t p = 0; p < m->partitions_count; p++)
		if (m->partitions[p].rows_count == 0)
			return weir_fail(err, WEIR_E_INTERNAL, "no server wrote partition %u", p);
	return WEIR_OK;
}

static weir_status write_checkpoint(struct checkpoint_run *run, weir_error *err)
{
	weir_status status = checkpoint_choose_servers(run, err);
	if (!status)
		status = begin_all(run, err);
	if (!status)
		status = checkpoint_confirm_all(run, err);
	if (!status)
		status = write_ledger(run, err);
	if (!status)
		status = checkpoint_wait_servers(run, err);
	if (!status)
		status = check_complete(&run->manifest, err);
	if (!status)
		status = checkpoint_confirm_ledger(run, err);
	if (!status)
		status = checkpoint_manifest_write(run->store, &run->manifest, err);
	if (status)
		checkpoint_cancel_servers(run);
	return status;
}

/* Removes old checkpoints. With replicas at least two stay, and so does the one that this
 * generation began with: a server that was away or has lost its folder may still need it. And the
 * job may be going back, at this moment, to the last checkpoint before this one. */
static weir_status retain(const struct checkpoint_coordinator *c, const struct checkpoint_run *run, weir_error *err)
{
	const bool replicated = checkpoint_is_replicated(c);
	const uint32_t keep = replicated && c->options.keep < REPLICATED_KEEP_MIN ? REPLICATED_KEEP_MIN : c->options.keep;
	return checkpoint_retain(run->store, run->manifest.uuid, keep, replicated ? c->server->restored : NULL, run->manifest.name,
	                         err);
}

static void run_destroy(struct checkpoint_run *run)
{
	free(run->ledger);
	checkpoint_manifest_destroy(&run->manifest);
	free(run->begun);
	blob_close(run->store);
}

weir_status checkpoint_try(struct checkpoint_coordinator *c, struct checkpoint_ended *e)
{
	struct checkpoint_run run = {.coordinator = c};
	weir_error kept = {0};
	e->err = (weir_error){0};
	weir_status status = prepare(&run, &e->err);
	memcpy(e->name, run.manifest.name, sizeof e->name);
	pthread_mutex_lock(&c->lock);
	memcpy(c->name, e->name, sizeof c->name);
	pthread_mutex_unlock(&c->lock);
	if (!status)
		status = write_checkpoint(&run, &e->err);
	if (!status)
		memcpy(c->base, e->name, sizeof c->base);
	e->bytes = run.bytes;
	if (!status && retain(c, &run, &kept))
		LOG_AT(c->server->options.logger, LOG_WARN, "old checkpoints stay", "reason=\"%s\"", kept.text);
	run_destroy(&run);
	return status;
}
