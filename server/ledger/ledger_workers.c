/* Workers of the ledger. Any request renews a worker's lease. Workers report progress, leave, or
 * are lost when their lease expires. An incarnation ends once: afterwards every request of it gets
 * E_STALE, and its units are free for the next attempt. Workers join in ledger_join.c. */
#include <math.h>
#include <stdlib.h>

#include "server/ledger/ledger_state.h"

struct ledger_worker *ledger_worker_find(struct ledger *l, const Weir__V1__JobId *job, uint32_t id, uint64_t incarnation,
                                         weir_error *err)
{
	if (ledger_check_job(l, job, err))
		return NULL;
	if (id >= l->workers_count) {
		(void)weir_fail(err, WEIR_E_NOT_FOUND, "no worker %u has joined", id);
		return NULL;
	}
	struct ledger_worker *w = l->workers[id];
	if (w->stall.now && w->incarnation == incarnation) {
		(void)ledger_idle_refuse(w, err);
		return NULL;
	}
	if (!w->live || w->incarnation != incarnation) {
		(void)weir_fail(err, WEIR_E_STALE, "worker %s was taken for dead or replaced: join again", w->name);
		return NULL;
	}
	w->renewed_ms = ledger_now(l);
	if (!w->heard)
		ledger_mark_worker(l, w);
	w->heard = true;
	w->heard_count++;
	return w;
}

void ledger_worker_end(struct ledger *l, struct ledger_worker *w, bool clean, const char *why)
{
	ledger_lockstep_lose(l, w);
	w->live = false;
	w->left = clean;
	l->report.residual_lost = hypot(l->report.residual_lost, w->residual_norm);
	w->residual_norm = 0;
	ledger_mark_worker(l, w);
	l->changes.globals = true;
	if (!clean && w->role != WEIR__V1__ROLE__OBSERVER && w->heard) {
		l->workers_lost++;
		LOG_AT(l->options.logger, LOG_WARN, "worker lost", "name=%s why=\"%s\" units=%u", w->name, why, w->held_count);
	} else {
		LOG_AT(l->options.logger, LOG_INFO, "worker left", "name=%s units=%u", w->name, w->held_count);
	}
	while (w->held_count)
		ledger_unit_return(l, w->held[w->held_count - 1], NULL);
	ledger_steps_forget(l, w, why);
	ledger_clocks_forget(w, WEIR_E_STALE, why);
	ledger_pass_advance(l);
	ledger_steps_advance(l);
	ledger_clocks_advance(l);
}

uint32_t ledger_workers_holding(const struct ledger *l)
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < l->workers_count; i++)
		n += l->workers[i]->live && l->workers[i]->held_count > 0;
	return n;
}

uint32_t ledger_trainers(const struct ledger *l)
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < l->workers_count; i++)
		n += l->workers[i]->live && l->workers[i]->role == WEIR__V1__ROLE__TRAINER;
	return n;
}

float ledger_rate_scale(const struct ledger *l)
{
	const uint32_t trainers = ledger_trainers(l);
	if (l->options.rate_rule == LEDGER_RATE_AS_IT_IS || trainers == 0 || trainers == l->options.workers)
		return 0;
	const float ratio = (float)trainers / (float)l->options.workers;
	return l->options.rate_rule == LEDGER_RATE_SQRT ? sqrtf(ratio) : ratio;
}

/* Replaces NaN and infinity, which would stay in a sum for ever. */
static double summand(double x)
{
	return isfinite(x) ? x : 0;
}

void ledger_report_add(struct ledger *l, struct ledger_worker *w, const Weir__V1__WorkerReport *r, const uint64_t *staleness,
                       size_t buckets)
{
	for (size_t i = 0; i < buckets && i < HISTOGRAM_BUCKETS; i++)
		w->staleness[i] += staleness[i];
	if (!r)
		return;
	ledger_mark_worker(l, w);
	l->changes.globals = true;
	w->rows += r->rows;
	ledger_speed_add(l, w, r);
	l->report.rows += r->rows;
	l->report.batches += r->batches;
	l->report.loss_sum += summand(r->loss_sum);
	l->report.rows_without_loss += isfinite(r->loss_sum) ? r->rows_without_loss : r->rows;
	l->report.bytes_pushed += r->bytes_pushed;
	l->report.bytes_pulled += r->bytes_pulled;
	l->report.bad_lines += r->bad_lines;
	l->report.duplicates += r->duplicates;
	w->residual_norm = summand(r->residual_norm);
	l->report.energy_sent += summand(r->energy_sent);
	l->report.energy_measured += r->energy_measured;
	l->report.nonfinite += r->nonfinite;
	l->report.redone_batches += r->redone_batches;
	l->report.keys += r->keys;
	l->report.keys_cached += r->keys_cached;
	l->report.scale_skipped += r->scale_skipped;
	l->report.loss_scale = r->loss_scale > 0 ? r->loss_scale : l->report.loss_scale;
	l->report.gradient_norm = r->gradient_norm > 0 ? r->gradient_norm : l->report.gradient_norm;
	l->report.learning_rate = r->learning_rate > 0 ? r->learning_rate : l->report.learning_rate;
	l->report.row_tokens = r->row_tokens > 0 ? r->row_tokens : l->report.row_tokens;
	l->report.row_least_s = r->row_least_s > 0 ? r->row_least_s : l->report.row_least_s;
	l->report.device_bytes = r->device_bytes > l->report.device_bytes ? r->device_bytes : l->report.device_bytes;
}

