/* weir launch: a job whose trainers are other programs. */
#include <stdlib.h>
#include <string.h>

#include "cli/core/verbs.h"
#include "cli/run/launch.h"
#include "cli/run/run_begin.h"
#include "cli/run/run_job.h"
#include "common/base/address.h"

enum { COMMAND_WORDS_MAX = CHILD_ARGUMENTS_MAX - 4 };

/* Cuts the arguments at "--": the words behind it are the trainers' command. */
static weir_status take_command(struct train *t, int *count, char **args, weir_error *err)
{
	int at = 1;
	while (at < *count && strcmp(args[at], "--") != 0)
		at++;
	if (at + 1 >= *count)
		return weir_fail(err, WEIR_E_INVALID,
		                 "needs the trainers' command behind --, as in: weir launch JOB.yaml -- python train.py");
	if (*count - at - 1 > COMMAND_WORDS_MAX)
		return weir_fail(err, WEIR_E_LIMIT, "the trainers' command has %d words; at most %d", *count - at - 1, COMMAND_WORDS_MAX);
	t->command = args + at + 1;
	*count = at;
	return WEIR_OK;
}

static weir_status check_options(const struct train *t, weir_error *err)
{
	if (t->resume && t->fresh)
		return weir_fail(err, WEIR_E_INVALID, "--resume goes on with the earlier run, --fresh deletes it: give one of them");
	if (t->join && (t->resume || t->fresh))
		return weir_fail(err, WEIR_E_INVALID, "%s is for the launch that starts the servers; --join starts none",
		                 t->resume ? "--resume" : "--fresh");
	if (t->join && !t->range)
		return weir_fail(err, WEIR_E_INVALID, "--join needs --ranks FIRST-LAST: the trainers to start here, as in --ranks 4-7");
	if (t->range && t->chaos.seed != CHAOS_OFF)
		return weir_fail(err, WEIR_E_INVALID, "--chaos kills among all trainers of the job: leave out --ranks");
	return WEIR_OK;
}

static weir_status check_job(const struct train *t, weir_error *err)
{
	char program[WEIR_PATH_BYTES_MAX];
	if (!t->job->foreign)
		return weir_fail(err, WEIR_E_INVALID,
		                 "job %s has data or a model, which `weir train` trains: remove both for trainers of your own",
		                 t->job->name);
	return launch_find_program(t, program, err);
}

static weir_status add_server(struct job *job, const char *address, weir_error *err)
{
	if ((strncmp(address, "unix:", 5) != 0 || !address[5]) && address_port(address) <= 0)
		return weir_fail(err, WEIR_E_INVALID, "--join: '%.60s' is no address; expected HOST:PORT or unix:PATH", address);
	if (!job->security.insecure && !*job->security.certificate && !address_is_local(address))
		return weir_fail(err, WEIR_E_INVALID,
		                 "--join: '%.60s' is another machine, and there are no certificates; the job needs security.certificate, "
		                 "key and ca, or security.insecure: true",
		                 address);
	if (job->cluster.servers_at_count == WEIR_SERVERS_MAX)
		return weir_fail(err, WEIR_E_LIMIT, "--join names more than %u servers", WEIR_SERVERS_MAX);
	char *copy = strdup(address);
	if (!copy)
		return weir_fail(err, WEIR_E_MEMORY, "no memory for the servers' addresses");
	job->cluster.servers_at[job->cluster.servers_at_count++] = copy;
	return WEIR_OK;
}

/* Makes the job one whose servers were started by other means, at "A,B". */
static weir_status join_servers(struct job *job, const char *places, weir_error *err)
{
	if (job->cluster.servers_at_count > 0)
		return weir_fail(err, WEIR_E_INVALID, "--join: cluster.servers_at names the servers already: leave out one of the two");
	char *all = strdup(places), *rest = all;
	job->cluster.servers_at = calloc(WEIR_SERVERS_MAX, sizeof *job->cluster.servers_at);
	weir_status status =
	    all && job->cluster.servers_at ? WEIR_OK : weir_fail(err, WEIR_E_MEMORY, "no memory for the servers' addresses");
	for (char *at; status == WEIR_OK && (at = strsep(&rest, ","));)
		status = add_server(job, at, err);
	free(all);
	return status;
}

/* A launch that joins has a folder of its own: the run folder may be shared by all machines. */
static weir_status take_own_folder(struct train *t, weir_error *err)
{
	struct job *job = t->job;
	char folder[sizeof job->run_dir];
	const int n =
	    snprintf(folder, sizeof folder, "%s/ranks-%u-%u", job->run_dir, t->ranks.first, t->ranks.first + t->ranks.count - 1);
	if (n >= (int)sizeof folder)
		return weir_fail(err, WEIR_E_LIMIT, "run_dir is too long for a folder in it: %s", job->run_dir);
	memcpy(job->run_dir, folder, sizeof folder);
	return WEIR_OK;
}

/* Decides which trainers start here, and where the servers are. */
static weir_status take_part(struct train *t, weir_error *err)
{
	struct job *job = t->job;
	weir_status status = t->join ? join_servers(job, t->join, err) : WEIR_OK;
	t->ranks = (struct ranks){.count = job->cluster.workers};
	if (status == WEIR_OK && t->range)
		status = ranks_parse(&t->ranks, t->range, job->cluster.workers, err);
	return status == WEIR_OK && t->range && job->cluster.servers_at_count > 0 ? take_own_folder(t, err) : status;
}

int verb_launch(int count, char **args)
{
	static const struct run_kind kind = {.verb = "launch", .start_workers = launch_commands};
	struct train t = RUN_INIT(&kind);
	const struct option options[] = {
	    JOB_OPTIONS(&t.options),
	    RUN_OPTIONS(t),
	    {"--ranks", OPTION_TEXT, &t.range, "FIRST-LAST",
	     "start only these of the trainers 0 to cluster.workers - 1; launches on other machines start the others"},
	    {"--join", OPTION_TEXT, &t.join, "ADDRESS[,ADDRESS]",
	     "start no servers: they are at ADDRESS, cluster.listen of the launch that starts them"},
	    {"--chaos", OPTION_COUNT, &t.chaos.seed, "SEED", "kill and stop processes at random meanwhile"}};
	const char *word = NULL;
	weir_error *err = &t.failure;
	const bool helps = count == 2 && strcmp(args[1], "--help") == 0;
	t.start_ms = clock_ms(t.clock);
	progress_line_init(&t.progress, stderr, getenv("TERM"));
	weir_status status = helps ? WEIR_OK : take_command(&t, &count, args, err);
	if (status == WEIR_OK)
		status = options_parse(count, args, options, sizeof options / sizeof *options, &word, 1, err);
	if (status == WEIR_OK)
		status = job_options_take(&t.options, word, err);
	if (status == WEIR_OK)
		status = check_options(&t, err);
	if (status == WEIR_OK)
		status = job_options_logger(&t.options, "weir", LOG_WARN, &t.logger, err);
	if (status != WEIR_OK)
		return verb_usage("launch", err);
	status = job_options_load_text(&t.options, &t.job, &t.job_text, err);
	if (status == WEIR_OK)
		status = check_job(&t, err);
	if (status == WEIR_OK)
		status = take_part(&t, err);
	const int code = status == WEIR_OK ? run_job(&t) : verb_fail("launch", err);
	run_destroy(&t);
	return code;
}
