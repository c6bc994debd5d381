/* Asks the servers of a job for its layout and for changes to it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/core/health.h"
#include "cli/core/layout.h"
#include "common/base/clock.h"
#include "proto/rpc/rpc.h"
#include "proto/wire/wire.h"

#define POLL_MS 20u
/* requests that are not carried out are repeated: the primary may have changed */
#define REPEAT_MS 1000u
#define ANSWER_MS 2000u
#define CHECK_MS  1000u /* timeout of the health check of one server */
#define LATE_MS   1000  /* the wait is reported after this time */

struct layout_asker {
	struct rpc *rpc;
	struct rpc_loop *loop;
	struct rpc_channel *channel;  /* NULL: none */
	uint32_t addresses_count, at; /* number of known addresses; the one in use */
	char addresses[WEIR_SERVERS_MAX + 1][WEIR_ADDRESS_BYTES_MAX];
	/* since when no change could be requested; 0: the last request succeeded */
	int64_t away_ms;
	bool told;                                /* the late callback has run */
	void (*late)(void *arg, const char *why); /* may be NULL */
	void *late_arg;
};

/* Tells whether an error may be temporary. */
static bool is_passing(weir_status status)
{
	return status == WEIR_E_STALE || status == WEIR_E_UNAVAILABLE || status == WEIR_E_TIMEOUT || status == WEIR_E_CANCELLED;
}

/* Records the answer to a change that was requested at asked_ms. WEIR_E_STALE (somebody else was
 * faster) also counts as an answer. */
static void note_answer(struct layout_asker *a, weir_status status, int64_t asked_ms, const weir_error *why)
{
	if (!is_passing(status) || status == WEIR_E_STALE) {
		a->away_ms = 0;
		return;
	}
	a->away_ms = a->away_ms ? a->away_ms : asked_ms;
	if (a->told || !a->late || clock_ms(clock_system()) - a->away_ms < LATE_MS)
		return;
	a->told = true;
	a->late(a->late_arg, why->text);
}

/* --- One call */

static weir_status connect(struct layout_asker *a, weir_error *err)
{
	return a->channel ? WEIR_OK : rpc_channel_open(&a->channel, a->rpc, a->loop, a->addresses[a->at], err);
}

static void turn_to_next(struct layout_asker *a)
{
	if (a->channel)
		rpc_channel_close(a->channel);
	a->channel = NULL;
	a->at = (a->at + 1) % a->addresses_count;
}

/* Packs q anew for every server that it tries. */
static weir_status call(struct layout_asker *a, enum rpc_method method, const ProtobufCMessage *q, uint32_t timeout_ms,
                        const ProtobufCMessageDescriptor *type, ProtobufCMessage **out, weir_error *err)
{
	weir_status status = WEIR_E_UNAVAILABLE;
	for (uint32_t tried = 0; tried < a->addresses_count; tried++) {
		struct message *request = wire_pack(q), *reply = NULL;
		weir_error why = {0};
		status = request ? connect(a, &why) : weir_fail(&why, WEIR_E_MEMORY, "no memory for a request");
		if (!status)
			status = rpc_call_wait(a->channel, method, request, timeout_ms, &reply, &why);
		else
			message_release(request);
		if (!status)
			status = wire_unpack(type, reply, out, &why);
		message_release(reply);
		if (!status)
			return WEIR_OK;
		(void)weir_fail(err, status, "%s", why.text);
		if (status != WEIR_E_UNAVAILABLE && status != WEIR_E_TIMEOUT && status != WEIR_E_CANCELLED)
			return status;
		turn_to_next(a);
	}
	return status;
}

/* --- The layout */

static void note_address(struct layout_asker *a, const char *address)
{
	for (uint32_t i = 0; i < a->addresses_count; i++)
		if (strcmp(a->addresses[i], address) == 0)
			return;
	if (address[0] && a->addresses_count <= WEIR_SERVERS_MAX)
		snprintf(a->addresses[a->addresses_count++], WEIR_ADDRESS_BYTES_MAX, "%s", address);
}

static void note_addresses(struct layout_asker *a, const char *list)
{
	char address[WEIR_ADDRESS_BYTES_MAX];
	for (const char *at = list; *at;) {
		const size_t bytes = strcspn(at, ",");
		snprintf(address, sizeof address, "%.*s", (int)bytes, at);
		note_address(a, address);
		at += bytes + (at[bytes] == ',');
	}
}

