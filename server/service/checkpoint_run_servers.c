/* A run's calls to the servers: begin, and poll for progress. */
#include <stdio.h>
#include <string.h>

#include "server/service/checkpoint_coordinator_internal.h"

#define BEGIN_TIMEOUT_MS  2000u /* of one server */
#define BEGIN_PATIENCE_MS 2000u /* until a closed step is applied everywhere */
#define START_PATIENCE_MS 5000u /* until a server that starts listens */
#define POLL_MS           100u
/* Of one server; a server that does not hear it writes to the end, in vain. */
#define CANCEL_TIMEOUT_MS 500u

/* Opens a channel to the server's present address. */
static weir_status connect_server(struct checkpoint_coordinator *c, uint32_t i, weir_error *err)
{
	char address[WEIR_ADDRESS_BYTES_MAX];
	if (!c->loop && !(c->loop = rpc_loop_create(c->server->options.rpc, "checkpoint", err)))
		return err->status;
	if (partition_map_address(c->server->map, i, address) && strcmp(address, c->addresses[i]) != 0) {
		memcpy(c->addresses[i], address, sizeof address);
		if (c->channels[i])
			rpc_channel_close(c->channels[i]);
		c->channels[i] = NULL;
	}
	return c->channels[i] ? WEIR_OK : rpc_channel_open(&c->channels[i], c->server->options.rpc, c->loop, c->addresses[i], err);
}

/* Packs, calls and unpacks. Free *reply with wire_destroy. */
static weir_status call_server(struct checkpoint_coordinator *c, uint32_t i, enum rpc_method method,
                               const ProtobufCMessage *request, uint32_t timeout_ms, const ProtobufCMessageDescriptor *type,
                               ProtobufCMessage **reply, weir_error *err)
{
	struct message *in = wire_pack(request), *out = NULL;
	*reply = NULL;
	if (!in)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory for a checkpoint");
	weir_status status = rpc_call_wait(c->channels[i], method, in, timeout_ms, &out, err);
	if (!status)
		status = wire_unpack(type, out, reply, err);
	message_release(out);
	return status;
}

static Weir__V1__JobId job_id(const struct checkpoint_coordinator *c)
{
	Weir__V1__JobId job = WEIR__V1__JOB_ID__INIT;
	job.uuid = (ProtobufCBinaryData){.len = sizeof c->server->options.uuid, .data = c->server->options.uuid};
	job.generation = c->server->options.generation;
	return job;
}

static weir_status status_of(const Weir__V1__Status *s, const struct checkpoint_coordinator *c, uint32_t server, weir_error *err)
{
	if (!s || !s->code)
		return WEIR_OK;
	return weir_fail(err, (weir_status)s->code, "server %u at %s: %s", server, c->addresses[server], s->text);
}

/* --- Begin */

static weir_status no_primary(uint32_t partition, weir_error *err)
{
	return weir_fail(err, WEIR_E_MOVED, "partition %u has no primary now", partition);
}

weir_status checkpoint_choose_servers(struct checkpoint_run *run, weir_error *err)
{
	struct checkpoint_coordinator *c = run->coordinator;
	uint64_t revision;
	weir_status status = WEIR_OK;
	for (uint32_t p = 0; p < run->manifest.partitions_count && !status; p++) {
		const struct partition_place at = partition_map_find(c->server->map, p, &revision);
		if (at.server < c->servers)
			run->wanted[at.server] = true;
		else
			status = no_primary(p, err);
	}
	for (uint32_t i = 0; i < c->servers && !status; i++)
		if (run->wanted[i])
			status = connect_server(c, i, err);
	return status;
}

static void note_begun(struct checkpoint_run *run, uint32_t server, const Weir__V1__CheckpointBeginReply *r)
{
	for (size_t i = 0; i < r->n_taken; i++) {
		const uint32_t p = r->taken[i]->partition;
		if (p < run->manifest.partitions_count && r->taken[i]->epoch >= run->begun[p].epoch)
			run->begun[p] = (struct checkpoint_begun){server, r->taken[i]->epoch};
	}
}

static weir_status begin_server(struct checkpoint_run *run, uint32_t i, int64_t began_ms, weir_error *err)
{
	struct checkpoint_coordinator *c = run->coordinator;
	Weir__V1__JobId job = job_id(c);
	Weir__V1__CheckpointBeginRequest q = WEIR__V1__CHECKPOINT_BEGIN_REQUEST__INIT;
	q.job = &job;
	q.name = run->manifest.name;
	q.previous = c->base;
	q.steps_closed = run->steps_closed;
	while (true) {
		ProtobufCMessage *m;
		weir_error refusal = {0}; /* of this attempt: the next one may succeed */
		weir_status status = call_server(c, i, RPC_CHECKPOINT_BEGIN, &q.base, BEGIN_TIMEOUT_MS,
		                                 &weir__v1__checkpoint_begin_reply__descriptor, &m, &refusal);
		const bool is_away = status == WEIR_E_UNAVAILABLE;
		if (!status)
			status = status_of(((Weir__V1__CheckpointBeginReply *)m)->status, c, i, &refusal);
		if (!status)
			note_begun(run, i, (const Weir__V1__CheckpointBeginReply *)m);
		wire_destroy(m);
		const int64_t waited_ms = clock_ms(c->server->options.clock) - began_ms;
		const int64_t patience_ms = is_away ? START_PATIENCE_MS : status == WEIR_E_NOT_CURRENT ? BEGIN_PATIENCE_MS : 0;
		if (waited_ms >= patience_ms || checkpoint_is_ending(c)) {
			if (status)
				*err = refusal;
			return status;
		}
		checkpoint_pause();
	}
}

