/* weir launch: a job whose trainers are other programs. */
#include <stdlib.h>
#include <string.h>

#include "cli/core/verbs.h"
#include "cli/run/launch.h"
#include "cli/run/run_begin.h"
#include "cli/run/run_job.h"

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

int verb_launch(int count, char **args)
{
	static const struct run_kind kind = {.verb = "launch", .start_workers = launch_commands};
	struct train t = RUN_INIT(&kind);
	const struct option options[] = {
	    JOB_OPTIONS(&t.options),
	    RUN_OPTIONS(t),
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
	const int code = status == WEIR_OK ? run_job(&t) : verb_fail("launch", err);
	run_free(&t);
	return code;
}
