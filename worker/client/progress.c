/* Progress: a timer on the loop reports watermarks and counts, which renews the leases, and looks
 * after lanes that are down. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "worker/client/api_struct.h"
#include "worker/client/client.h"

#define TICK_MS 100u

struct reported { /* a ProgressRequest in flight */
	weir_client *client;
	uint64_t incarnation;
	uint64_t moves; /* of the ledger, at that time */
};

static void on_progress_reply(void *arg, weir_status status, const char *text, struct message *m)
{
	struct reported *reported = arg;
	weir_client *c = reported->client;
	ProtobufCMessage *reply = NULL;
	weir_error err = {0};
	if (status == WEIR_OK)
		status = wire_unpack(&weir__v1__progress_reply__descriptor, m, &reply, &err);
	else
		(void)weir_fail(&err, status, "%s", text);
	if (status == WEIR_OK)
		status = client_reply_status(reply, &err);
	const bool again = status == WEIR_E_UNAVAILABLE || status == WEIR_E_MOVED || status == WEIR_E_TIMEOUT;
	pthread_mutex_lock(&c->lock);
	const bool last = c->reporting == reported;
	if (last)
		c->reporting = NULL;
	if (last && !again) {
		message_release(c->unreported);
		c->unreported = NULL;
	}
	if (again)
		ledger_missed(c, reported->moves);
	if (reported->incarnation == c->incarnation && last && !c->closing) {
		const Weir__V1__ProgressReply *r = (const Weir__V1__ProgressReply *)reply;
		if (status == WEIR_OK) {
			closed_low_learn(c, r->closed_low);
			trace_upload_order(c, r->trace);
		} else if (status == WEIR_E_STALE) {
			client_become_stale(c, err.text);
		} else if (client_is_over(status) || status == WEIR_E_INVALID) { /* invalid: its data differ from the job's */
			client_fail(c, status, err.text);
		} else {
			client_log(c, WEIR_LOG_WARN, "progress could not be reported: %s", err.text);
		}
	}
	pthread_mutex_unlock(&c->lock);
	wire_destroy(reply);
	free(reported);
}

double residual_norm(const weir_client *c)
{
	double norm = 0;
	for (uint32_t i = 0; i < WEIR_TABLES_MAX; i++)
		norm = c->tables[i] ? hypot(norm, c->tables[i]->told.residual_norm) : norm;
	return norm;
}

size_t report_take(weir_client *c, Weir__V1__WorkerReport *out, uint64_t *staleness)
{
	size_t buckets = 0;
	for (size_t i = 0; i < HISTOGRAM_BUCKETS; i++)
		if ((staleness[i] = c->staleness[i]))
			buckets = i + 1;
	memset(c->staleness, 0, sizeof c->staleness);
	uint64_t pushed = atomic_load(&c->bytes_pushed), pulled = atomic_load(&c->bytes_pulled),
	         duplicates = atomic_load(&c->duplicates);
	*out = c->report;
	out->bytes_pushed = pushed - c->reported_pushed;
	out->bytes_pulled = pulled - c->reported_pulled;
	out->duplicates = duplicates - c->reported_duplicates;
	out->residual_norm = residual_norm(c);
	c->reported_pushed = pushed;
	c->reported_pulled = pulled;
	c->reported_duplicates = duplicates;
	weir__v1__worker_report__init(&c->report);
	return buckets;
}

static uint32_t units_count(const weir_client *c)
{
	uint32_t n = 0;
	for (const struct held_unit *u = c->units; u; u = u->next)
		n++;
	return n;
}

static struct message *pack_progress(weir_client *c)
{
	Weir__V1__ProgressRequest q = WEIR__V1__PROGRESS_REQUEST__INIT;
	Weir__V1__JobId job;
	Weir__V1__WorkerReport report;
	Weir__V1__Activity activity;
	uint32_t n = units_count(c), i = 0;
	Weir__V1__UnitProgress *units = calloc(n + 1u, sizeof *units), **list = calloc(n + 1u, sizeof *list);
	Weir__V1__PartTotals *totals = calloc(n + 1u, sizeof *totals);
	uint64_t process_ids[WEIR_SERVERS_MAX], staleness[HISTOGRAM_BUCKETS];
	struct message *m = NULL;
	if (units && list && totals) {
		for (const struct held_unit *u = c->units; u; u = u->next, i++) {
			weir__v1__unit_progress__init(&units[i]);
			weir__v1__part_totals__init(&totals[i]);
			totals[i].n_count = totals[i].n_fingerprint = c->partitions;
			totals[i].count = u->count;
			totals[i].fingerprint = u->fingerprint;
			units[i].pass = u->pass;
			units[i].unit = u->unit;
			units[i].attempt = u->attempt;
			units[i].batches = u->batches;
			units[i].watermark = u->watermark;
			units[i].totals = &totals[i];
			units[i].content = u->content;
			list[i] = &units[i];
		}
		client_fill_job(c, &job);
		q.n_staleness = report_take(c, &report, staleness);
		q.staleness = staleness;
		q.job = &job;
		q.worker = c->worker;
		q.incarnation = c->incarnation;
		q.n_units = n;
		q.units = list;
		q.report = &report;
		activity_fill(c, &activity);
		q.activity = &activity;
		q.sequence = ++c->report_sequence;
		q.process_ids = process_ids;
		q.n_process_ids = c->ledger_process_id ? c->links_count : 0;
		for (uint32_t s = 0; s < q.n_process_ids; s++)
			process_ids[s] = c->links[s]->process_id;
		m = wire_pack(&q.base);
	}
	free(units);
	free(list);
	free(totals);
	return m;
}

