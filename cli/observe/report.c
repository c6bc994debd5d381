/* The final report of a training job. */
#include "cli/observe/report.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/core/progress_line.h"
#include "cli/observe/quality_lines.h"
#include "common/web/json.h"
#include "worker/data/quality/quality_json.h"

/* Tells which metrics measure a model's quality. */
enum report_of report_reads(const struct job *job)
{
	return job_is_transformer(job) ? REPORT_TOKENS : job_is_language(job) ? REPORT_TEXT : REPORT_CLICKS;
}

double report_samples_per_s(const struct report *r)
{
	return r->train_s > 0 ? (double)r->train_rows / r->train_s : 0;
}

void report_format_speed(char out[REPORT_SPEED_BYTES], const struct overview *s, double samples_per_s, uint32_t workers)
{
	char samples[16], tokens[16], of_tokens[48] = "", share[24] = "";
	const double mfu = overview_mfu(s, samples_per_s, workers);
	format_count(samples, sizeof samples, samples_per_s);
	format_count(tokens, sizeof tokens, samples_per_s * s->row_tokens);
	if (s->row_tokens)
		snprintf(of_tokens, sizeof of_tokens, " of %" PRIu32 " tokens, %s tokens/s", s->row_tokens, tokens);
	if (mfu > 0)
		snprintf(share, sizeof share, ", MFU %.3g %%", 100 * mfu);
	snprintf(out, REPORT_SPEED_BYTES, "%s samples/s%s%s", samples, of_tokens, share);
}

/* --- Reading the evaluation */

static void read_scores(const struct json *j, const char *part, struct report_scores *out)
{
	const struct json_value *of = json_member(json_root(j), part);
	out->known = json_is_map(of);
	quality_read(of, &out->quality);
}

weir_status report_read_evaluation(struct report *r, const char *path, weir_error *err)
{
	struct json *j = NULL;
	weir_status status = json_read_file(path, &j, err);
	if (status != WEIR_OK)
		return status;
	uint64_t best = 0;
	read_scores(j, "valid", &r->valid);
	read_scores(j, "test", &r->test);
	if (json_get_count(j, "best_pass", &best))
		r->weights_pass = (uint32_t)best;
	const char *chosen_by = json_get_text(j, "chosen_by");
	snprintf(r->chosen_by, sizeof r->chosen_by, "%s", chosen_by ? chosen_by : "last");
	size_t count = json_list_length(j, "passes");
	r->passes = calloc(count + 1, sizeof *r->passes);
	if (!r->passes) {
		json_destroy(j);
		return weir_fail(err, WEIR_E_MEMORY, "no memory for %zu passes", count);
	}
	r->passes_count = (uint32_t)count;
	for (size_t i = 0; i < count; i++) {
		struct json *item = json_list_get(j, "passes", i);
		uint64_t pass = i + 1;
		for (enum quality_figure f = 0; f < QUALITY_FIGURES; f++) {
			r->passes[i].figures[f] = NAN;
			if (item)
				json_get_real(item, quality_figure_names[f], &r->passes[i].figures[f]);
		}
		if (item) {
			json_get_count(item, "pass", &pass);
			json_get_count(item, "not_numbers", &r->passes[i].not_numbers);
		}
		r->passes[i].pass = (uint32_t)pass;
		json_destroy(item);
	}
	json_destroy(j);
	return WEIR_OK;
}

void report_destroy(struct report *r)
{
	free(r->passes);
	r->passes = NULL;
	r->passes_count = 0;
}

/* --- For people */

double report_bits(double nats)
{
	return nats / log(2);
}

/* Formats ", 10 of them no numbers". */
static const char *not_numbers_text(char out[64], uint64_t count)
{
	*out = '\0';
	if (count > 0)
		snprintf(out, 64, ", the scores of %" PRIu64 " are no numbers", count);
	return out;
}

