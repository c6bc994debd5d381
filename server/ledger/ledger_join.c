/* Joining the ledger: admission, names and ids.
 *
 * A name belongs to one live worker. A newcomer of the same name takes it over at once if it is the
 * same client (JoinRequest.client), if the holder has been silent for WEIR_NAME_SILENT_MS, or if
 * the newcomer, in the same pid namespace and behind the same address, has found the holder's
 * process gone. Otherwise E_EXISTS names the holder. The newcomer then asks again until the holder
 * has been silent for long enough, or has been heard from, which shows that two live processes
 * share a name. A refusal changes nothing.
 *
 * A job has one evaluator at a time, as long as its lease lasts. A newcomer with an evaluator
 * certificate replaces an evaluator without one. Otherwise the second evaluator waits as above, for
 * the lease to end.
 *
 * An id is a place in the table. Places are for live workers. If more than WEIR_WORKERS_GONE_KEPT
 * workers have gone, or if the table is full, the newcomer gets the place of the worker that has
 * been silent longest, unless the open step still names that worker. Nothing else can name it: a
 * unit names its holder only while it is held. The ledger's totals keep what a worker counted. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/hash.h"
#include "common/base/utf8_sanitize.h"
#include "proto/frame/frame.h"
#include "server/ledger/ledger_state.h"

static const char *role_name(Weir__V1__Role role)
{
	return role == WEIR__V1__ROLE__TRAINER ? "trainer" : role == WEIR__V1__ROLE__EVALUATOR ? "evaluator" : "observer";
}

/* --- Validity of a request */

/* A job that was started without a number of passes takes the first trainer's. */
static weir_status check_passes(const struct ledger *l, const Weir__V1__JoinRequest *q, weir_error *err)
{
	if (q->passes > WEIR_PASSES_MAX)
		return weir_fail(err, WEIR_E_INVALID, "worker %s: %u passes; expected at most %u", q->name, q->passes, WEIR_PASSES_MAX);
	if (!q->passes || !l->passes || q->passes == l->passes)
		return WEIR_OK;
	if (l->options.passes)
		return weir_fail(err, WEIR_E_INVALID,
		                 "worker %s wants %u passes, and the job has %u (train.passes): expected the same, or 0", q->name,
		                 q->passes, l->passes);
	return weir_fail(err, WEIR_E_INVALID,
	                 "worker %s wants %u passes, and the job has %u since its first trainer, %s: expected the same, or 0",
	                 q->name, q->passes, l->passes, l->dataset_by);
}

/* The first trainer's dataset becomes the job's. Other trainers must have the same. */
static weir_status check_dataset(const struct ledger *l, const Weir__V1__JoinRequest *q, weir_error *err)
{
	const Weir__V1__Dataset *d = q->dataset;
	if (!d || !d->units || d->units > WEIR_UNITS_PER_PASS_MAX)
		return weir_fail(err, WEIR_E_INVALID, "worker %s: a trainer's dataset must have 1 to %u units, not %u", q->name,
		                 WEIR_UNITS_PER_PASS_MAX, d ? d->units : 0);
	const bool same = l->dataset_fingerprint == d->fingerprint || ledger_fingerprint_accepts_data(q);
	if (!l->has_dataset || (same && l->dataset_units == d->units))
		return WEIR_OK;
	return weir_fail(
	    err, WEIR_E_INVALID,
	    "worker %s sees another dataset (fingerprint %016llx, %u units) than worker %s (fingerprint %016llx, %u units): "
	    "all trainers need the same files and settings",
	    q->name, (unsigned long long)d->fingerprint, d->units, l->dataset_by, (unsigned long long)l->dataset_fingerprint,
	    l->dataset_units);
}

