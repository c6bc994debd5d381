#include "server/checkpoint/rewind.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/deadline.h"
#include "server/cluster/roles.h"
#include "server/context/context.h"
#include "server/coord/coord_records.h"
#include "server/log/journal.h"

#define TRY_AGAIN_MS 2000u /* when the checkpoints or the coordinator could not be reached */

struct asked { /* a request by a person */
	struct rpc_call *call;
	struct asked *next;
	char from[WEIR_CHECKPOINT_NAME_BYTES_MAX]; /* "": the last one */
};

struct rewind {
	struct server *server;
	struct checkpoint_options checkpoint; /* with copies of its texts; place NULL: no checkpoints */
	_Atomic bool told;
	bool has_thread;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	/* Guarded by lock. */
	bool ending;
	bool lost;                           /* an automatic rewind is due; `why` is set */
	char why[WEIR_REWIND_WHY_BYTES_MAX]; /* the first loss; "": none yet */
	/* The loss, final because there is no checkpoint; status OK: none. */
	weir_error for_good;
	struct asked *asked;
	bool put_done;
};

/* --- Deciding, on the thread */

static weir_status check_named(const struct rewind *r, const struct checkpoint_manifest *m, weir_error *err)
{
	const struct server_options *o = &r->server->options;
	if (memcmp(m->uuid, o->uuid, sizeof m->uuid) != 0)
		return weir_fail(err, WEIR_E_INVALID, "checkpoint %s is of another run of job %s", m->name, m->job);
	if (m->generation > o->generation)
		return weir_fail(err, WEIR_E_INVALID, "checkpoint %s is of generation %" PRIu64 ", the job is in generation %" PRIu64,
		                 m->name, m->generation, o->generation);
	if (m->partitions_count != o->partitions)
		return weir_fail(err, WEIR_E_INVALID, "checkpoint %s has %u partitions, the job has %u", m->name, m->partitions_count,
		                 o->partitions);
	return WEIR_OK;
}

/* from: a name, or "" for the last one. */
static weir_status choose(struct rewind *r, const char *from, struct rewind_record *next, weir_error *err)
{
	const struct server_options *o = &r->server->options;
	struct blob_store *store = NULL;
	struct checkpoint_manifest m = {0};
	if (!r->checkpoint.place)
		return weir_fail(err, WEIR_E_NOT_FOUND, "no checkpoints are taken of this job");
	weir_status status = checkpoint_options_open(&r->checkpoint, &store, err);
	if (!status)
		status = *from ? checkpoint_manifest_read(store, from, &m, err)
		               : checkpoint_last_of_run(store, o->uuid, o->generation, &m, err);
	if (!status)
		status = check_named(r, &m, err);
	if (!status) {
		next->generation = o->generation + 1;
		next->step = m.step;
		snprintf(next->checkpoint, sizeof next->checkpoint, "%s", m.name);
	}
	checkpoint_manifest_destroy(&m);
	blob_close(store);
	return status;
}

static void on_put(struct coord_records_succession *x)
{
	struct rewind *r = x->arg;
	struct server *s = r->server;
	pthread_mutex_lock(&r->lock);
	r->put_done = true;
	pthread_cond_broadcast(&r->wake);
	pthread_mutex_unlock(&r->lock);
	server_leave(s);
}

/* E_EXISTS: *next is the record put earlier. */
static weir_status put(struct rewind *r, struct rewind_record *next, weir_error *err)
{
	struct server *s = r->server;
	struct coord_records_succession x = {.record = *next, .run_on = server_callback_executor(s), .done = on_put, .arg = r};
	pthread_mutex_lock(&r->lock);
	r->put_done = false;
	pthread_mutex_unlock(&r->lock);
	server_enter(s);
	coord_records_succeed(roles_records(s), &x);
	pthread_mutex_lock(&r->lock);
	while (!r->put_done)
		pthread_cond_wait(&r->wake, &r->lock);
	pthread_mutex_unlock(&r->lock);
	*next = x.record;
	if (x.status == WEIR_E_EXISTS)
		return weir_fail(err, x.status, "the job goes back already: to checkpoint %s as generation %" PRIu64 ", because %s",
		                 next->checkpoint, next->generation, next->why);
	return x.status ? weir_fail(err, x.status, "the coordinator does not answer: ask again when it is back") : WEIR_OK;
}

static weir_status decide(struct rewind *r, const char *from, struct rewind_record *next, weir_error *err)
{
	weir_status status = choose(r, from, next, err);
	return status ? status : put(r, next, err);
}