static void print_scores(FILE *out, const struct report *r, const char *part, const struct report_scores *s)
{
	char bad[64];
	const struct quality *q = &s->quality;
	not_numbers_text(bad, q->not_numbers);
	if (!s->known)
		return;
	if (r->of == REPORT_TOKENS) {
		fprintf(out, "  %-11s loss %.4f nats a token   perplexity %.4f   (%" PRIu64 " tokens%s)\n", part, q->logloss,
		        exp(q->logloss), q->rows, bad);
	} else if (r->of == REPORT_TEXT) {
		fprintf(out, "  %-11s loss %.4f nats a byte   %.4f bits a byte   (%" PRIu64 " bytes%s)\n", part, q->logloss,
		        report_bits(q->logloss), q->rows, bad);
	} else {
		fprintf(out, "  %-11s ", part);
		quality_print_main(out, "   ", q);
		fprintf(out, "   (%" PRIu64 " rows%s)\n", q->rows, bad);
		quality_print_more(out, "              ", q);
	}
}

bool report_is_chosen(const struct report *r)
{
	return r->weights_pass && strcmp(r->chosen_by, "last") != 0;
}

static void print_passes(FILE *out, const struct report *r)
{
	char bad[64];
	for (uint32_t i = 0; i < r->passes_count; i++) {
		const struct report_pass *p = &r->passes[i];
		fprintf(out, "  %-11s pass %u: ", i == 0 ? "passes" : "", p->pass);
		if (r->of != REPORT_CLICKS || r->valid.quality.items > 0)
			fprintf(out, "loss %.4f", p->figures[FIGURE_LOGLOSS]);
		else
			fprintf(out, "AUC %.4f   logloss %.4f", p->figures[FIGURE_AUC], p->figures[FIGURE_LOGLOSS]);
		fprintf(out, "%s%s\n", not_numbers_text(bad, p->not_numbers),
		        p->pass == r->weights_pass && report_is_chosen(r) ? "   best" : "");
	}
}

/* The figure that chose the pass, as a sentence names it. */
static const char *chosen_by_text(const struct report *r)
{
	static const struct {
		const char *name, *text;
	} figures[] = {{"auc", "AUC"}, {"pr_auc", "PR-AUC"}, {"gauc", "GAUC"}, {"ndcg", "NDCG"}, {"hit_rate", "hit rate"}};
	for (size_t i = 0; i < sizeof figures / sizeof *figures; i++)
		if (strcmp(r->chosen_by, figures[i].name) == 0)
			return figures[i].text;
	return r->of == REPORT_CLICKS ? r->chosen_by : "loss";
}

/* Prints which weights are kept, and why. */
static void print_weights(FILE *out, const struct report *r)
{
	const struct job *job = r->of_job;
	char why[96] = "the last";
	if (!r->weights_pass)
		return;
	const bool by_loss = strcmp(r->chosen_by, "logloss") == 0;
	if (report_is_chosen(r) && by_loss && job_best_by(job) == METRIC_AUC)
		snprintf(why, sizeof why, "the best by its logloss, as the validation part has one class only and so no AUC");
	else if (report_is_chosen(r) && by_loss && job_best_by(job) != METRIC_LOGLOSS)
		snprintf(why, sizeof why, "the best by its logloss, as the figure of train.best_by is undefined");
	else if (report_is_chosen(r))
		snprintf(why, sizeof why, "the best by its %s", chosen_by_text(r));
	else if (!job_has_valid(job))
		snprintf(why, sizeof why, "the last, as the job has no validation part to choose by");
	else if (job->train.keep_best && r->valid.quality.rows == 0)
		snprintf(why, sizeof why, "the last, as the validation part has no rows");
	else if (job->train.keep_best)
		snprintf(why, sizeof why, "the last, as no pass had figures that are numbers");
	fprintf(out, "  %-11s of pass %u, %s: %s\n", "weights", r->weights_pass, why, r->weights);
}

/* Prints the known properties of generated data. */
static void print_planted(FILE *out, const struct report *r)
{
	fprintf(out, "  %-11s AUC %.4f   logloss %.4f   (what the synthetic model itself reaches on the test part)\n", "best",
	        r->bayes_auc, r->bayes_logloss);
	fprintf(out, "  %-11s %" PRIu64 " rows, %" PRIu64 " distinct ids in them, of %" PRIu64 " in the model\n", "data",
	        r->data_rows, r->ids_seen, r->ids_planted);
}

