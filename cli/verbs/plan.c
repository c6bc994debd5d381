/* weir plan: what a job takes on these machines, and which settings suit them. */
#include <stdlib.h>

#include "cli/core/options.h"
#include "cli/core/verbs.h"
#include "cli/plan/figures_json.h"
#include "cli/probe/probe.h"
#include "cli/profile/rehearsal.h"
#include "cli/verbs/plan_machines.h"
#include "cli/verbs/plan_print.h"

#define KEEP 5u /* plans that are shown */

struct plan_verb {
	struct job_options options;
	bool probe, explain, as_json, all;
	const char *machines_path; /* --machines, or NULL: this machine */
	struct plan_machines machines;
	struct job *job;
	struct logger *logger;
	struct plan_figures figures;
	struct plan_site site;
	struct plan_space space;
	struct plan_found written;
	double bill_samples_per_s; /* of the job as written, without the rehearsal */
	struct plan_result result;
};

static weir_status read_figures(struct plan_verb *v, weir_error *err)
{
	struct json *j = NULL;
	weir_error why = {0};
	weir_status status = json_read_file(v->machines.figures, &j, err);
	if (status == WEIR_OK && (status = figures_from_json(j, &v->figures, &why)) != WEIR_OK)
		weir_fail(err, status, "%s: %s", v->machines.figures, why.text);
	json_destroy(j);
	return status;
}

static weir_status measure(struct plan_verb *v, weir_error *err)
{
	if (v->machines.figures[0])
		return read_figures(v, err);
	struct job *job = NULL; /* the probe's own */
	weir_status status = job_options_load(&v->options, &job, err);
	if (status == WEIR_OK)
		status = probe_measure(job, v->logger, &v->figures, err);
	job_destroy(job);
	return status;
}

static void price_written(struct plan_verb *v)
{
	const struct plan_traffic traffic = plan_traffic_of(&v->figures, &v->written.setting);
	plan_bill_of(&v->figures, &v->site, &v->written.setting, &traffic, true, &v->written.bill);
}

/* Without a rehearsal, the bill alone has to do. */
static void rehearse_written(struct plan_verb *v)
{
	double samples_per_s;
	weir_error err = {0};
	if (rehearse(&v->options, v->job, v->logger, &samples_per_s, &err) != WEIR_OK)
		LOG_AT(v->logger, LOG_WARN, "no rehearsal", "%s", err.text);
	else if (samples_per_s > 0)
		v->site.rehearsed = samples_per_s / v->bill_samples_per_s;
}

static void search(struct plan_verb *v)
{
	v->site = v->machines_path ? plan_machines_site(&v->machines, v->job, &v->figures) : plan_site_of(v->job, &v->figures);
	v->written.setting = plan_as_written(v->job, &v->figures);
	price_written(v);
	v->bill_samples_per_s = v->written.bill.samples_per_s;
	if (!v->machines_path) {
		rehearse_written(v);
		price_written(v);
	}
	plan_space_of(v->job, &v->figures, &v->site, v->all ? PLAN_ALL : PLAN_ASKED, &v->space);
	plan_search(&v->figures, &v->site, &v->space, KEEP, &v->result);
}

static weir_status print_json(const struct plan_verb *v, weir_error *err)
{
	struct json *j = json_create();
	json_set_text(j, "job", v->job->name);
	json_set_object(j, "figures", figures_to_json(&v->figures));
	json_set_object(j, "written", plan_to_json(v->job, &v->figures, &v->written));
	json_set_real(j, "bill_samples_per_s", v->bill_samples_per_s);
	json_set_object(j, "space", plan_space_to_json(&v->figures, &v->space));
	for (uint32_t i = 0; i < v->result.count; i++)
		json_append(j, "plans", plan_to_json(v->job, &v->figures, &v->result.best[i]));
	const weir_status status = json_print(j, stdout, err);
	json_destroy(j);
	return status;
}

static weir_status print_probe(const struct plan_verb *v, weir_error *err)
{
	struct json *j = figures_to_json(&v->figures);
	const weir_status status = json_print(j, stdout, err);
	json_destroy(j);
	return status;
}

static weir_status print(const struct plan_verb *v, weir_error *err)
{
	const struct plan_view view = {.job = v->job,
	                               .figures = &v->figures,
	                               .site = &v->site,
	                               .space = &v->space,
	                               .written = &v->written,
	                               .result = &v->result,
	                               .bill_samples_per_s = v->bill_samples_per_s};
	if (v->as_json)
		return print_json(v, err);
	plan_print(&view, stdout);
	if (v->explain)
		plan_explain(&view, stdout);
	return WEIR_OK;
}

int verb_plan(int count, char **args)
{
	struct plan_verb v = {0};
	const struct option options[] = {
	    JOB_OPTIONS(&v.options),
	    {"--probe", OPTION_FLAG, &v.probe, NULL, "only measure, and print the figures as --machines reads them"},
	    {"--machines", OPTION_TEXT, &v.machines_path, "FILE.yaml",
	     "plan for these machines (docs/PLANNER.md); else for this one"},
	    {"--all", OPTION_FLAG, &v.all, NULL, "choose as if every key that can said auto"},
	    {"--explain", OPTION_FLAG, &v.explain, NULL,
	     "show what each batch takes, the second-best plans, and what would help most"},
	    {"--json", OPTION_FLAG, &v.as_json, NULL, "print all of it as JSON"}};
	const char *word = NULL;
	weir_error err = {0};
	weir_status status = options_parse(count, args, options, sizeof options / sizeof *options, &word, 1, &err);
	if (status == WEIR_OK)
		status = job_options_take(&v.options, word, &err);
	if (status == WEIR_OK)
		status = job_options_logger(&v.options, "weir", LOG_WARN, &v.logger, &err);
	if (status == WEIR_OK && v.probe && v.machines_path)
		status = weir_fail(&err, WEIR_E_INVALID, "--probe measures this machine, --machines describes others: give one of them");
	if (status != WEIR_OK)
		return verb_usage("plan", &err);
	v.options.plans = true;
	status = job_options_load(&v.options, &v.job, &err);
	if (status == WEIR_OK)
		status = job_check_own(v.job, &err);
	if (status == WEIR_OK && v.machines_path)
		status = plan_machines_read(v.machines_path, &v.machines, &err);
	if (status == WEIR_OK)
		status = measure(&v, &err);
	if (status == WEIR_OK && !v.probe)
		search(&v);
	if (status == WEIR_OK)
		status = v.probe ? print_probe(&v, &err) : print(&v, &err);
	job_destroy(v.job);
	logger_destroy(v.logger);
	return status == WEIR_OK ? EXIT_SUCCESS : verb_fail("plan", &err);
}
