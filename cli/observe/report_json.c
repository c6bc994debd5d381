/* The final report of a training job as JSON. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/core/output_inputs.h"
#include "cli/core/overview_json.h"
#include "cli/observe/report.h"
#include "common/system/output.h"
#include "worker/data/quality/quality_json.h"

void report_put_quality(struct json *j, enum report_of of, double auc, double logloss)
{
	if (of == REPORT_CLICKS) {
		json_set_real(j, "auc", auc);
		json_set_real(j, "logloss", logloss);
	} else {
		json_set_real(j, "loss", logloss);
		json_set_real(j, of == REPORT_TOKENS ? "perplexity" : "bits_per_byte",
		              of == REPORT_TOKENS ? exp(logloss) : report_bits(logloss));
	}
}

void report_put_energy(struct json *j, const struct run_energy *e)
{
	const struct energy_used *u = &e->used;
	if (!u->of_cpu && !u->of_gpu)
		return;
	json_set_real(j, "energy.joules", u->cpu + u->gpu);
	if (u->of_cpu)
		json_set_real(j, "energy.cpu_joules", u->cpu);
	if (u->of_gpu)
		json_set_real(j, "energy.gpu_joules", u->gpu);
	if (e->rows)
		json_set_real(j, "energy.joules_per_sample", (u->cpu + u->gpu) / (double)e->rows);
}

static void put_scores(struct json *j, const struct report *r, const char *part, const struct report_scores *s)
{
	if (!s->known)
		return;
	struct json *of = json_create();
	if (of && r->of == REPORT_CLICKS) {
		quality_put(of, &s->quality);
	} else if (of) {
		report_put_quality(of, r->of, NAN, s->quality.logloss);
		json_set_count(of, "rows", s->quality.rows);
		json_set_count(of, "not_numbers", s->quality.not_numbers);
	}
	json_set_object(j, part, of);
}

static void put_point(struct json *j, const struct curve_point *p)
{
	json_set_real(j, "seconds", p->seconds);
	json_set_count(j, "rows", p->rows);
	json_set_count(j, "bytes_pushed", p->bytes_pushed);
	json_set_count(j, "bytes_pulled", p->bytes_pulled);
}

static void put_passes(struct json *j, const struct report *r)
{
	json_set_empty_list(j, "passes");
	for (uint32_t i = 0; i < r->passes_count; i++) {
		struct json *item = json_create();
		json_set_count(item, "pass", r->passes[i].pass);
		report_put_quality(item, r->of, r->passes[i].figures[FIGURE_AUC], r->passes[i].figures[FIGURE_LOGLOSS]);
		for (enum quality_figure f = FIGURE_PR_AUC; f < QUALITY_FIGURES; f++)
			if (isfinite(r->passes[i].figures[f]))
				json_set_real(item, quality_figure_names[f], r->passes[i].figures[f]);
		json_set_count(item, "not_numbers", r->passes[i].not_numbers);
		const struct curve_point *p = r->curve ? curve_find(r->curve, r->passes[i].pass) : NULL;
		if (p)
			put_point(item, p);
		json_append(j, "passes", item);
	}
	if (report_is_chosen(r))
		json_set_count(j, "best_pass", r->weights_pass);
	if (r->weights_pass) {
		json_set_count(j, "weights_pass", r->weights_pass);
		json_set_text(j, "chosen_by", r->chosen_by);
	}
}

static void put_audit(struct json *j, const struct report *r)
{
	json_set_count(j, "audit.parts_expected", r->audit.parts_expected);
	json_set_count(j, "audit.applied", r->audit.applied);
	json_set_count(j, "audit.missing", r->audit.missing);
	json_set_count(j, "audit.double", r->audit.doubled);
	json_set_count(j, "audit.dropped", r->audit.dropped);
	json_set_count(j, "audit.skipped", r->audit.skipped);
	json_set_count(j, "audit.replicas_compared", r->audit.replicas_compared);
	json_set_count(j, "audit.replicas_differ", r->audit.replicas_differ);
	json_set_bool(j, "audit.ok", r->finished && r->audit.ok);
}

static void put_chaos(struct json *j, const struct chaos *c)
{
	json_set_count(j, "chaos.seed", c->seed);
	json_set_count(j, "chaos.servers_killed", c->count[CHAOS_SERVER][CHAOS_KILL]);
	json_set_count(j, "chaos.servers_stopped", c->count[CHAOS_SERVER][CHAOS_PAUSE]);
	json_set_count(j, "chaos.workers_killed", c->count[CHAOS_WORKER][CHAOS_KILL]);
	json_set_count(j, "chaos.workers_stopped", c->count[CHAOS_WORKER][CHAOS_PAUSE]);
}

/* Writes the workers that ever stalled, including the evaluator. */
static void put_stalled(struct json *j, const struct overview *s)
{
	json_set_count(j, "workers_stalled", s->workers_stalled);
	json_set_empty_list(j, "stalled");
	for (uint32_t i = 0; i < s->workers_count; i++) {
		if (!s->workers[i].stall.count)
			continue;
		struct json *item = json_create();
		json_set_text(item, "name", s->workers[i].name);
		overview_put_stall(item, &s->workers[i]);
		json_append(j, "stalled", item);
	}
}