static void print_audit(FILE *out, const struct report *r)
{
	const struct audit *a = &r->audit;
	if (!r->finished) {
		fprintf(out, "  %-11s not made: the job did not finish\n", "audit");
		return;
	}
	fprintf(out,
	        "  %-11s %s: %" PRIu64 " parts expected, %" PRIu64 " applied, %" PRIu64 " missing, %" PRIu64 " double, %" PRIu64
	        " dropped\n",
	        "audit", a->ok ? "every push applied exactly once" : "FAILED", a->parts_expected, a->applied, a->missing, a->doubled,
	        a->dropped);
	if (a->replicas_compared)
		fprintf(out, "  %-11s %u partitions compared, %u differ\n", "replicas", a->replicas_compared, a->replicas_differ);
	if (r->end->units_quarantined)
		fprintf(out, "  %-11s %" PRIu64 " units were given up; %" PRIu64 " parts of them had been applied\n", "skipped",
		        r->end->units_quarantined, a->skipped);
	if (!a->ok)
		fprintf(out, "  %-11s %s\n", "", a->text);
}

/* Prints the speed of this run, without the runs that it continues. */
static void print_speed(FILE *out, const struct report *r)
{
	char speed[REPORT_SPEED_BYTES];
	report_format_speed(speed, r->end, report_samples_per_s(r), r->workers);
	if (r->run_rows == 0)
		fprintf(out, "  %-11s this run trained no rows, in %.1f s\n", "speed", r->wall_s);
	else
		fprintf(out, "  %-11s %s, %" PRIu64 " rows, %.1f s of training in %.1f s\n", "speed", speed, r->run_rows, r->train_s,
		        r->wall_s);
}

static void print_energy(FILE *out, const struct report *r)
{
	const struct energy_used *e = &r->energy.used;
	const char *of = !e->of_gpu ? "processors" : e->of_cpu ? "processors and GPUs" : "GPUs";
	if (!e->of_cpu && !e->of_gpu)
		return;
	fprintf(out, "  %-11s %.4g kJ of this machine's %s", "energy", (e->cpu + e->gpu) / 1e3, of);
	if (r->energy.rows)
		fprintf(out, ", %.3g J a sample", (e->cpu + e->gpu) / (double)r->energy.rows);
	fputc('\n', out);
}

static void print_chaos(FILE *out, const struct report *r)
{
	const struct chaos *c = r->chaos;
	fprintf(out,
	        "  %-11s seed %" PRIu64 ": %" PRIu64 " servers killed, %" PRIu64 " stopped for a while; %" PRIu64
	        " workers killed, %" PRIu64 " stopped\n",
	        "chaos", c->seed, c->count[CHAOS_SERVER][CHAOS_KILL], c->count[CHAOS_SERVER][CHAOS_PAUSE],
	        c->count[CHAOS_WORKER][CHAOS_KILL], c->count[CHAOS_WORKER][CHAOS_PAUSE]);
}

struct table_bytes {
	uint64_t bytes, plain;
};

static struct table_bytes pushes_of(const struct overview_table *t)
{
	return (struct table_bytes){t->push_bytes, t->push_plain_bytes};
}

static struct table_bytes pulls_of(const struct overview_table *t)
{
	return (struct table_bytes){t->pull_bytes, t->pull_plain_bytes};
}

/* Prints the tables for which some data took fewer bytes than fp32. */
static void print_compression(FILE *out, const struct overview *s, const char *what,
                              struct table_bytes (*of)(const struct overview_table *))
{
	const char *before = "  compressed  ";
	for (uint32_t i = 0; i < s->tables_count; i++) {
		const struct table_bytes b = of(&s->tables[i]);
		if (!b.bytes || b.bytes >= b.plain)
			continue;
		fprintf(out, "%s%s %.3g", before, s->tables[i].name, (double)b.plain / (double)b.bytes);
		before = ", ";
	}
	if (*before == ',')
		fprintf(out, " times smaller than fp32 (%s)\n", what);
}

static void print_feedback(FILE *out, const struct overview *s)
{
	if (s->energy_sent < 1)
		fprintf(out,
		        "  %-11s %.1f %% of what was to be sent (squares of gradients), with a push; norm of what was lost with workers "
		        "%.3g\n",
		        "feedback", 100 * s->energy_sent, s->residual_lost);
}

static void print_staleness(FILE *out, const struct overview *s)
{
	fprintf(out, "  %-11s p50 %" PRIu64 "   p99 %" PRIu64 "   mean %.2f\n", "staleness", overview_staleness_quantile(s, 0.5),
	        overview_staleness_quantile(s, 0.99), overview_staleness_mean(s));
	for (uint32_t i = 0; i < s->workers_count; i++) {
		const struct overview_worker *w = &s->workers[i];
		if (counts_mean(w->staleness) > 0)
			fprintf(out, "  %-11s p50 %" PRIu64 "   p99 %" PRIu64 "   mean %.2f   (%s)\n", "", counts_quantile(w->staleness, 0.5),
			        counts_quantile(w->staleness, 0.99), counts_mean(w->staleness), w->name);
	}
}

