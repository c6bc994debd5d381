/* weir status: shows the status of a running job, once or repeatedly. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/core/options.h"
#include "cli/core/progress_line.h"
#include "cli/core/verbs.h"
#include "cli/observe/report.h"
#include "cli/observe/status_http.h"
#include "cli/observe/status_json.h"
#include "cli/run/job_servers.h"
#include "overview/audit.h"

static void print_durable(const struct overview_server *v)
{
	char journal[16], memory[16], budget[16];
	uint64_t wanted = v->hits + v->misses;
	format_bytes(journal, sizeof journal, (double)v->journal_bytes);
	format_bytes(memory, sizeof memory, (double)v->memory_bytes);
	format_bytes(budget, sizeof budget, (double)v->budget_bytes);
	printf("  on disk   recovered in %.1f s (%" PRIu64 " entries), journal %s, %" PRIu64 " entries not flushed%s\n",
	       (double)v->recovery_ms / 1e3, v->replayed_entries, journal, v->flush_lag,
	       v->disk_full ? ", DISK FULL: pushes wait for space" : "");
	if (v->disk_slow)
		printf("  DISK SLOW: a sync of its log takes %" PRIu64 " ms\n", v->sync_ms);
	printf("  memory    %s of %s, %" PRIu64 " rows in it", memory, budget, v->resident_rows);
	if (v->cold_rows)
		printf(", about %" PRIu64 " below", v->cold_rows);
	if (wanted)
		printf(", %.1f %% of those wanted were in it", 100.0 * (double)v->hits / (double)wanted);
	printf("\n");
}

static bool same_replicas(const struct overview_partition *a, const struct overview_partition *b)
{
	return b->reported && a->primary == b->primary && a->in_sync_count == b->in_sync_count &&
	       memcmp(a->in_sync, b->in_sync, a->in_sync_count * sizeof *a->in_sync) == 0;
}

static void print_in_sync(const uint32_t *servers, uint32_t count, uint32_t replicas)
{
	printf("; in sync: server");
	for (uint32_t i = 0; i < count; i++)
		printf("%s %u", i ? "," : "", servers[i]);
	printf("%s\n", count < replicas ? ", which is NOT ALL" : "");
}

/* Prints the partitions that have the same primary and in-sync replicas as partition `first`;
 * nothing if an earlier partition has the same. */
static void print_like(const struct overview *s, uint32_t first)
{
	const struct overview_partition *p = &s->partitions[first];
	for (uint32_t q = 0; q < first; q++)
		if (same_replicas(p, &s->partitions[q]))
			return;
	printf("  primary   of");
	for (uint32_t q = first; q < s->partitions_count; q++)
		if (same_replicas(p, &s->partitions[q]))
			printf(" %u (epoch %" PRIu64 ")", q, s->partitions[q].epoch);
	print_in_sync(p->in_sync, p->in_sync_count, s->replicas);
}

static void print_primary_of(const struct overview *s, uint32_t server)
{
	for (uint32_t p = 0; p < s->partitions_count && s->replicas > 1; p++)
		if (s->partitions[p].reported && s->partitions[p].primary == server)
			print_like(s, p);
}

static void print_replicas(const struct overview *s)
{
	uint32_t whole = 0, orphans = 0;
	for (uint32_t p = 0; p < s->partitions_count; p++) {
		whole += s->partitions[p].reported && s->partitions[p].in_sync_count >= s->replicas;
		orphans += !s->partitions[p].reported;
	}
	if (s->replicas < 2)
		return;
	printf("replicas    %u of %u partitions have all %u in sync", whole, s->partitions_count, s->replicas);
	printf(orphans ? ", %u have no primary that answers\n" : "\n", orphans);
	printf("ledger      on server %u (epoch %" PRIu64 ")", s->ledger.server, s->ledger.epoch);
	print_in_sync(s->ledger.in_sync, s->ledger.in_sync_count, s->replicas);
}

