/* Starts the trainers of other programs that `weir launch` runs. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/core/ports.h"
#include "cli/run/job_servers.h"
#include "cli/run/launch.h"
#include "cli/run/run_begin.h"
#include "common/system/program.h"

enum {
	SERVERS_ANSWER_MS = 500,  /* for a connection */
	SERVERS_POLL_MS = 250,    /* between two tries */
	SERVERS_WAIT_MS = 600000, /* machines of a cluster start minutes apart */
	SERVERS_LATE_MS = 1000    /* the wait is reported after this time */
};

weir_status launch_find_program(const struct train *t, char out[WEIR_PATH_BYTES_MAX], weir_error *err)
{
	const char *name = t->command[0];
	weir_error why = {0};
	if (!strchr(name, '/')) {
		const weir_status status = program_find(out, WEIR_PATH_BYTES_MAX, name, name, getenv("PATH"), &why);
		return status == WEIR_OK ? WEIR_OK : weir_fail(err, status, "the trainers' program %s is in no folder of PATH", name);
	}
	char *path = realpath(name, NULL);
	if (!path || access(path, X_OK) != 0) {
		free(path);
		return weir_fail(err, WEIR_E_NOT_FOUND, "the trainers' program %s: %s", name, strerror(errno));
	}
	/* not the resolved name: a program may look at its own */
	const int n = name[0] == '/' ? snprintf(out, WEIR_PATH_BYTES_MAX, "%s", name) : -1;
	char cwd[WEIR_PATH_BYTES_MAX];
	const int m = n < 0 && getcwd(cwd, sizeof cwd) ? snprintf(out, WEIR_PATH_BYTES_MAX, "%s/%s", cwd, name) : n;
	free(path);
	return m > 0 && m < (int)WEIR_PATH_BYTES_MAX
	           ? WEIR_OK
	           : weir_fail(err, WEIR_E_LIMIT, "the path of the trainers' program %s is too long", name);
}

/* --- Their environment */

static void set_number(struct child *c, const char *name, uint32_t value)
{
	char number[16];
	snprintf(number, sizeof number, "%u", value);
	child_setting(c, name, number);
}

/* Sets a variable to the absolute path, as a trainer may work in another folder. "" stays "". */
static void set_path(struct child *c, const char *name, const char *path)
{
	char *absolute = *path ? realpath(path, NULL) : NULL;
	child_setting(c, name, absolute ? absolute : path);
	free(absolute);
}

static void describe_job(struct child *c, const struct train *t, uint32_t rank, const char *ledger)
{
	struct job_security security;
	job_security(t->job, ROLE_WORKER, &security);
	child_setting(c, "WEIR_LEDGER", ledger);
	set_path(c, "WEIR_JOB", t->options.path);
	child_setting(c, "WEIR_NAME", c->name);
	set_path(c, "WEIR_CERTIFICATE", security.certificate);
	set_path(c, "WEIR_KEY", security.key);
	set_path(c, "WEIR_CA", security.ca);
	child_setting(c, "WEIR_INSECURE", t->job->security.insecure ? "true" : "false");
	set_number(c, "RANK", rank);
	set_number(c, "LOCAL_RANK", rank - t->ranks.first);
	set_number(c, "WORLD_SIZE", t->job->cluster.workers);
	set_number(c, "LOCAL_WORLD_SIZE", t->ranks.count);
}

/* --- Starting them */

static weir_status start_command(struct train *t, const char *program, uint32_t rank, const char *ledger, weir_error *err)
{
	char name[WEIR_NAME_BYTES_MAX];
	ranks_name(rank, name);
	struct child *c = supervisor_add(t->supervisor, CHILD_TRAINER, name, program, err);
	if (!c)
		return err->status;
	for (char **argument = t->command + 1; *argument; argument++)
		child_argument(c, *argument);
	describe_job(c, t, rank, ledger);
	return child_start(t->supervisor, c, false, err);
}

static bool is_any_there(const char *places)
{
	char *all = strdup(places), *rest = all;
	bool there = false;
	for (char *at; all && !there && (at = strsep(&rest, ","));)
		there = ports_answer(at, SERVERS_ANSWER_MS);
	free(all);
	return there;
}

/* Waits for the servers that another launch starts: a trainer would give up sooner. */
static weir_status await_servers(struct train *t, const char *places, weir_error *err)
{
	const int64_t start_ms = clock_ms(t->clock);
	bool told = false;
	while (!is_any_there(places)) {
		const int64_t waited_ms = clock_ms(t->clock) - start_ms;
		if (waited_ms >= SERVERS_WAIT_MS)
			return weir_fail(err, WEIR_E_TIMEOUT,
			                 "no server answers at %s: start the launch that has the servers, or correct the address", places);
		if (!told && waited_ms >= SERVERS_LATE_MS)
			progress_line_note(&t->progress, "waiting for the servers at %s (at most %d s)", places, SERVERS_WAIT_MS / 1000);
		told = told || waited_ms >= SERVERS_LATE_MS;
		const weir_status status = run_pause(t, SERVERS_POLL_MS, places, err);
		if (status != WEIR_OK)
			return status;
	}
	return WEIR_OK;
}

weir_status launch_commands(struct train *t, weir_error *err)
{
	char program[WEIR_PATH_BYTES_MAX], ledger[JOB_PLACES_BYTES];
	weir_status status = launch_find_program(t, program, err);
	if (status == WEIR_OK)
		status = job_servers_find_ledger(t->job, NULL, ledger, err);
	if (status != WEIR_OK)
		return status;
	job_servers_absolute(ledger);
	if (t->job->cluster.servers_at_count > 0)
		status = await_servers(t, ledger, err);
	for (uint32_t i = 0; i < t->ranks.count && status == WEIR_OK; i++)
		status = start_command(t, program, t->ranks.first + i, ledger, err);
	return status;
}