/* Often enough that a lease survives two lost reports. */
static int64_t interval_ms(const weir_client *c)
{
	return c->lease_ms / 4 < WEIR_PROGRESS_INTERVAL_MS ? c->lease_ms / 4 : WEIR_PROGRESS_INTERVAL_MS;
}

static void report(weir_client *c)
{
	struct reported *reported = malloc(sizeof *reported);
	struct rpc_channel *channel;
	c->progress_ms = client_now(c);
	if (reported && !c->unreported)
		c->unreported = pack_progress(c);
	if (reported && c->unreported && ledger_channel(c, &channel, NULL) == WEIR_OK) {
		*reported = (struct reported){.client = c, .incarnation = c->incarnation, .moves = c->ledger.moves};
		if (rpc_call_start(channel, RPC_PROGRESS, message_retain(c->unreported), WEIR_CONTROL_TIMEOUT_MS, on_progress_reply,
		                   reported) == WEIR_OK) {
			c->reporting = reported;
			return;
		}
	}
	free(reported);
}

void report_anew(weir_client *c)
{
	c->reporting = NULL; /* its answer no longer counts */
	c->progress_ms = client_now(c) - interval_ms(c);
}

static void tick(void *arg)
{
	weir_client *c = arg;
	pthread_mutex_lock(&c->lock);
	if (c->closing) {
		pthread_mutex_unlock(&c->lock);
		return;
	}
	links_forgive_pause(c);
	for (uint32_t i = 0; i < c->links_count; i++) {
		lane_tick(&c->links[i]->push);
		lane_tick(&c->links[i]->pull);
	}
	map_tick(c);
	activity_tick(c);
	trace_upload_tick(c);
	if (client_usable(c, NULL) == WEIR_OK && !c->reporting && client_now(c) - c->progress_ms >= interval_ms(c))
		report(c);
	pthread_mutex_unlock(&c->lock);
	rpc_loop_after(c->loop, TICK_MS, tick, c);
}

void progress_start(weir_client *c)
{
	pthread_mutex_lock(&c->lock); /* streams are open already, and may be lost */
	c->ticked_ms = c->activity.ticked_ms = client_now(c);
	pthread_mutex_unlock(&c->lock);
	rpc_loop_post(c->loop, tick, c);
}

weir_status weir_progress(weir_client *c, const weir_report *report)
{
	weir_report known;
	const weir_report *r = &known;
	weir_status status = api_struct_read(API_weir_report, &known, report, NULL);
	if (status != WEIR_OK)
		return status;
	pthread_mutex_lock(&c->lock);
	if (r->batches)
		activity_batch_ends(c);
	c->report.rows += r->rows;
	c->report.batches += r->batches;
	c->report.bad_lines += r->bad_lines;
	c->report.nonfinite += r->nonfinite;
	c->report.loss_sum += isfinite(r->loss_sum) ? r->loss_sum : 0;
	c->report.rows_without_loss += isfinite(r->loss_sum) ? 0 : r->rows;
	c->report.keys += r->keys;
	c->report.keys_cached += r->keys_cached;
	c->report.scale_skipped += r->scale_skipped;
	c->report.loss_scale = r->loss_scale > 0 ? r->loss_scale : c->report.loss_scale;
	c->report.gradient_norm = r->gradient_norm > 0 ? r->gradient_norm : c->report.gradient_norm;
	c->report.learning_rate = r->learning_rate > 0 ? r->learning_rate : c->report.learning_rate;
	c->report.row_tokens = r->row_tokens > 0 ? r->row_tokens : c->report.row_tokens;
	c->report.row_least_s = r->row_least_s > 0 ? r->row_least_s : c->report.row_least_s;
	c->report.device_bytes = r->device_bytes > c->report.device_bytes ? r->device_bytes : c->report.device_bytes;
	pthread_mutex_unlock(&c->lock);
	return WEIR_OK;
}