static weir_status adopt_dataset(struct ledger *l, const Weir__V1__JoinRequest *q, weir_error *err)
{
	const Weir__V1__Dataset *d = q->dataset;
	l->dataset_units = d->units;
	l->unit_batches = d->unit_batches < WEIR_UNIT_BATCHES_MAX ? d->unit_batches : WEIR_UNIT_BATCHES_MAX;
	l->passes = l->options.passes ? l->options.passes : q->passes ? q->passes : 1;
	weir_status status = ledger_pass_open(l, 0);
	if (status != WEIR_OK) {
		l->dataset_units = l->unit_batches = 0;
		l->passes = l->options.passes;
		return weir_fail(err, status, "ledger: no memory for %u units", d->units);
	}
	l->changes.globals = true;
	l->has_dataset = true;
	l->dataset_fingerprint = d->fingerprint;
	l->dataset_rows = d->rows;
	snprintf(l->dataset_by, sizeof l->dataset_by, "%s", q->name);
	return WEIR_OK;
}

/* A certificate's NAME is binding unless it is just the name of its role, which many share. */
static weir_status check_certificate(const Weir__V1__JoinRequest *q, const struct ledger_peer *peer, weir_error *err)
{
	char role[PEER_ROLES_BYTES];
	peer_roles(peer->role, role);
	const bool works = q->role != WEIR__V1__ROLE__OBSERVER;
	if (peer->role == ROLE_EVALUATOR && q->role == WEIR__V1__ROLE__TRAINER)
		return weir_fail(err, WEIR_E_DENIED, "worker %s: its certificate is an evaluator's; a trainer needs the role worker",
		                 q->name);
	if (peer->role && works && strcmp(peer->name, role) != 0 && strcmp(peer->name, q->name) != 0)
		return weir_fail(
		    err, WEIR_E_DENIED,
		    "worker %s: its certificate is that of %s; join under that name, or use a certificate whose NAME is its role",
		    q->name, peer->name);
	return WEIR_OK;
}

static weir_status check_request(struct ledger *l, const Weir__V1__JoinRequest *q, const struct ledger_peer *peer,
                                 weir_error *err)
{
	weir_status status = q->job && q->job->uuid.len ? ledger_check_job(l, q->job, err) : WEIR_OK;
	if (status)
		return status;
	if (!peer_identity_is_name(q->name))
		return weir_fail(err, WEIR_E_INVALID,
		                 "a worker's name must have 1 to %u letters, digits, '_', '-' and '.', and not start with '.'",
		                 WEIR_NAME_BYTES_MAX - 1);
	if (q->wire_version != FRAME_VERSION)
		return weir_fail(err, WEIR_E_VERSION,
		                 "worker %s speaks version %u of the protocol, this server version %u: use one release for both", q->name,
		                 q->wire_version, FRAME_VERSION);
	if (q->role > WEIR__V1__ROLE__OBSERVER)
		return weir_fail(err, WEIR_E_INVALID, "worker %s: unknown role %u", q->name, (unsigned)q->role);
	status = check_certificate(q, peer, err);
	if (!status)
		status = ledger_fingerprint_check(l, q, err);
	if (status || q->role != WEIR__V1__ROLE__TRAINER)
		return status;
	status = check_passes(l, q, err);
	return status ? status : check_dataset(l, q, err);
}

/* --- Limits per peer */

/* Limits joins from one address: WEIR_JOINS_BURST at once, then WEIR_JOINS_PER_S. Addresses that
 * share a bucket share its tokens. */
static bool take_token(struct ledger *l, const char *address)
{
	struct join_bucket *b = &l->joins[hash_bytes(address, strlen(address), 0) % LEDGER_JOIN_BUCKETS];
	const int64_t now = ledger_now(l);
	b->spent -= (double)(now - b->at_ms) * WEIR_JOINS_PER_S / 1e3;
	b->spent = b->spent > 0 ? b->spent : 0;
	b->at_ms = now;
	if (b->spent + 1 > WEIR_JOINS_BURST)
		return false;
	b->spent++;
	return true;
}