/* Prints the progress of learning. */
static void print_training(const struct overview *s)
{
	char speed[REPORT_SPEED_BYTES];
	report_format_speed(speed, s, s->rows_per_s, s->workers_live);
	if (s->rows_per_s > 0)
		printf("speed       %s\n", speed);
	if (s->gradient_norm > 0)
		printf("gradient    norm %.4g, learning rate %.4g\n", s->gradient_norm, overview_learning_rate(s));
}

static void print_worker(const struct overview_worker *w)
{
	char stall[OVERVIEW_STALL_BYTES];
	printf("%-11s %s on %s, pid %u, %" PRIu64 " rows, %u units held, heard of %.1f s ago%s\n", w->name,
	       w->left        ? "left"
	       : w->live      ? "live"
	       : w->stall.now ? "STALLED"
	                      : "lost",
	       w->host, w->pid, w->rows, w->units_held, (double)w->silent_ms / 1e3, w->evaluator ? " (evaluator)" : "");
	if (overview_is_idle(w))
		printf("  idle      it has held its work for %.1f s without moving%s; after %.1f s others get it\n",
		       (double)w->idle_ms / 1e3, w->waits_for_data ? ", as it waits for data" : "", (double)w->idle_limit_ms / 1e3);
	overview_stall_text(&w->stall, stall);
	if (w->stall.count)
		printf("  stalled   %s%s: its work went to others\n", w->stall.now ? "" : "and came back; before, it ", stall);
}

static void print_figures(const struct figures *f)
{
	for (uint32_t i = 0; i < f->count; i++)
		printf("%s%s %.4f%s", i > 0 ? ", " : "validation  ", f->items[i].name, f->items[i].value, i + 1 < f->count ? "" : "\n");
}