struct ledger_worker *ledger_worker_add(struct ledger *l)
{
	if (l->workers_count == l->workers_capacity) {
		uint32_t capacity = l->workers_capacity ? 2 * l->workers_capacity : 16;
		struct ledger_worker **grown = realloc(l->workers, capacity * sizeof *grown);
		if (!grown)
			return NULL;
		l->workers = grown;
		l->workers_capacity = capacity;
	}
	struct ledger_worker *w = calloc(1, sizeof *w);
	if (!w)
		return NULL;
	w->id = l->workers_count;
	return l->workers[l->workers_count++] = w;
}

/* The first worker that has met a server tells its process id. E_LOST: this worker has met its
 * successor, which started empty. */
static weir_status learn_boots(struct ledger *l, const uint64_t *process_ids, size_t count, weir_error *err)
{
	for (size_t i = 0; l->process_ids && i < count && i < l->options.servers_count; i++) {
		if (!l->process_ids[i])
			l->process_ids[i] = process_ids[i];
		if (process_ids[i] && process_ids[i] != l->process_ids[i])
			return weir_fail(
			    err, WEIR_E_LOST,
			    "server %zu at %s was started again and has lost what it held, as its log is in memory (cluster.log: "
			    "memory): stop the job's workers and servers, and start it anew",
			    i, l->servers[i]);
	}
	return WEIR_OK;
}

void ledger_progress(struct ledger *l, const Weir__V1__ProgressRequest *q, ledger_reply_fn reply, void *arg)
{
	Weir__V1__ProgressReply r = WEIR__V1__PROGRESS_REPLY__INIT;
	Weir__V1__Status status;
	weir_error err = {0};
	struct ledger_worker *w = ledger_worker_find(l, q->job, q->worker, q->incarnation, &err);
	if (w && learn_boots(l, q->process_ids, q->n_process_ids, &err))
		w = NULL;
	for (size_t i = 0; w && i < q->n_units; i++)
		if (ledger_unit_watermark(l, w, q->units[i], &err))
			w = NULL;
	if (w) {
		if (!q->sequence || q->sequence > w->report_sequence)
			ledger_report_add(l, w, q->report, q->staleness, q->n_staleness);
		ledger_idle_hear(w, q->activity);
		if (w->report_sequence != q->sequence)
			ledger_mark_worker(l, w);
		w->report_sequence = q->sequence;
	}
	ledger_fill_status(&status, w ? WEIR_OK : err.status, err.text);
	Weir__V1__UnitMark low = ledger_closed_low(l);
	r.status = &status;
	r.closed_low = &low;
	reply(arg, &r.base);
}

void ledger_leave(struct ledger *l, const Weir__V1__LeaveRequest *q, ledger_reply_fn reply, void *arg)
{
	Weir__V1__LeaveReply r = WEIR__V1__LEAVE_REPLY__INIT;
	Weir__V1__Status status;
	weir_error err = {0};
	struct ledger_worker *w = ledger_worker_find(l, q->job, q->worker, q->incarnation, &err);
	if (w) {
		ledger_report_add(l, w, q->report, q->staleness, q->n_staleness);
		ledger_step_done(l, w, q->done, q->done_weight);
		ledger_worker_end(l, w, true, "it left");
	} else if (q->worker < l->workers_count && l->workers[q->worker]->left &&
	           l->workers[q->worker]->incarnation == q->incarnation) {
		err.status = WEIR_OK; /* a repeat */
		err.text[0] = 0;
	}
	ledger_fill_status(&status, err.status, err.text);
	r.status = &status;
	reply(arg, &r.base);
}