static weir_status check_peer(struct ledger *l, const Weir__V1__JoinRequest *q, const struct ledger_peer *peer, weir_error *err)
{
	uint32_t connection = 0, address = 0;
	if (!peer->address[0])
		return WEIR_OK;
	for (uint32_t i = 0; i < l->workers_count; i++) {
		const struct ledger_worker *w = l->workers[i];
		if (!w->live || strcmp(w->name, q->name) == 0)
			continue;
		connection += peer->connection && w->connection == peer->connection;
		address += strcmp(w->address, peer->address) == 0;
	}
	if (connection >= WEIR_WORKERS_PER_CONNECTION_MAX)
		return weir_fail(err, WEIR_E_LIMIT, "worker %s: %u workers have joined over this connection, the most that may", q->name,
		                 connection);
	if (address >= WEIR_WORKERS_PER_ADDRESS_MAX)
		return weir_fail(err, WEIR_E_LIMIT, "worker %s: %u workers have joined from %s, the most that may from one address",
		                 q->name, address, peer->address);
	if (!take_token(l, peer->address))
		return weir_fail(err, WEIR_E_UNAVAILABLE, "worker %s: too many joins from %s; try again, %u a second are taken", q->name,
		                 peer->address, WEIR_JOINS_PER_S);
	return WEIR_OK;
}

/* --- Rivals of a newcomer */

static struct ledger_worker *named(const struct ledger *l, const char *name)
{
	for (uint32_t i = 0; i < l->workers_count; i++)
		if (strcmp(l->workers[i]->name, name) == 0)
			return l->workers[i];
	return NULL;
}

static struct ledger_worker *live_evaluator(const struct ledger *l)
{
	for (uint32_t i = 0; i < l->workers_count; i++)
		if (l->workers[i]->live && l->workers[i]->role == WEIR__V1__ROLE__EVALUATOR)
			return l->workers[i];
	return NULL;
}

/* Whether the holder of the newcomer's name gives it up. */
static bool gives_name(const struct ledger *l, const struct ledger_worker *w, const Weir__V1__JoinRequest *q,
                       const struct ledger_peer *peer)
{
	const bool same_client = q->client && q->client == w->client;
	const bool gone = q->gone_pid && q->gone_pid == w->pid && q->pid_namespace && q->pid_namespace == w->pid_namespace &&
	                  strcmp(peer->address, w->address) == 0;
	return same_client || gone || ledger_now(l) - w->renewed_ms >= WEIR_NAME_SILENT_MS;
}

/* Whether the job's evaluator, of another name, gives way to the newcomer before its lease is
 * lost. */
static bool gives_evaluation(const struct ledger_worker *w, const struct ledger_peer *peer)
{
	return peer->role == ROLE_EVALUATOR && w->certificate != ROLE_EVALUATOR;
}

static weir_status refuse_for(const struct ledger_worker *w, const Weir__V1__JoinRequest *q, Weir__V1__Holder *holder,
                              weir_error *err)
{
	char host[WEIR_ADDRESS_BYTES_MAX];
	utf8_sanitize(host, sizeof host, q->host);
	weir__v1__holder__init(holder);
	holder->name = (char *)(uintptr_t)w->name;
	holder->host = (char *)(uintptr_t)w->host;
	holder->pid = w->pid;
	holder->pid_namespace = w->pid_namespace;
	holder->heard = w->heard_count;
	if (strcmp(w->name, q->name) == 0)
		return weir_fail(
		    err, WEIR_E_EXISTS,
		    "worker %s (pid %u on %s): a live worker has this name, pid %u on %s: give each worker a name of its own", q->name,
		    q->pid, host, w->pid, w->host);
	return weir_fail(err, WEIR_E_EXISTS,
	                 "evaluator %s (pid %u on %s): the job has a live evaluator, %s (pid %u on %s): stop one of them", q->name,
	                 q->pid, host, w->name, w->pid, w->host);
}

/* Live workers that cannot stay beside the newcomer. NULL: none. */
struct rivals {
	struct ledger_worker *same; /* of the same name */
	struct ledger_worker *evaluator;
};

