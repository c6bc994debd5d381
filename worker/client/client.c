/* A client's life: opening, joining, closing, and wake-ups. See client.h for an overview. */
#include "worker/client/client.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/deadline.h"
#include "common/base/prng.h"
#include "worker/client/api_struct.h"

int64_t client_now(const weir_client *c)
{
	return clock_ms(c->clock);
}

bool client_wait(weir_client *c, int64_t deadline_ms)
{
	return deadline_wait(&c->changed, &c->lock, deadline_at_ms(deadline_ms)) || client_now(c) < deadline_ms;
}

void client_log(weir_client *c, weir_log_level level, const char *format, ...)
{
	char line[WEIR_ERROR_TEXT_BYTES];
	va_list args;
	if (!c->options.log)
		return;
	va_start(args, format);
	vsnprintf(line, sizeof line, format, args);
	va_end(args);
	c->options.log(c->options.log_arg, level, line);
}

static void on_notice(void *arg, const char *text)
{
	client_log(arg, WEIR_LOG_WARN, "no lane %s", text);
}

weir_status client_usable(const weir_client *c, weir_error *err)
{
	if (c->closing)
		return weir_fail(err, WEIR_E_CANCELLED, "the client is being closed");
	if (c->failure.status)
		return weir_fail(err, c->failure.status, "%s", c->failure.text);
	if (c->stale)
		return weir_fail(err, WEIR_E_STALE, "worker %s was taken for dead: drop what it held and call weir_rejoin", c->name);
	return WEIR_OK;
}

static void drop_all(weir_client *c, weir_status status, const char *text)
{
	for (uint32_t i = 0; i < c->links_count; i++) {
		(void)lane_drop(&c->links[i]->push, FRAME_PARTITION_ALL, status, text);
		(void)lane_drop(&c->links[i]->pull, FRAME_PARTITION_ALL, status, text);
	}
	map_forget_waits(c);
	steps_fail(c, status, text);
	clocks_fail(c, status, text);
	pthread_cond_broadcast(&c->changed);
}

void client_become_stale(weir_client *c, const char *why)
{
	if (c->stale || c->closing)
		return;
	c->stale = true;
	client_log(c, WEIR_LOG_WARN, "worker %s is stale: %s", c->name, why);
	drop_all(c, WEIR_E_STALE, "this worker was taken for dead; what it had in flight counts only where it had arrived");
}

bool client_is_over(weir_status status)
{
	return status == WEIR_E_LOST || status == WEIR_E_GENERATION || status == WEIR_E_DENIED;
}

void client_fail(weir_client *c, weir_status status, const char *why)
{
	if (c->failure.status || c->closing)
		return;
	(void)weir_fail(&c->failure, status, "%s", why);
	client_log(c, status == WEIR_E_GENERATION ? WEIR_LOG_WARN : WEIR_LOG_ERROR, "worker %s cannot go on: %s", c->name, why);
	drop_all(c, status, why);
}

/* --- Submitting: callers put pulls in a list; the loop takes them all at once and sends as many as
 * lanes have room for. */

static void drain_submitted(weir_client *c)
{
	struct operation *op = c->submitted;
	c->submitted = NULL;
	c->submitted_tail = &c->submitted;
	while (op) {
		struct operation *next = op->next;
		weir_error err = {0};
		if (client_usable(c, &err) != WEIR_OK) {
			operation_end_unsent(op, err.status, err.text);
		} else if (op->clocked) {
			clocks_submit(c, op);
		} else {
			pull_go_on(op);
		}
		op = next;
	}
}

static void on_wake(void *arg)
{
	weir_client *c = arg;
	pthread_mutex_lock(&c->lock);
	c->wake_posted = false;
	drain_submitted(c);
	for (uint32_t i = 0; i < c->links_count; i++) {
		lane_pump(&c->links[i]->push);
		lane_pump(&c->links[i]->pull);
	}
	pthread_mutex_unlock(&c->lock);
}

void links_wake(weir_client *c)
{
	if (c->wake_posted)
		return;
	c->wake_posted = true;
	rpc_loop_post(c->loop, on_wake, c);
}

/* --- Opening and closing */

/* A client without loop, channels or links. */
static void release(weir_client *c)
{
	record_writer_destroy(c->writer);
	free(c->trace_upload.data);
	trace_destroy(c->trace);
	free(c->scratch);
	for (size_t i = 0; i < c->accept_count; i++)
		free(c->accept[i]);
	free(c->fingerprint);
	pthread_cond_destroy(&c->changed);
	pthread_mutex_destroy(&c->lock);
	pthread_mutex_destroy(&c->coding);
	free(c);
}

/* Frees everything that was made, in any state of opening. Closing the channels ends all that is in
 * flight; then the loop ends. */