static bool read_members(const uint32_t *ids, size_t count, struct member_set *out)
{
	bool fits = count <= WEIR_REPLICAS_MAX;
	for (size_t i = 0; fits && i < count; i++) {
		fits = ids[i] < WEIR_SERVERS_MAX;
		if (fits)
			member_set_add(out, (uint16_t)ids[i]);
	}
	return fits;
}

static bool read_partition(const Weir__V1__PartitionLayout *p, struct layout_partition *out)
{
	*out = (struct layout_partition){.primary = (uint16_t)p->primary};
	return (p->primary < WEIR_SERVERS_MAX || p->primary == MEMBER_NONE) && p->n_hosts &&
	       read_members(p->in_sync, p->n_in_sync, &out->in_sync) && read_members(p->hosts, p->n_hosts, &out->hosts);
}

static weir_status read_layout(struct layout_asker *a, const Weir__V1__LayoutReply *r, struct layout *out, weir_error *err)
{
	bool fits = r->n_servers <= WEIR_SERVERS_MAX && r->n_partitions <= WEIR_PARTITIONS_MAX && r->job &&
	            r->job->uuid.len == sizeof out->uuid;
	if (fits)
		memcpy(out->uuid, r->job->uuid.data, sizeof out->uuid);
	out->generation = fits ? r->job->generation : 0;
	out->replicas = r->replicas;
	out->servers_count = fits ? (uint32_t)r->n_servers : 0;
	out->partitions_count = fits ? (uint32_t)r->n_partitions : 0;
	for (uint32_t i = 0; i < out->servers_count; i++) {
		out->lives[i] = out->silent[i] = false;
		snprintf(out->addresses[i], sizeof out->addresses[i], "%s", r->servers[i]);
		note_address(a, r->servers[i]);
	}
	for (size_t i = 0; i < r->n_living; i++)
		if (r->living[i] < out->servers_count)
			out->lives[r->living[i]] = true;
	for (uint32_t p = 0; p < out->partitions_count && fits; p++)
		fits = read_partition(r->partitions[p], &out->partitions[p]);
	out->ledger = (struct layout_partition){.primary = MEMBER_NONE};
	if (r->ledger && fits)
		fits = read_partition(r->ledger, &out->ledger);
	return fits ? WEIR_OK : weir_fail(err, WEIR_E_CORRUPT, "a layout that cannot be came from %s", a->addresses[a->at]);
}

weir_status layout_ask(struct layout_asker *a, struct layout *out, weir_error *err)
{
	Weir__V1__LayoutRequest q = WEIR__V1__LAYOUT_REQUEST__INIT;
	ProtobufCMessage *m = NULL;
	weir_status status = call(a, RPC_LAYOUT, &q.base, ANSWER_MS, &weir__v1__layout_reply__descriptor, &m, err);
	if (!status)
		status = read_layout(a, (const Weir__V1__LayoutReply *)m, out, err);
	wire_destroy(m);
	return status;
}

/* --- Silent servers */

static void pause_for_poll(void)
{
	nanosleep(&(struct timespec){.tv_nsec = POLL_MS * 1000000L}, NULL);
}

/* A server that is shutting down does not serve. */
static bool serves(const struct layout_asker *a, const char *address)
{
	bool does = false;
	weir_error ignored = {0};
	return health_check(a->rpc, a->loop, address, "", CHECK_MS, &does, &ignored) == WEIR_OK && does;
}

/* Checks the living servers that have not answered yet. Returns whether no server is silent. */
static bool hear(const struct layout_asker *a, struct layout *l, bool heard[WEIR_SERVERS_MAX])
{
	bool all = true;
	for (uint32_t i = 0; i < l->servers_count; i++) {
		heard[i] = heard[i] || (l->lives[i] && serves(a, l->addresses[i]));
		l->silent[i] = l->lives[i] && !heard[i];
		all &= !l->silent[i];
	}
	return all;
}

weir_status layout_ask_all(struct layout_asker *a, struct layout *out, uint32_t patience_ms,
                           void (*waits)(void *arg, uint32_t server), void *arg, weir_error *err)
{
	bool heard[WEIR_SERVERS_MAX] = {false}, told[WEIR_SERVERS_MAX] = {false};
	const int64_t until = clock_ms(clock_system()) + patience_ms;
	weir_status status;
	while (!(status = layout_ask(a, out, err)) && !hear(a, out, heard) && clock_ms(clock_system()) < until) {
		for (uint32_t i = 0; i < out->servers_count; i++) {
			if (waits && out->silent[i] && !told[i])
				waits(arg, i);
			told[i] |= out->silent[i];
		}
		pause_for_poll();
	}
	return status;
}