static struct rivals find_rivals(const struct ledger *l, const Weir__V1__JoinRequest *q)
{
	struct ledger_worker *same = named(l, q->name);
	struct ledger_worker *evaluator = q->role == WEIR__V1__ROLE__EVALUATOR ? live_evaluator(l) : NULL;
	return (struct rivals){.same = same && same->live ? same : NULL, .evaluator = evaluator == same ? NULL : evaluator};
}

/* E_EXISTS: one of them stays; *holder describes it. */
static weir_status check_rivals(const struct ledger *l, const struct rivals *r, const Weir__V1__JoinRequest *q,
                                const struct ledger_peer *peer, Weir__V1__Holder *holder, weir_error *err)
{
	if (r->same && !gives_name(l, r->same, q, peer))
		return refuse_for(r->same, q, holder, err);
	if (r->evaluator && !gives_evaluation(r->evaluator, peer))
		return refuse_for(r->evaluator, q, holder, err);
	return WEIR_OK;
}

/* --- Places */

static bool is_named(const struct ledger *l, const struct ledger_worker *w)
{
	for (uint32_t i = 0; l->steps.open && i < l->steps.count; i++)
		if (l->steps.members[i].worker == w->id)
			return true;
	return false;
}

/* The place to reuse first: an observer's, else that of the worker silent for longest. NULL: none
 * yet. */
static struct ledger_worker *place_to_reuse(const struct ledger *l)
{
	struct ledger_worker *oldest = NULL;
	uint32_t gone = 0;
	for (uint32_t i = 0; i < l->workers_count; i++) {
		struct ledger_worker *w = l->workers[i];
		if (w->live)
			continue;
		gone++;
		const bool first = w->role == WEIR__V1__ROLE__OBSERVER;
		if ((!first && oldest && w->renewed_ms >= oldest->renewed_ms) || is_named(l, w))
			continue;
		if (first)
			return w;
		oldest = w;
	}
	return gone > WEIR_WORKERS_GONE_KEPT || l->workers_count == WEIR_WORKERS_MAX ? oldest : NULL;
}

/* The place of that name, or a place for it. NULL: no place is free, or out of memory. */
static struct ledger_worker *place_for(struct ledger *l, const char *name)
{
	struct ledger_worker *w = named(l, name);
	if (w)
		return w;
	w = place_to_reuse(l);
	if (w)
		*w = (struct ledger_worker){.id = w->id, .changed = w->changed};
	else if (l->workers_count < WEIR_WORKERS_MAX)
		w = ledger_worker_add(l);
	if (w)
		snprintf(w->name, sizeof w->name, "%s", name);
	return w;
}

static void worker_begin(struct ledger *l, struct ledger_worker *w, const Weir__V1__JoinRequest *q,
                         const struct ledger_peer *peer)
{
	utf8_sanitize(w->host, sizeof w->host, q->host);
	w->pid = q->pid;
	w->role = q->role;
	w->client = q->client;
	w->pid_namespace = q->pid_namespace;
	snprintf(w->address, sizeof w->address, "%s", peer->address);
	w->connection = peer->connection;
	w->certificate = peer->role;
	uint64_t before = w->incarnation;
	do
		w->incarnation = l->options.entropy->ops->u64(l->options.entropy);
	while (w->incarnation == before || w->incarnation == 0);
	w->live = w->joined = true;
	w->left = w->heard = w->dropped = w->stall.now = false;
	w->heard_count = 0;
	w->activity = (struct worker_activity){.tells = q->tells_activity, .moved_ms = ledger_now(l)};
	w->lease_sequence = w->report_sequence = 0;
	w->renewed_ms = ledger_now(l);
	if (w->role == WEIR__V1__ROLE__EVALUATOR)
		l->evaluator_ms = w->renewed_ms;
	ledger_mark_worker(l, w);
	LOG_AT(l->options.logger, LOG_INFO, "worker joined", "name=%s role=%s host=%s pid=%u id=%u", w->name, role_name(w->role),
	       w->host, w->pid, w->id);
}

