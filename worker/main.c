/* weir-worker: a trainer or the evaluator of a job, as docs/PROGRAMS.md says. */
#include <getopt.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/job/job.h"
#include "common/metrics/monitor.h"
#include "common/system/program_help.h"
#include "common/system/stop_signals.h"
#include "worker/data/column_facts.h"
#include "worker/train/job/device.h"
#include "worker/train/job/job_fingerprint.h"
#include "worker/train/loop/pace.h"
#include "worker/train/loop/trainer.h"
#include "worker/train/score/evaluator.h"

#define SETS_MAX 256u

struct arguments {
	const char *job, *ledger, *name, *role; /* ledger NULL: by cluster.servers_at */
	const char *http;                       /* NULL: from the job file */
	const char *sets[SETS_MAX];
	uint32_t sets_count;
	const char *accept[WEIR_ACCEPTED_KEYS_MAX];
	size_t accept_count;
	enum log_level level;
	enum log_format format;
};

/* Signal handlers can reach nothing else. */
static atomic_bool stop_requested;

static void on_signal(int number)
{
	(void)number;
	if (atomic_exchange(&stop_requested, true))
		_exit(1);
}

static const char usage[] = "usage: weir-worker --job FILE --name NAME [--ledger ADDRESS,...] [--role trainer|evaluator]\n"
                            "                   [--http [HOST:]PORT] [--set a.b=c]... [--accept KEY]... [--log-level "
                            "debug|info|warn|error] [--log-format human|json]\n";
/* scripts/manual.sh reads it. */
static const char options_help[] =
    "  train a job's work units, or evaluate its passes\n"
    "\n"
    "  --job JOB.yaml           the job file\n"
    "  --name NAME              this worker's name; no other worker of the job has it\n"
    "  --ledger ADDRESS,...     servers to ask for the ledger: HOST:PORT, or unix:PATH (cluster.servers_at)\n"
    "  --role trainer|evaluator what this worker does (trainer)\n"
    "  --http [HOST:]PORT       show metrics at this port, on loopback unless HOST is given (metrics.port)\n"
    "  --set A.B=C              another value for a key of the job file; may be given again and again\n"
    "  --accept KEY             take another value of this key; may be given repeatedly\n"
    "  --log-level LEVEL        debug, info, warn or error (info)\n"
    "  --log-format FORMAT      human or json (human)\n"
    "  --help                   show this text\n"
    "  --version                show the version\n";

static bool parse_option(struct arguments *a, int option)
{
	switch (option) {
	case 'j':
		a->job = optarg;
		return true;
	case 'l':
		a->ledger = optarg;
		return true;
	case 'n':
		a->name = optarg;
		return true;
	case 'r':
		a->role = optarg;
		return strcmp(optarg, "trainer") == 0 || strcmp(optarg, "evaluator") == 0;
	case 'h':
		a->http = optarg;
		return true;
	case 's':
		if (a->sets_count == SETS_MAX)
			return false;
		a->sets[a->sets_count++] = optarg;
		return true;
	case 'a':
		if (a->accept_count == WEIR_ACCEPTED_KEYS_MAX)
			return false;
		a->accept[a->accept_count++] = optarg;
		return true;
	case 'v':
		return log_level_from(optarg, &a->level);
	case 'f':
		a->format = strcmp(optarg, "json") == 0 ? LOG_JSON : LOG_HUMAN;
		return strcmp(optarg, "json") == 0 || strcmp(optarg, "human") == 0;
	default:
		return false;
	}
}

static bool parse_arguments(struct arguments *a, int argc, char **argv)
{
	static const struct option options[] = {
	    {"job", required_argument, NULL, 'j'},       {"ledger", required_argument, NULL, 'l'},
	    {"name", required_argument, NULL, 'n'},      {"role", required_argument, NULL, 'r'},
	    {"set", required_argument, NULL, 's'},       {"accept", required_argument, NULL, 'a'},
	    {"log-level", required_argument, NULL, 'v'}, {"log-format", required_argument, NULL, 'f'},
	    {"http", required_argument, NULL, 'h'},      {NULL, 0, NULL, 0},
	};
	*a = (struct arguments){.role = "trainer", .level = LOG_INFO};
	int option;
	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1)
		if (!parse_option(a, option))
			return false;
	return optind == argc && a->job && a->name != NULL;
}