/* --- Changing the layout */

static weir_status place(struct layout_asker *a, const struct layout_goal *g, weir_error *err)
{
	Weir__V1__PlaceRequest q = WEIR__V1__PLACE_REQUEST__INIT;
	ProtobufCMessage *m = NULL;
	uint32_t hosts[WEIR_REPLICAS_MAX];
	for (uint32_t i = 0; i < g->hosts.count; i++)
		hosts[i] = g->hosts.ids[i];
	q.partition = g->partition;
	q.primary = g->primary;
	q.hosts = hosts;
	q.n_hosts = g->hosts.count;
	weir_status status = call(a, RPC_PLACE, &q.base, ANSWER_MS, &weir__v1__place_reply__descriptor, &m, err);
	if (!status) {
		const Weir__V1__Status *said = ((const Weir__V1__PlaceReply *)m)->status;
		status = said ? (weir_status)said->code : WEIR_E_CORRUPT;
		if (status)
			(void)weir_fail(err, status, "%s", said ? said->text : "a reply without a status");
	}
	wire_destroy(m);
	return status;
}

/* A plan that is being carried out. */
struct carrying {
	struct layout_asker *asker;
	const struct layout_plan *plan;
	struct layout now;
	/* (plan's goals) time of the last request; 0: none yet */
	int64_t asked_ms[WEIR_PARTITIONS_MAX + 1];
	bool reached[WEIR_PARTITIONS_MAX + 1]; /* (plan's goals) */
	uint32_t left;
};

/* Requests the first unreached goals, LAYOUT_AT_ONCE at a time. */
static weir_status push_on(struct carrying *c, weir_error *err)
{
	uint32_t under_way = 0;
	for (uint32_t i = 0; i < c->plan->count && under_way < LAYOUT_AT_ONCE; i++) {
		const int64_t asked_ms = clock_ms(clock_system());
		if (c->reached[i])
			continue;
		under_way++;
		if (c->asked_ms[i] && asked_ms - c->asked_ms[i] < REPEAT_MS)
			continue;
		c->asked_ms[i] = asked_ms;
		const weir_status status = place(c->asker, &c->plan->goals[i], err);
		note_answer(c->asker, status, asked_ms, err);
		if (status && !is_passing(status))
			return status;
	}
	return WEIR_OK;
}

/* Marks goals that have been reached. Returns whether there is a new one. */
static bool note_reached(struct carrying *c, void (*reached)(void *arg, const struct layout_goal *g, uint32_t left), void *arg)
{
	const uint32_t before = c->left;
	for (uint32_t i = 0; i < c->plan->count; i++) {
		if (c->reached[i] || !c->asked_ms[i] || !layout_is_reached(&c->now, &c->plan->goals[i]))
			continue;
		c->reached[i] = true;
		c->left--;
		if (reached)
			reached(arg, &c->plan->goals[i], c->left);
	}
	return c->left < before;
}

/* Fails with the first unreached goal and what it lacks. */
static weir_status give_up(const struct carrying *c, uint32_t patience_ms, const weir_error *last, weir_error *err)
{
	uint32_t i = 0;
	while (c->reached[i])
		i++;
	const struct layout_goal *g = &c->plan->goals[i];
	char name[LAYOUT_NAME_BYTES];
	layout_name(g->partition, name);
	if (c->asker->away_ms)
		return weir_fail(err, WEIR_E_TIMEOUT, "%s cannot be moved for %u s: %s", name, patience_ms / 1000, last->text);
	for (uint32_t k = 0; k < g->hosts.count; k++)
		if (!member_set_has(&layout_get(&c->now, g->partition)->in_sync, g->hosts.ids[k]) &&
		    !member_set_has(&g->missing, g->hosts.ids[k]))
			return weir_fail(err, WEIR_E_TIMEOUT,
			                 "%s: server %u has not come into sync for %u s: look at its log; it goes on by itself when it "
			                 "can, and the same command waits for it",
			                 name, g->hosts.ids[k], patience_ms / 1000);
	if (g->primary == MEMBER_NONE)
		return weir_fail(err, WEIR_E_TIMEOUT, "%s is not as it should be for %u s%s%s", name, patience_ms / 1000,
		                 last->text[0] ? ": " : "", last->text);
	return weir_fail(err, WEIR_E_TIMEOUT, "%s: server %u has not become its primary for %u s%s%s", name, g->primary,
	                 patience_ms / 1000, last->text[0] ? ": " : "", last->text);
}