/* Decides automatically. Returns true if no more can be done: a decision was made, or none will
 * ever be possible. */
static bool decide_for_lost(struct rewind *r, const char *why, char said[WEIR_ERROR_TEXT_BYTES])
{
	struct logger *l = r->server->options.logger;
	struct rewind_record next = {0};
	weir_error err = {0}, for_good = {0};
	snprintf(next.why, sizeof next.why, "%s", why);
	weir_status status = decide(r, "", &next, &err);
	if (status == WEIR_OK || status == WEIR_E_EXISTS)
		return true;
	if (status == WEIR_E_NOT_FOUND) {
		(void)weir_fail(&for_good, WEIR_E_LOST, "%s, and %s: the job must begin anew", why, err.text);
		LOG_AT(l, LOG_ERROR, "no checkpoint", "%s", for_good.text);
		pthread_mutex_lock(&r->lock);
		r->for_good = for_good;
		pthread_mutex_unlock(&r->lock);
	} else if (strcmp(said, err.text) != 0)
		LOG_AT(l, LOG_ERROR, "job cannot go back", "it is tried again: %s, and %s", why, err.text);
	snprintf(said, WEIR_ERROR_TEXT_BYTES, "%s", err.text);
	return status == WEIR_E_NOT_FOUND;
}

static void answer(struct rpc_call *call, weir_status status, const char *text, const struct rewind_record *next)
{
	Weir__V1__Status code = WEIR__V1__STATUS__INIT;
	Weir__V1__RewindReply reply = WEIR__V1__REWIND_REPLY__INIT;
	code.code = (uint32_t)status;
	code.text = (char *)(uintptr_t)text;
	reply.status = &code;
	reply.generation = next->generation;
	reply.checkpoint = (char *)(uintptr_t)next->checkpoint;
	reply.step = next->step;
	reply.why = (char *)(uintptr_t)next->why;
	struct message *m = wire_pack(&reply.base);
	rpc_call_reply(call, m ? WEIR_OK : WEIR_E_MEMORY, m ? "" : "the reply does not fit in memory", m);
}

static void end_asked(struct server *s, struct asked *a, weir_status status, const char *text, const struct rewind_record *next)
{
	answer(a->call, status, text, next);
	free(a);
	server_leave(s);
}

static void decide_for_person(struct rewind *r, struct asked *a)
{
	struct rewind_record next = {.why = "it was asked for"};
	weir_error err = {0};
	weir_status status = decide(r, a->from, &next, &err);
	end_asked(r->server, a, status, err.text, &next);
}

static void *run(void *arg)
{
	struct rewind *r = arg;
	char said[WEIR_ERROR_TEXT_BYTES] = "", why[WEIR_REWIND_WHY_BYTES_MAX];
	pthread_mutex_lock(&r->lock);
	while (!r->ending) {
		struct asked *a = r->asked;
		const bool lost = r->lost;
		if (a)
			r->asked = a->next;
		memcpy(why, r->why, sizeof why);
		pthread_mutex_unlock(&r->lock);
		const bool over = lost && decide_for_lost(r, why, said);
		if (a)
			decide_for_person(r, a);
		pthread_mutex_lock(&r->lock);
		r->lost = r->lost && !over;
		if (r->asked || r->ending)
			continue;
		if (r->lost)
			(void)deadline_wait(&r->wake, &r->lock, deadline_after_ms(TRY_AGAIN_MS));
		else
			pthread_cond_wait(&r->wake, &r->lock);
	}
	pthread_mutex_unlock(&r->lock);
	return NULL;
}

/* --- Events */

void rewind_lost(struct rewind *r, uint16_t partition)
{
	if (!r)
		return;
	pthread_mutex_lock(&r->lock);
	if (!r->why[0]) {
		const int n = partition == JOURNAL_LEDGER ? snprintf(r->why, sizeof r->why, "the ledger")
		                                          : snprintf(r->why, sizeof r->why, "partition %u", partition);
		snprintf(r->why + n, sizeof r->why - (size_t)n, " was lost: no server has a full log of it any more");
		r->lost = true;
		pthread_cond_broadcast(&r->wake);
	}
	pthread_mutex_unlock(&r->lock);
}

void rewind_told(struct rewind *r, const struct rewind_record *next)
{
	const struct server_options *o = &r->server->options;
	if (atomic_exchange(&r->told, true))
		return;
	LOG_AT(o->logger, LOG_WARN, "job goes back", "checkpoint=%s batches=%" PRIu64 " generation=%" PRIu64 " why=\"%s\"",
	       next->checkpoint, next->step, next->generation, next->why);
	if (o->succeeded)
		o->succeeded(o->succeeded_arg, next);
}