/* --- The call */

static weir_status admit(struct ledger *l, const Weir__V1__JoinRequest *q, const struct ledger_peer *peer,
                         struct ledger_worker **out, Weir__V1__JoinReply *r, Weir__V1__Holder *holder, weir_error *err)
{
	weir_status status = check_request(l, q, peer, err);
	if (!status)
		status = check_peer(l, q, peer, err);
	if (status)
		return status;
	const struct rivals rivals = find_rivals(l, q);
	status = check_rivals(l, &rivals, q, peer, holder, err);
	if (status) {
		r->holder = holder;
		return status;
	}
	if (rivals.evaluator)
		ledger_worker_end(l, rivals.evaluator, false, "another evaluator has joined");
	if (rivals.same)
		ledger_worker_end(l, rivals.same, false, "a new incarnation has joined");
	*out = place_for(l, q->name);
	if (!*out)
		return weir_fail(err, WEIR_E_LIMIT, "worker %s: %u workers are alive or in the open step, the most there may be", q->name,
		                 WEIR_WORKERS_MAX);
	if (q->role == WEIR__V1__ROLE__TRAINER && !l->has_dataset)
		status = adopt_dataset(l, q, err);
	if (!status)
		status = ledger_fingerprint_take(l, q, err);
	if (!status)
		worker_begin(l, *out, q, peer);
	return status;
}

void ledger_join(struct ledger *l, const Weir__V1__JoinRequest *q, const struct ledger_peer *peer, ledger_reply_fn reply,
                 void *arg)
{
	static const struct ledger_peer nobody = {.address = "", .name = ""};
	Weir__V1__JoinReply r = WEIR__V1__JOIN_REPLY__INIT;
	Weir__V1__Holder holder;
	Weir__V1__Status status;
	weir_error err = {0};
	struct ledger_worker *w = NULL;
	r.status = &status;
	weir_status code = admit(l, q, peer ? peer : &nobody, &w, &r, &holder, &err);
	ledger_fill_status(&status, code, err.text);
	if (code != WEIR_OK) {
		LOG_AT(l->options.logger, LOG_WARN, "join refused", "name=%s why=\"%s\"", q->name, err.text);
		reply(arg, &r.base);
		return;
	}

	Weir__V1__JobId job;
	ledger_fill_job(l, &job);
	Weir__V1__UnitMark low = ledger_closed_low(l);
	Weir__V1__StepClose *closes[WEIR_STEP_CLOSES_KEPT];
	Weir__V1__Table **tables = calloc(l->tables_count + 1u, sizeof *tables);
	for (uint32_t i = 0; i < l->steps.closes_count; i++)
		closes[i] = &l->steps.closes[i]->message;
	for (uint32_t i = 0; tables && i < l->tables_count; i++)
		tables[i] = &l->tables[i]->wire.table;
	r.job = &job;
	r.worker = w->id;
	r.incarnation = w->incarnation;
	r.lease_ms = l->options.lease_ms;
	r.patience_ms = l->options.patience_ms;
	r.ack_sent = l->options.ack_sent;
	r.read_staleness_ms = l->options.read_staleness_ms;
	r.read_staleness_entries = l->options.read_staleness_entries;
	r.partitions = l->options.partitions;
	r.n_process_ids = l->process_ids ? l->options.servers_count : 0;
	r.process_ids = l->process_ids;
	r.closed_low = &low;
	r.n_closes = l->steps.closes_count;
	r.closes = closes;
	r.passes = l->passes;
	r.evaluated = l->evaluated;
	r.n_tables = tables ? l->tables_count : 0;
	r.tables = tables;
	if (!tables)
		ledger_fill_status(&status, WEIR_E_MEMORY, "ledger: out of memory");
	reply(arg, &r.base);
	free(tables);
}