static bool is_evaluator(const struct arguments *a)
{
	return strcmp(a->role, "evaluator") == 0;
}

/* *out NULL: no pages. */
static weir_status start_monitor(struct monitor **out, const struct arguments *a, const struct job *job, struct metrics *metrics,
                                 struct logger *logger, weir_error *err)
{
	const uint32_t number = is_evaluator(a) ? job->cluster.workers : pace_worker(a->name);
	char address[WEIR_ADDRESS_BYTES_MAX];
	*out = NULL;
	if (a->http)
		snprintf(address, sizeof address, "%s", a->http);
	else if (!job_monitor_address(job, job->cluster.servers + number, address))
		return WEIR_OK;
	const struct monitor_options options = {.address = address,
	                                        .names = {(const char *const *)job->metrics.names, job->metrics.names_count},
	                                        .metrics = metrics,
	                                        .device = true};
	const weir_status status = monitor_start(out, &options, err);
	if (status == WEIR_OK)
		logger_write(logger, LOG_INFO, NULL, "pages", "at=http://%s/metrics", monitor_address(*out));
	return status;
}

static weir_status run(const struct arguments *a, struct job *job, struct metrics *metrics, struct logger *logger,
                       weir_error *err)
{
	const weir_status status = column_facts_settle(job, FACTS_WORK, logger, err);
	if (status != WEIR_OK)
		return status;
	if (is_evaluator(a))
		return evaluator_run(&(struct evaluator_options){.job = job,
		                                                 .accept = a->accept,
		                                                 .accept_count = a->accept_count,
		                                                 .ledger = a->ledger,
		                                                 .name = a->name,
		                                                 .logger = logger,
		                                                 .stop = &stop_requested},
		                     err);
	return trainer_run(&(struct trainer_options){.job = job,
	                                             .accept = a->accept,
	                                             .accept_count = a->accept_count,
	                                             .ledger = a->ledger,
	                                             .name = a->name,
	                                             .logger = logger,
	                                             .metrics = metrics,
	                                             .stop = &stop_requested},
	                   err);
}

int main(int argc, char **argv)
{
	struct arguments a;
	const int helped = program_help(argc, argv, &(struct program_help){"weir-worker", usage, options_help});
	if (helped >= 0)
		return helped;
	if (!parse_arguments(&a, argc, argv)) {
		fputs(usage, stderr);
		return 2;
	}
	stop_signals_handle(on_signal);
	signal(SIGPIPE, SIG_IGN);
	weir_error err = {0};
	struct job *job = NULL;
	weir_status status = fingerprint_check_accepted(a.accept, a.accept_count, &err);
	if (status == WEIR_OK)
		status = job_load(a.job, a.sets, a.sets_count, &job, &err);
	if (status == WEIR_OK)
		status = job_check_own(job, &err);
	if (status == WEIR_OK)
		status = job_check_planned(job, &err);
	if (status != WEIR_OK) {
		fprintf(stderr, "weir-worker: %s\n", err.text);
		job_destroy(job);
		return 2;
	}
	char places[JOB_PLACES_BYTES];
	if (!a.ledger && !job_ledger_places(job, places)) {
		fprintf(stderr, "weir-worker: where the job's servers are is not known: give --ledger, or cluster.servers_at\n");
		job_destroy(job);
		return 2;
	}
	a.ledger = a.ledger ? a.ledger : places;
	device_show(job, is_evaluator(&a) ? job->cluster.workers : pace_worker(a.name));
	struct logger *logger = logger_create(&(struct logger_options){.level = a.level, .format = a.format, .who = a.name});
	struct metrics *metrics = metrics_create();
	struct monitor *monitor = NULL;
	status = logger && metrics ? start_monitor(&monitor, &a, job, metrics, logger, &err)
	                           : weir_fail(&err, WEIR_E_MEMORY, "out of memory");
	if (status == WEIR_OK)
		status = run(&a, job, metrics, logger, &err);
	monitor_stop(monitor);
	metrics_destroy(metrics);
	logger_destroy(logger);
	job_destroy(job);
	if (status == WEIR_OK || (status == WEIR_E_CANCELLED && atomic_load(&stop_requested)))
		return 0;
	fprintf(stderr, "weir-worker %s: %s\n", a.name, err.text[0] != '\0' ? err.text : weir_status_text(status));
	return 1;
}