static void print_status(const struct overview *s)
{
	char a[16], b[16];
	if (s->units == 0)
		printf("job         no trainer has joined yet\n");
	else
		printf("job         %s, pass %u of %u, %u of %u units committed%s%s\n", overview_state_name(s->state), s->pass + 1,
		       s->passes, s->committed, s->units, s->failure[0] ? ": " : "", s->failure);
	if (s->lost[0])
		printf("lost        %s\n", s->lost);
	if (s->checkpoint[0])
		printf("generation  %" PRIu64 ", from checkpoint %s%s%s\n", s->generation, s->checkpoint, s->rewound[0] ? ": " : "",
		       s->rewound);
	if (s->checkpoints.failed)
		printf("checkpoints %" PRIu64 " written, %" PRIu64 " failed%s: %s\n", s->checkpoints.written, s->checkpoints.failed,
		       s->checkpoints.failing ? ", the last among them" : "", s->checkpoints.text);
	format_bytes(a, sizeof a, (double)s->bytes_pushed);
	format_bytes(b, sizeof b, (double)s->bytes_pulled);
	printf("trained     %" PRIu64 " rows, pushed %s, pulled %s", s->rows, a, b);
	if (s->evaluated_batches && !s->language)
		printf(", last AUC %.4f, logloss %.4f", s->auc, s->logloss);
	else if (s->evaluated_batches)
		printf(", last loss %.4f", s->logloss);
	if (s->not_numbers)
		printf(", where %" PRIu64 " scores are no numbers", s->not_numbers);
	if (overview_perplexity(s) > 0)
		printf(", perplexity %.4g", overview_perplexity(s));
	printf("\n");
	print_figures(&s->figures);
	print_training(s);
	printf("staleness   p50 %" PRIu64 ", p99 %" PRIu64 ", mean %.2f\n", overview_staleness_quantile(s, 0.5),
	       overview_staleness_quantile(s, 0.99), overview_staleness_mean(s));
	if (s->keys)
		printf("row cache   %.1f %% of %" PRIu64 " rows that batches needed; the others were pulled\n",
		       100 * overview_hit_ratio(s), s->keys);
	if (s->energy_sent < 1)
		printf("feedback    %.1f %% of the gradients' squares go out with a push; norm held back %.3g, lost with workers %.3g\n",
		       100 * s->energy_sent, s->residual_norm, s->residual_lost);
	printf("refused     %" PRIu64 " duplicates, %" PRIu64 " stale, %" PRIu64 " corrupt, %" PRIu64 " not finite\n",
	       s->duplicates_refused, s->stale_refused, s->corrupt_refused, s->nonfinite_refused);
	if (s->batches_not_finite)
		printf("not finite  gradients of %" PRIu64 " batches; the workers' logs name them\n", s->batches_not_finite);
	if (s->loss_scale > 0)
		printf("loss scale  %g; %" PRIu64 " batches were left out to make it smaller\n", s->loss_scale, s->scale_skipped);
	print_replicas(s);
	if (s->scrubs)
		printf("scrubs      %" PRIu64 " comparisons of copies, %" PRIu64 " found that they differ\n", s->scrubs,
		       s->scrubs_differ);
	for (uint32_t i = 0; i < s->servers_count; i++) {
		const struct overview_server *v = &s->servers[i];
		if (v->stuck[0])
			printf("server %-4u %s, pid %u, STUCK: its thread %s has not run for %.1f s\n", i, v->address, v->pid, v->stuck,
			       (double)v->stuck_ms / 1e3);
		else if (v->answered)
			printf("server %-4u %s, pid %u, up %.0f s, %" PRIu64 " partitions, %" PRIu64 " connections%s\n", i, v->address,
			       v->pid, (double)v->uptime_ms / 1e3, v->partitions, v->connections, v->draining ? ", draining" : "");
		else
			printf("server %-4u %s does not answer\n", i, v->address);
		if (v->answered && v->durable)
			print_durable(v);
		print_primary_of(s, i);
	}
	for (uint32_t i = 0; i < s->workers_count; i++)
		print_worker(&s->workers[i]);
	for (uint32_t i = 0; i < s->tables_count; i++) {
		const struct overview_table *t = &s->tables[i];
		format_bytes(a, sizeof a, (double)t->bytes);
		printf("table       %s: %" PRIu64 " rows, %s, %" PRIu64 " pushes, %" PRIu64 " pulls\n", t->name, t->rows, a, t->pushes,
		       t->pulls);
		if (t->push_bytes < t->push_plain_bytes)
			printf("  pushed    as %s, %.3g times smaller than as fp32; staleness p50 %" PRIu64 ", p99 %" PRIu64 "\n",
			       t->push_codec, (double)t->push_plain_bytes / (double)t->push_bytes, counts_quantile(t->staleness, 0.5),
			       counts_quantile(t->staleness, 0.99));
		if (t->pull_bytes < t->pull_plain_bytes)
			printf("  pulled    %.3g times smaller than as fp32\n", (double)t->pull_plain_bytes / (double)t->pull_bytes);
		if (t->rows_stub || t->pushes_unadmitted || t->rows_evicted)
			printf("  keys      %" PRIu64 " counted and not admitted, %" PRIu64 " pushes of rows without effect, %" PRIu64
			       " rows evicted\n",
			       t->rows_stub, t->pushes_unadmitted, t->rows_evicted);
	}
}

struct question {
	const struct job *job; /* NULL: only an address was given */
	const char *at;        /* the ledger's address; NULL: as the job gives it */
	bool as_json;
	struct logger *logger;
};

static weir_status open_poller(const struct question *q, struct status_poller **out, weir_error *err)
{
	char address[JOB_PLACES_BYTES];
	*out = NULL;
	weir_status status = q->at ? WEIR_OK : job_servers_find_ledger(q->job, NULL, address, err);
	return status == WEIR_OK ? status_poller_open(out, q->job, q->at ? q->at : address, q->logger, err) : status;
}

static weir_status open_for_pages(void *question, struct status_poller **out, weir_error *err)
{
	return open_poller(question, out, err);
}