static void destroy(weir_client *c)
{
	pthread_mutex_lock(&c->lock);
	c->closing = true;
	drop_all(c, WEIR_E_CANCELLED, "the client is being closed");
	links_wake(c);
	pthread_mutex_unlock(&c->lock);
	for (uint32_t i = 0; i < c->links_count; i++)
		if (c->links[i]->channel)
			rpc_channel_close(c->links[i]->channel);
	ledger_calls_destroy(c);
	rpc_loop_destroy(c->loop);
	for (uint32_t i = 0; i < c->slots_count; i++)
		if (c->slots[i])
			operation_destroy(c->slots[i]);
	units_destroy(c);
	tables_destroy(c);
	free(c->slots);
	free(c->slot_generation);
	for (uint32_t i = 0; i < c->links_count; i++)
		free(c->links[i]);
	map_destroy(c);
	message_release(c->unreported);
	free(c->applied_seen);
	free(c->stable_seen);
	free(c->acknowledged);
	free(c->epoch_seen);
	free(c->later);
	struct rpc *rpc = c->rpc_owned ? c->rpc : NULL;
	release(c);
	if (rpc)
		rpc_destroy(rpc);
}

static weir_status check_options(const weir_options *o, weir_error *err)
{
	if (!o->ledger || !o->ledger[0])
		return weir_fail(err, WEIR_E_INVALID, "options.ledger must be the address of the server that hosts the ledger");
	if (!o->name || !peer_identity_is_name(o->name))
		return weir_fail(err, WEIR_E_INVALID,
		                 "options.name must have 1 to %u letters, digits, '_', '-' and '.', and not start with '.'",
		                 WEIR_NAME_BYTES_MAX - 1);
	if (o->accept_count > WEIR_ACCEPTED_KEYS_MAX)
		return weir_fail(err, WEIR_E_LIMIT, "options.accept has %zu keys, %u are the most", o->accept_count,
		                 WEIR_ACCEPTED_KEYS_MAX);
	return WEIR_OK;
}

static bool copy_fingerprint(weir_client *c, const weir_options *options)
{
	if (options->fingerprint && !(c->fingerprint = strdup(options->fingerprint)))
		return false;
	for (; c->accept_count < options->accept_count; c->accept_count++)
		if (!(c->accept[c->accept_count] = strdup(options->accept[c->accept_count])))
			return false;
	return true;
}

static weir_client *allocate(const weir_options *options, struct rpc *rpc)
{
	weir_client *c = calloc(1, sizeof *c);
	if (!c)
		return NULL;
	c->rpc = rpc;
	c->clock = clock_system();
	c->token = entropy_system()->ops->u64(entropy_system());
	c->options = *options;
	c->options.ledger = c->options.name = c->options.fingerprint = NULL;
	c->options.accept = NULL;
	c->options.security = (weir_security){0};
	snprintf(c->name, sizeof c->name, "%s", options->name);
	c->submitted_tail = &c->submitted;
	c->ticked_ms = client_now(c);
	weir__v1__worker_report__init(&c->report);
	c->scratch_bytes = WEIR_ROW_WIDTH_MAX * sizeof(float);
	c->scratch = malloc(c->scratch_bytes);
	c->writer = record_writer_create();
	c->trace = trace_create(c->clock);
	c->steps.poll = (struct poll){.client = c, .type = &steps_poll_type};
	c->clocks.poll = (struct poll){.client = c, .type = &clocks_poll_type};
	pthread_mutex_init(&c->lock, NULL);
	pthread_mutex_init(&c->coding, NULL);
	deadline_cond_init(&c->changed);
	return c;
}

static void tell_duration(void *client, enum rpc_method method, bool served, int64_t ns)
{
	const weir_client *c = client;
	(void)served;
	c->options.observed(c->options.observed_arg, rpc_method_name(method), ns);
}

weir_status client_open(weir_client **out, const weir_options *options, struct rpc *rpc, weir_error *err)
{
	weir_status status = check_options(options, err);
	if (status != WEIR_OK)
		return status;
	weir_client *c = allocate(options, rpc);
	if (c && options->observed)
		rpc_observe(rpc, tell_duration, c);
	if (!c || !c->scratch || !c->writer || !c->trace || !copy_fingerprint(c, options) ||
	    !(c->loop = rpc_loop_create(rpc, c->name, err))) {
		if (c)
			release(c);
		return weir_fail(err, WEIR_E_MEMORY, "worker %s: out of memory, or no thread could be started", options->name);
	}
	rpc_loop_notice(c->loop, on_notice, c);
	status = ledger_open(c, options->ledger, err);
	if (status == WEIR_OK)
		status = client_join(c, false, err);
	if (status != WEIR_OK) {
		destroy(c);
		return status;
	}
	c->progress_ms = client_now(c);
	progress_start(c);
	*out = c;
	return WEIR_OK;
}

