/* weir profile: where the time of a job goes. It traces the job's servers and workers, writes one
 * trace of all, and says what stands out. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/core/options.h"
#include "cli/core/verbs.h"
#include "cli/profile/profile_job.h"
#include "cli/profile/profile_report.h"
#include "cli/profile/profile_trace.h"
#include "common/system/disk.h"
#include "common/system/output.h"

#define SECONDS_DEFAULT 10u
#define OUT_DEFAULT     "profile.json"

struct arguments {
	struct job_options job;
	const char *at, *run, *out;
	uint64_t seconds;
	bool json;
};

static bool is_running(const struct arguments *a)
{
	return a->at || a->run;
}

static weir_status check_arguments(const struct arguments *a, weir_error *err)
{
	const uint64_t most = WEIR_TRACE_MS_MAX / 2000;
	if (!a->job.path && !is_running(a))
		return weir_fail(err, WEIR_E_INVALID,
		                 "needs JOB.yaml, which it starts, or --run FOLDER or --at ADDRESS of a running job");
	if (a->at && a->run)
		return weir_fail(err, WEIR_E_INVALID, "--run and --at name the running job: give one of them");
	if (a->seconds < 1 || a->seconds > most)
		return weir_fail(err, WEIR_E_INVALID, "--seconds %llu: expected 1 to %llu", (unsigned long long)a->seconds,
		                 (unsigned long long)most);
	return output_check(a->out, err);
}

/* --- The trace and the report */

static weir_status write_trace(const struct arguments *a, const struct profile *p, const struct profile_place *places,
                               const struct profile_flows *flows, weir_error *err)
{
	struct output o;
	weir_status status = output_begin(&o, a->out, err);
	if (status != WEIR_OK)
		return status;
	status = profile_trace_write(p, places, flows, o.path, err);
	return output_end(&o, status, err);
}

static weir_status tell(const struct arguments *a, const struct profile *p, const struct profile_flows *flows, weir_error *err)
{
	struct profile_report report;
	FILE *out = output_words(a->out);
	weir_status status = profile_report_make(p, flows, &report, err);
	if (status != WEIR_OK)
		return status;
	if (a->json) {
		status = profile_report_json(p, &report, out, err);
	} else {
		profile_report_print(p, &report, out);
		fprintf(out, "\ntrace       %s: open it at https://ui.perfetto.dev\n", output_label(a->out));
	}
	profile_report_destroy(&report);
	return status;
}

static weir_status show(const struct arguments *a, const struct profile *p, weir_error *err)
{
	struct profile_flows flows = {0};
	struct profile_place *places = profile_places(p);
	weir_status status =
	    places ? profile_flows_find(p, places, &flows, err) : weir_fail(err, WEIR_E_MEMORY, "no memory for a profile");
	if (status == WEIR_OK)
		status = write_trace(a, p, places, &flows, err);
	if (status == WEIR_OK)
		status = tell(a, p, &flows, err);
	profile_flows_destroy(&flows);
	free(places);
	return status;
}

static weir_status take(const struct arguments *a, struct profile_asker *asker, weir_error *err)
{
	struct profile p = {0};
	fprintf(stderr, "tracing for %llu s\n", (unsigned long long)a->seconds);
	weir_status status = profile_ask_trace(asker, (uint32_t)a->seconds * 1000, &p, err);
	if (status == WEIR_OK)
		status = show(a, &p, err);
	profile_destroy(&p);
	return status;
}

/* --- A job that this verb starts */

static weir_status run_and_take(const struct arguments *a, struct logger *logger, weir_error *err)
{
	char run_dir[WEIR_PATH_BYTES_MAX];
	struct profile_job *job = NULL;
	struct profile_asker *asker = NULL;
	weir_error ignored = {0};
	snprintf(run_dir, sizeof run_dir, "%.4000s.run", output_words(a->out) == stdout ? a->out : OUT_DEFAULT);
	fprintf(stderr, "starting %s in %s\n", a->job.path, run_dir);
	weir_status status = profile_job_start(&job, &a->job, run_dir, err);
	if (status == WEIR_OK)
		status = profile_job_warm_up(job, logger, &asker, err);
	if (status == WEIR_OK)
		status = take(a, asker, err);
	profile_ask_close(asker);
	const weir_status stopped = profile_job_stop(job, status == WEIR_OK, status == WEIR_OK ? err : &ignored);
	return status == WEIR_OK ? stopped : status;
}

/* --- A running job */

/* The addresses that the run's `weir train` has written down. */
static weir_status read_places(const char *run, char **places, weir_error *err)
{
	char path[WEIR_PATH_BYTES_MAX + 32];
	size_t bytes = 0;
	snprintf(path, sizeof path, "%.4000s/ledger.address", run);
	if (disk_read_file(disk_system(), path, WEIR_CONFIG_BYTES_MAX, places, &bytes, NULL) != WEIR_OK)
		return weir_fail(err, WEIR_E_NOT_FOUND, "%s: no job runs there, as there is no %s", run, path);
	(*places)[strcspn(*places, "\n")] = '\0';
	return WEIR_OK;
}

static weir_status take_running(const struct arguments *a, struct logger *logger, weir_error *err)
{
	struct job *job = NULL;
	struct profile_asker *asker = NULL;
	char *places = NULL;
	weir_status status = a->job.path ? job_options_load(&a->job, &job, err) : WEIR_OK;
	if (status == WEIR_OK && a->run)
		status = read_places(a->run, &places, err);
	if (status == WEIR_OK)
		status = profile_ask_open(&asker, job, places ? places : a->at, logger, err);
	if (status == WEIR_OK)
		status = take(a, asker, err);
	profile_ask_close(asker);
	free(places);
	job_destroy(job);
	return status;
}

int verb_profile(int count, char **args)
{
	struct arguments a = {.out = OUT_DEFAULT, .seconds = SECONDS_DEFAULT};
	struct logger *logger = NULL;
	const char *word = NULL;
	weir_error err = {0};
	const struct option options[] = {
	    JOB_OPTIONS(&a.job),
	    AT_OPTION(a.at),
	    {"--run", OPTION_TEXT, &a.run, "FOLDER", "the folder of a run on this machine: profile that job, do not start one"},
	    {"--seconds", OPTION_COUNT, &a.seconds, "N", "how long to trace (10)"},
	    {"--out", OPTION_TEXT, &a.out, "TRACE.json", "where to write the trace (profile.json)"},
	    {"--json", OPTION_FLAG, &a.json, NULL, "the report as JSON"}};
	weir_status status = options_parse(count, args, options, sizeof options / sizeof *options, &word, 1, &err);
	a.job.path = word ? word : a.job.path;
	if (status == WEIR_OK)
		status = check_arguments(&a, &err);
	if (status == WEIR_OK)
		status = job_options_logger(&a.job, "weir", LOG_ERROR, &logger, &err);
	if (status != WEIR_OK)
		return verb_usage("profile", &err);
	status = is_running(&a) ? take_running(&a, logger, &err) : run_and_take(&a, logger, &err);
	logger_destroy(logger);
	return status == WEIR_OK ? EXIT_SUCCESS : verb_fail("profile", &err);
}