static void print_stall(FILE *out, const struct overview_worker *w)
{
	char text[OVERVIEW_STALL_BYTES];
	if (!w->stall.count)
		return;
	overview_stall_text(&w->stall, text);
	fprintf(out, "  %-11s %s (pid %u on %s), %u time%s: it %s\n", "stalled", w->name, w->pid, w->host, w->stall.count,
	        w->stall.count == 1 ? "" : "s", text);
}

void report_print(const struct report *r, FILE *out)
{
	char pushed[16], pulled[16];
	const struct overview *s = r->end;
	format_bytes(pushed, sizeof pushed, (double)s->bytes_pushed);
	format_bytes(pulled, sizeof pulled, (double)s->bytes_pulled);
	fprintf(out, "\n%s: %s, %s\n", r->job, r->model,
	        r->was_finished ? "already finished"
	        : r->finished   ? "finished"
	                        : "NOT FINISHED");
	print_scores(out, r, "test", &r->test);
	print_scores(out, r, "valid", &r->valid);
	if (r->generated)
		print_planted(out, r);
	print_passes(out, r);
	print_weights(out, r);
	print_speed(out, r);
	print_energy(out, r);
	fprintf(out, "  %-11s pushed %s, pulled %s\n", "bytes", pushed, pulled);
	if (s->keys)
		fprintf(out, "  %-11s %.1f %% of %" PRIu64 " rows that batches needed; the others were pulled\n", "row cache",
		        100 * overview_hit_ratio(s), s->keys);
	if (s->gradient_norm > 0)
		fprintf(out, "  %-11s norm %.4g, learning rate %.4g, at last\n", "gradient", s->gradient_norm, overview_learning_rate(s));
	print_compression(out, s, "pushes", pushes_of);
	print_compression(out, s, "pulls", pulls_of);
	print_feedback(out, s);
	print_staleness(out, s);
	print_audit(out, r);
	if (s->checkpoints.failed)
		fprintf(out, "  %-11s %" PRIu64 " written, %" PRIu64 " FAILED%s: %s\n", "checkpoints", s->checkpoints.written,
		        s->checkpoints.failed, s->checkpoints.failing ? ", the last among them" : "", s->checkpoints.text);
	if (r->workers_lost || r->servers_lost || s->leases_expired)
		fprintf(out, "  %-11s %" PRIu64 " workers, %" PRIu64 " servers; %" PRIu64 " leases expired; %" PRIu64 " batches redone\n",
		        "lost", r->workers_lost, r->servers_lost, s->leases_expired, s->redone_batches);
	for (uint32_t i = 0; i < s->workers_count; i++)
		print_stall(out, &s->workers[i]);
	if (r->servers_silent)
		fprintf(out,
		        "  %-11s %" PRIu64 " times a server lived and answered nothing for %u s or was stuck; the lines above name it\n",
		        "silent", r->servers_silent, WEIR_DEAD_PEER_MS / 1000);
	if (r->partitions_moved)
		fprintf(out, "  %-11s %" PRIu64 " times a partition went to another server\n", "moved", r->partitions_moved);
	if (r->rewinds)
		fprintf(out, "  %-11s %" PRIu64 " times the job went back to a checkpoint; %" PRIu64 " batches were undone\n", "rewound",
		        r->rewinds, r->batches_undone);
	if (r->chaos)
		print_chaos(out, r);
	if (s->batches_not_finite)
		fprintf(out, "  %-11s gradients of %" PRIu64 " batches (train.not_finite); the workers' logs name them\n", "not finite",
		        s->batches_not_finite);
	if (s->loss_scale > 0)
		fprintf(out, "  %-11s %g at last; %" PRIu64 " batches were left out to make it smaller\n", "loss scale", s->loss_scale,
		        s->scale_skipped);
	if (r->bad_lines)
		fprintf(out, "  %-11s %" PRIu64 " were left out; the workers' logs show the first ones\n", "bad lines", r->bad_lines);
}