bool rewind_is_told(const struct server *s)
{
	return s->rewind && atomic_load(&s->rewind->told);
}

void rewind_get_lost(struct rewind *r, char out[WEIR_ERROR_TEXT_BYTES])
{
	out[0] = '\0';
	if (!r)
		return;
	pthread_mutex_lock(&r->lock);
	memcpy(out, r->for_good.text, sizeof r->for_good.text);
	pthread_mutex_unlock(&r->lock);
}

static weir_status read_request(const struct server *s, const struct message *request, struct asked **out, weir_error *err)
{
	ProtobufCMessage *m = NULL;
	weir_status status = wire_unpack(&weir__v1__rewind_request__descriptor, request, &m, err);
	const Weir__V1__RewindRequest *q = (const Weir__V1__RewindRequest *)m;
	if (!status && !q->job)
		status = weir_fail(err, WEIR_E_INVALID, "the request names no job");
	if (!status)
		status = server_check_job(s, q->job->uuid.data, q->job->uuid.len, q->job->generation, err);
	if (status == WEIR_E_GENERATION && s->rewound.generation == q->job->generation + 1)
		status = weir_fail(err, WEIR_E_EXISTS, "the job has gone back already: to checkpoint %s, because %s",
		                   s->rewound.checkpoint, s->rewound.why);
	if (!status && !s->rewind)
		status = weir_fail(
		    err, WEIR_E_UNSUPPORTED,
		    "%s: partitions of this job have one copy each: stop it, then `weir restore` and `weir train --resume`", s->name);
	if (!status && !(*out = calloc(1, sizeof **out)))
		status = weir_fail(err, WEIR_E_MEMORY, "out of memory");
	if (!status)
		snprintf((*out)->from, sizeof(*out)->from, "%s", q->checkpoint);
	wire_destroy(m);
	return status;
}

void rewind_ask(struct server *s, struct rpc_call *call, struct message *request)
{
	struct rewind *r = s->rewind;
	struct asked *a = NULL;
	weir_error err = {0};
	weir_status status = read_request(s, request, &a, &err);
	if (status) {
		answer(call, status, err.text, &s->rewound);
		return;
	}
	a->call = call;
	server_enter(s);
	pthread_mutex_lock(&r->lock);
	const bool taken = !r->ending;
	struct asked **last = &r->asked;
	while (*last)
		last = &(*last)->next;
	if (taken)
		*last = a;
	pthread_cond_broadcast(&r->wake);
	pthread_mutex_unlock(&r->lock);
	if (!taken)
		end_asked(s, a, WEIR_E_UNAVAILABLE, "the server is stopping", &(struct rewind_record){0});
}

/* --- Lifecycle */

weir_status rewind_create(struct server *s, const struct checkpoint_options *checkpoint, weir_error *err)
{
	if (!server_is_replicated(s))
		return WEIR_OK;
	struct rewind *r = s->rewind = calloc(1, sizeof *r);
	if (!r)
		return weir_fail(err, WEIR_E_MEMORY, "%s: out of memory", s->name);
	r->server = s;
	pthread_mutex_init(&r->lock, NULL);
	deadline_cond_init(&r->wake);
	if (checkpoint && checkpoint_options_copy(&r->checkpoint, checkpoint) != WEIR_OK)
		return weir_fail(err, WEIR_E_MEMORY, "%s: out of memory", s->name);
	r->has_thread = pthread_create(&r->thread, NULL, run, r) == 0;
	return r->has_thread ? WEIR_OK : weir_fail(err, WEIR_E_MEMORY, "%s: no thread could be started", s->name);
}

void rewind_stop(struct rewind *r)
{
	if (!r || !r->has_thread)
		return;
	pthread_mutex_lock(&r->lock);
	r->ending = true;
	pthread_cond_broadcast(&r->wake);
	pthread_mutex_unlock(&r->lock);
	pthread_join(r->thread, NULL);
	r->has_thread = false;
	while (r->asked) {
		struct asked *a = r->asked;
		r->asked = a->next;
		end_asked(r->server, a, WEIR_E_UNAVAILABLE, "the server is stopping", &(struct rewind_record){0});
	}
}

void rewind_destroy(struct rewind *r)
{
	if (!r)
		return;
	checkpoint_options_destroy(&r->checkpoint);
	pthread_cond_destroy(&r->wake);
	pthread_mutex_destroy(&r->lock);
	free(r);
}