weir_status layout_carry_out(struct layout_asker *a, const struct layout_plan *plan, uint32_t patience_ms,
                             void (*reached)(void *arg, const struct layout_goal *g, uint32_t left), void *arg, weir_error *err)
{
	struct carrying *c = calloc(1, sizeof *c);
	weir_error last = {0};
	weir_status status = c ? WEIR_OK : weir_fail(err, WEIR_E_MEMORY, "no memory for a plan");
	int64_t progress_ms = clock_ms(clock_system());
	if (c)
		*c = (struct carrying){.asker = a, .plan = plan, .left = plan->count};
	while (!status && c->left > 0) {
		status = push_on(c, &last);
		if (!status)
			status = layout_ask(a, &c->now, &last);
		if (!status && note_reached(c, reached, arg))
			progress_ms = clock_ms(clock_system());
		if (is_passing(status))
			status = WEIR_OK;
		if (status)
			(void)weir_fail(err, status, "%s", last.text);
		else if (c->left > 0 && clock_ms(clock_system()) - progress_ms > patience_ms)
			status = give_up(c, patience_ms, &last, err);
		if (!status && c->left > 0)
			pause_for_poll();
	}
	free(c);
	return status;
}

/* --- Rewinding */

static weir_status read_next(const Weir__V1__RewindReply *r, const char *wanted, struct rewind_record *out, weir_error *err)
{
	const Weir__V1__Status *said = r->status;
	*out = (struct rewind_record){.generation = r->generation, .step = r->step};
	snprintf(out->checkpoint, sizeof out->checkpoint, "%s", r->checkpoint);
	snprintf(out->why, sizeof out->why, "%s", r->why);
	if (said && said->code == WEIR_E_EXISTS && (!*wanted || strcmp(wanted, out->checkpoint) == 0))
		return WEIR_OK;
	if (!said || said->code)
		return weir_fail(err, said ? (weir_status)said->code : WEIR_E_CORRUPT, "%s",
		                 said ? said->text : "a reply without a status");
	return WEIR_OK;
}

weir_status layout_rewind(struct layout_asker *a, const struct layout *l, const char *checkpoint, uint32_t patience_ms,
                          struct rewind_record *out, weir_error *err)
{
	Weir__V1__RewindRequest q = WEIR__V1__REWIND_REQUEST__INIT;
	Weir__V1__JobId job = WEIR__V1__JOB_ID__INIT;
	const int64_t end_ms = clock_ms(clock_system()) + patience_ms;
	weir_status status;
	job.uuid = (ProtobufCBinaryData){.len = sizeof l->uuid, .data = (uint8_t *)(uintptr_t)l->uuid};
	job.generation = l->generation;
	q.job = &job;
	q.checkpoint = (char *)(uintptr_t)checkpoint;
	do {
		const int64_t asked_ms = clock_ms(clock_system());
		ProtobufCMessage *m = NULL;
		status = call(a, RPC_REWIND, &q.base, WEIR_CONTROL_TIMEOUT_MS, &weir__v1__rewind_reply__descriptor, &m, err);
		if (!status) { /* no answer means that the servers restart */
			status = read_next((const Weir__V1__RewindReply *)m, checkpoint, out, err);
			note_answer(a, status, asked_ms, err);
		}
		wire_destroy(m);
		if (is_passing(status))
			pause_for_poll();
	} while (is_passing(status) && clock_ms(clock_system()) < end_ms);
	return status;
}

/* --- Life */

weir_status layout_open(struct layout_asker **out, struct rpc *rpc, const char *addresses, weir_error *err)
{
	struct layout_asker *a = *out = calloc(1, sizeof *a);
	if (!a)
		return weir_fail(err, WEIR_E_MEMORY, "no memory to ask servers");
	a->rpc = rpc;
	note_addresses(a, addresses);
	if (!a->addresses_count)
		return weir_fail(err, WEIR_E_INVALID, "no address of a server is given");
	a->loop = rpc_loop_create(rpc, "layout", err);
	return a->loop ? WEIR_OK : WEIR_E_MEMORY;
}

void layout_when_late(struct layout_asker *a, void (*late)(void *arg, const char *why), void *arg)
{
	a->late = late;
	a->late_arg = arg;
}

void layout_close(struct layout_asker *a)
{
	if (!a)
		return;
	if (a->channel)
		rpc_channel_close(a->channel);
	if (a->loop)
		rpc_loop_destroy(a->loop);
	free(a);
}