static weir_status show(const struct question *q, struct status_poller *w, enum job_state *state, weir_error *err)
{
	struct overview s = {0};
	weir_status status = status_poller_poll(w, WEIR_CONTROL_TIMEOUT_MS, &s, err);
	if (status == WEIR_OK && q->as_json)
		status = status_json_print(&s, stdout, err);
	else if (status == WEIR_OK)
		print_status(&s);
	*state = s.state;
	overview_destroy(&s);
	return status;
}

static weir_status show_once(const struct question *q, weir_error *err)
{
	struct status_poller *w;
	enum job_state state;
	weir_status status = open_poller(q, &w, err);
	if (status == WEIR_OK)
		status = show(q, w, &state, err);
	status_poller_close(w);
	return status;
}

/* Shows the status until the job has ended or nobody reads the output any more. Reports a failed
 * poll once, and keeps polling. */
static weir_status show_often(const struct question *q, uint64_t every_ms, weir_error *err)
{
	const struct timespec pause = {.tv_sec = (time_t)(every_ms / 1000), .tv_nsec = (long)(every_ms % 1000) * 1000000};
	struct status_poller *w = NULL;
	weir_error said = {0};
	for (;;) {
		enum job_state state = JOB_RUNNING;
		weir_status status = w ? WEIR_OK : open_poller(q, &w, err);
		if (status == WEIR_OK)
			status = show(q, w, &state, err);
		if (status == WEIR_OK && fflush(stdout) != 0)
			status = weir_fail(err, WEIR_E_IO, "standard output: %s", strerror(errno));
		if (state == JOB_FINISHED || state == JOB_FAILED || status == WEIR_E_IO || status == WEIR_E_MEMORY) {
			status_poller_close(w);
			return status;
		}
		if (status != WEIR_OK) {
			if (strcmp(said.text, err->text) != 0)
				fprintf(stderr, "%s\n", err->text);
			said = *err;
			status_poller_close(w);
			w = NULL;
		}
		(void)nanosleep(&pause, NULL);
	}
}

int verb_status(int count, char **args)
{
	struct job_options jo = {0};
	struct question q = {0};
	struct job *job = NULL;
	const char *word = NULL;
	uint64_t every_ms = 0;
	const char *http = NULL;
	struct option_list http_names = {0};
	weir_error err = {0};
	const struct option options[] = {
	    JOB_OPTIONS(&jo),
	    AT_OPTION(q.at),
	    {"--json", OPTION_FLAG, &q.as_json, NULL, "as JSON"},
	    {"--every-ms", OPTION_COUNT, &every_ms, "N", "again each N milliseconds, until stopped"},
	    {"--http", OPTION_TEXT, &http, "[HOST:]PORT",
	     "show it on a page, and to Prometheus at /metrics, until stopped; on loopback unless HOST is given"},
	    HTTP_NAME_OPTION(http_names)};
	weir_status status = options_parse(count, args, options, sizeof options / sizeof *options, &word, 1, &err);
	jo.path = word ? word : jo.path;
	if (status == WEIR_OK && !q.at && !jo.path)
		status = weir_fail(&err, WEIR_E_INVALID, "needs --job FILE or --at ADDRESS");
	if (status == WEIR_OK)
		status = job_options_logger(&jo, "weir", LOG_ERROR, &q.logger, &err);
	if (status != WEIR_OK)
		return verb_usage("status", &err);
	if (jo.path)
		status = job_options_load(&jo, &job, &err);
	q.job = job;
	if (status == WEIR_OK && http)
		status = status_http(
		    &(struct status_http_options){
		        .pages = {.address = http, .names = &http_names, .job = job, .name = job ? job->name : q.at},
		        .open = open_for_pages,
		        .arg = &q},
		    &err);
	else if (status == WEIR_OK)
		status = every_ms ? show_often(&q, every_ms, &err) : show_once(&q, &err);
	job_destroy(job);
	logger_destroy(q.logger);
	return status == WEIR_OK ? EXIT_SUCCESS : verb_fail("status", &err);
}