/* Waits until nothing is in flight. Operations that nobody has waited for yet do not count. */
static weir_status settle(weir_client *c, weir_error *err)
{
	int64_t deadline = client_now(c) + WEIR_DRAIN_MS;
	pthread_mutex_lock(&c->lock);
	bool busy = true, in_time = true;
	while (busy && in_time) {
		busy = false;
		for (uint32_t i = 0; i < c->slots_count; i++)
			busy |= c->slots[i] && !c->slots[i]->finished;
		in_time = !busy || client_wait(c, deadline);
	}
	bool stale = c->stale;
	const weir_error failure = c->failure;
	pthread_mutex_unlock(&c->lock);
	if (failure.status)
		return weir_fail(err, failure.status, "%s", failure.text);
	if (stale)
		return weir_fail(err, WEIR_E_STALE, "worker %s had been taken for dead", c->name);
	return busy
	           ? weir_fail(err, WEIR_E_TIMEOUT, "worker %s: operations were still unanswered after %u ms", c->name, WEIR_DRAIN_MS)
	           : WEIR_OK;
}

static weir_status leave(weir_client *c, weir_error *err)
{
	Weir__V1__LeaveRequest q = WEIR__V1__LEAVE_REQUEST__INIT;
	Weir__V1__JobId job;
	Weir__V1__WorkerReport last;
	struct done_batch done;
	uint64_t staleness[HISTOGRAM_BUCKETS];
	ProtobufCMessage *reply = NULL;
	client_fill_job(c, &job);
	pthread_mutex_lock(&c->lock);
	q.n_staleness = report_take(c, &last, staleness);
	q.staleness = staleness;
	if (steps_done(c, &done)) {
		q.done = &done.id;
		q.done_weight = &done.weight;
	}
	pthread_mutex_unlock(&c->lock);
	q.job = &job;
	q.worker = c->worker;
	q.incarnation = c->incarnation;
	q.report = &last;
	weir_status status =
	    ledger_call_patiently(c, RPC_LEAVE, &q.base, WEIR_CONTROL_TIMEOUT_MS, &weir__v1__leave_reply__descriptor, &reply, err);
	wire_destroy(reply);
	return status;
}

static void cancel_on_loop(void *arg)
{
	weir_client *c = arg;
	pthread_mutex_lock(&c->lock);
	steps_cancel(c);
	pthread_mutex_unlock(&c->lock);
}

void weir_stop_waiting(weir_client *c)
{
	rpc_loop_post(c->loop, cancel_on_loop, c);
}

weir_status weir_close(weir_client *c, weir_error *err)
{
	weir_status status = settle(c, err);
	if (status == WEIR_OK || status == WEIR_E_TIMEOUT) {
		weir_status left = leave(c, status == WEIR_OK ? err : NULL);
		status = status == WEIR_OK ? left : status;
	}
	destroy(c);
	return status;
}

void weir_abandon(weir_client *c)
{
	destroy(c);
}

weir_status weir_rejoin(weir_client *c, weir_error *err)
{
	pthread_mutex_lock(&c->lock);
	bool stale = c->stale;
	const weir_error failure = c->failure;
	pthread_mutex_unlock(&c->lock);
	if (failure.status)
		return weir_fail(err, failure.status, "%s", failure.text);
	if (!stale)
		return weir_fail(err, WEIR_E_STATE, "worker %s is alive: only one that got WEIR_E_STALE rejoins", c->name);
	tables_forget_residuals(c);
	return client_join(c, true, err);
}

uint32_t weir_partitions(const weir_client *c)
{
	return c->partitions;
}
uint32_t weir_passes(const weir_client *c)
{
	return c->passes;
}
uint32_t weir_evaluated(const weir_client *c)
{
	return c->evaluated;
}
uint64_t weir_generation(const weir_client *c)
{
	return c->generation;
}
uint64_t weir_incarnation(const weir_client *c)
{
	return c->incarnation;
}

weir_status weir_get_stats(weir_client *c, weir_stats *out)
{
	const weir_status status = api_struct_check(API_weir_stats, out, NULL);
	if (status != WEIR_OK)
		return status;
	pthread_mutex_lock(&c->lock);
	const double norm = residual_norm(c);
	pthread_mutex_unlock(&c->lock);
	const weir_stats stats = {.bytes_pushed = atomic_load(&c->bytes_pushed),
	                          .bytes_pulled = atomic_load(&c->bytes_pulled),
	                          .parts_pushed = atomic_load(&c->parts_pushed),
	                          .duplicates = atomic_load(&c->duplicates),
	                          .pushes_in_flight = atomic_load(&c->pushes_in_flight),
	                          .pulls_in_flight = atomic_load(&c->pulls_in_flight),
	                          .batches_dropped = atomic_load(&c->batches_dropped),
	                          .reads_returned = atomic_load(&c->reads_returned),
	                          .residual_norm = norm};
	api_struct_write(API_weir_stats, out, &stats);
	return WEIR_OK;
}