static void put_overview(struct json *j, const struct overview *s)
{
	overview_put_totals(j, s);
	json_set_empty_list(j, "tables");
	for (uint32_t i = 0; i < s->tables_count; i++) {
		struct json *item = json_create();
		overview_put_table(item, &s->tables[i]);
		json_append(j, "tables", item);
	}
	json_set_empty_list(j, "workers");
	for (uint32_t i = 0; i < s->workers_count; i++) {
		if (s->workers[i].evaluator)
			continue;
		struct json *item = json_create();
		overview_put_worker(item, &s->workers[i]);
		json_append(j, "workers", item);
	}
	put_stalled(j, s);
}

weir_status report_check_path(const char *path, const struct job *job, const char *job_path, weir_error *err)
{
	weir_error why = {0};
	weir_status status = output_check(path, &why);
	if (status == WEIR_OK)
		status = output_spares_job(path, job, job_path, &why);
	return status == WEIR_OK ? WEIR_OK : weir_fail(err, status, "--report: %s", why.text);
}

weir_status report_write(const struct report *r, const char *path, weir_error *err)
{
	struct json *j = json_create();
	if (!j)
		return weir_fail(err, WEIR_E_MEMORY, "no memory for the report");
	json_set_text(j, "job", r->job);
	json_set_text(j, "model", r->model);
	if (r->network_bits_per_s || r->network_latency_ms) {
		json_set_count(j, "network.rate_bits_per_s", r->network_bits_per_s);
		json_set_count(j, "network.latency_ms", r->network_latency_ms);
	}
	json_set_bool(j, "finished", r->finished);
	for (size_t i = 0; r->accepted && i < json_list_length(r->accepted, "accepted"); i++)
		json_append(j, "accepted", json_list_get(r->accepted, "accepted", i));
	put_scores(j, r, "test", &r->test);
	put_scores(j, r, "valid", &r->valid);
	put_passes(j, r);
	overview_put_speed(j, r->end, report_samples_per_s(r), r->workers);
	json_set_real(j, "wall_s", r->wall_s);
	json_set_real(j, "train_s", r->train_s);
	report_put_energy(j, &r->energy);
	put_overview(j, r->end);
	put_audit(j, r);
	json_set_count(j, "bad_lines", r->bad_lines);
	json_set_count(j, "workers_lost", r->workers_lost);
	json_set_count(j, "servers_lost", r->servers_lost);
	json_set_count(j, "servers_silent", r->servers_silent);
	json_set_count(j, "redone_batches", r->end->redone_batches);
	json_set_count(j, "partitions_moved", r->partitions_moved);
	json_set_count(j, "rewinds", r->rewinds);
	json_set_count(j, "batches_undone", r->batches_undone);
	if (r->chaos)
		put_chaos(j, r->chaos);
	if (r->generated) {
		json_set_real(j, "data.bayes_auc", r->bayes_auc);
		json_set_real(j, "data.bayes_logloss", r->bayes_logloss);
		json_set_count(j, "data.rows", r->data_rows);
		json_set_count(j, "data.ids_planted", r->ids_planted);
		json_set_count(j, "data.ids_seen", r->ids_seen);
	}
	struct output output;
	weir_status status = output_begin(&output, path, err);
	if (status == WEIR_OK)
		status = output_end(&output, json_write_file(j, output.path, err), err);
	json_destroy(j);
	return status;
}