weir_status checkpoint_begin_servers(struct checkpoint_run *run, weir_error *err)
{
	struct checkpoint_coordinator *c = run->coordinator;
	const int64_t began_ms = clock_ms(c->server->options.clock);
	weir_status status = WEIR_OK;
	for (uint32_t i = 0; i < c->servers && !status; i++)
		if (run->wanted[i]) {
			run->asked[i] = true;
			status = begin_server(run, i, began_ms, err);
		}
	for (uint32_t p = 0; p < run->manifest.partitions_count && !status; p++)
		if (run->begun[p].server == WEIR_SERVER_NONE)
			status = no_primary(p, err);
	return status;
}

/* --- Progress */

static void read_file(const Weir__V1__CheckpointFile *in, struct checkpoint_object *out, bool *ok)
{
	*ok = *ok && in && strlen(in->name) < sizeof out->name && in->xxh3_128.len == sizeof out->info.hash;
	if (!*ok)
		return;
	snprintf(out->name, sizeof out->name, "%s", in->name);
	out->info.bytes = in->bytes;
	out->info.rows = in->rows;
	out->index = in->index;
	memcpy(out->info.hash, in->xxh3_128.data, sizeof out->info.hash);
}

static weir_status read_parts(struct checkpoint_run *run, uint32_t server, const Weir__V1__CheckpointPollReply *r,
                              weir_error *err)
{
	struct checkpoint_manifest *m = &run->manifest;
	for (size_t i = 0; i < r->n_parts; i++) {
		const Weir__V1__CheckpointPart *in = r->parts[i];
		bool ok = in->partition < m->partitions_count && in->n_rows > 0 && in->n_rows <= WEIR_CHECKPOINT_CHAIN_MAX;
		if (ok && run->begun[in->partition].server != server) /* it moved while the servers began */
			continue;
		struct checkpoint_partition *out = ok ? &m->partitions[in->partition] : NULL;
		if (ok)
			read_file(in->header, &out->header, &ok);
		for (size_t f = 0; ok && f < in->n_rows; f++)
			read_file(in->rows[f], &out->rows[f], &ok);
		if (!ok)
			return weir_fail(err, WEIR_E_CORRUPT, "server %u at %s: an invalid part of partition %u", server,
			                 run->coordinator->addresses[server], in->partition);
		out->index = in->index;
		out->rows_count = (uint32_t)in->n_rows;
	}
	run->bytes += r->bytes;
	return WEIR_OK;
}

/* cancel: tells the server to give up, and ignores its answer. */
static weir_status poll_server(struct checkpoint_run *run, uint32_t i, bool cancel, bool *done, weir_error *err)
{
	struct checkpoint_coordinator *c = run->coordinator;
	Weir__V1__JobId job = job_id(c);
	Weir__V1__CheckpointPollRequest q = WEIR__V1__CHECKPOINT_POLL_REQUEST__INIT;
	ProtobufCMessage *m;
	q.job = &job;
	q.name = run->manifest.name;
	q.cancel = cancel;
	weir_status status = call_server(c, i, RPC_CHECKPOINT_POLL, &q.base, cancel ? CANCEL_TIMEOUT_MS : WEIR_CONTROL_TIMEOUT_MS,
	                                 &weir__v1__checkpoint_poll_reply__descriptor, &m, err);
	const Weir__V1__CheckpointPollReply *r = (const Weir__V1__CheckpointPollReply *)m;
	if (status == WEIR_E_NOT_FOUND) /* the server was started again */
		err->status = status = WEIR_E_UNAVAILABLE;
	*done = !status && r->done;
	if (!status)
		status = status_of(r->status, c, i, err);
	if (!status && *done)
		status = read_parts(run, i, r, err);
	wire_destroy(m);
	return status;
}

weir_status checkpoint_wait_servers(struct checkpoint_run *run, weir_error *err)
{
	struct checkpoint_coordinator *c = run->coordinator;
	weir_status status = WEIR_OK;
	for (uint32_t i = 0; i < c->servers && !status; i++)
		for (bool done = !run->asked[i]; !status && !done;) {
			status = checkpoint_is_ending(c) ? weir_fail(err, WEIR_E_CLOSED, "the server is stopping")
			                                 : poll_server(run, i, false, &done, err);
			if (!status && !done)
				checkpoint_wait_ms(c, POLL_MS);
		}
	return status;
}

void checkpoint_cancel_servers(struct checkpoint_run *run)
{
	for (uint32_t i = 0; i < run->coordinator->servers; i++) {
		bool done;
		weir_error ignored = {0};
		if (run->asked[i])
			(void)poll_server(run, i, true, &done, &ignored);
	}
}

void checkpoint_leave_servers(struct checkpoint_coordinator *c)
{
	for (uint32_t i = 0; i < c->servers; i++)
		if (c->channels[i])
			rpc_channel_close(c->channels[i]);
	if (c->loop)
		rpc_loop_destroy(c->loop);
}
