/* weir up, weir down: the servers of a job without workers, for trainers of other programs.
 *
 * One process runs the servers, as `weir train` does: it starts those again that are killed, and
 * they die with it. With --foreground it is this one. Otherwise it is a child in a session of its
 * own; this process waits until the servers answer, prints the ledger's address, and leaves. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/core/verbs.h"
#include "cli/run/job_loop.h"
#include "cli/run/job_servers.h"
#include "cli/run/run_begin.h"
#include "cli/run/run_dir.h"
#include "cli/run/run_end.h"
#include "cli/run/run_job.h"
#include "cli/run/run_pid.h"
#include "common/system/stop_signals.h"
#include "common/web/json.h"

enum {
	DOWN_POLL_MS = 50,
	/* a server may need the whole time of a drain, and then its process some more */
	DOWN_PATIENCE_MS = 2 * WEIR_DRAIN_MS
};

struct up {
	struct train run;
	bool foreground, json;
	uint64_t watch;  /* --watch-fd; UINT64_MAX: not given */
	int announce_fd; /* background: towards the process that waits; -1 */
};

/* --- Telling where the ledger is */

static weir_status print_address(const struct up *u, const char *ledger, weir_error *err)
{
	struct json *j = u->json ? json_create() : NULL;
	if (!u->json) {
		printf("%s\n", ledger);
		return WEIR_OK;
	}
	if (!j)
		return weir_fail(err, WEIR_E_MEMORY, "no memory for the address");
	json_set_text(j, "job", u->run.job->name);
	json_set_text(j, "ledger", ledger);
	json_set_count(j, "servers", u->run.job->cluster.servers);
	json_set_count(j, "pid", (uint64_t)getpid());
	const weir_status status = json_print(j, stdout, err);
	json_destroy(j);
	return status;
}

/* From now on, the terminal is not this process's. */
static weir_status leave_terminal(const struct up *u, weir_error *err)
{
	char path[RUN_PATH_BYTES];
	run_path(u->run.job, "up.log", path);
	const int log = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (log < 0)
		return weir_fail(err, WEIR_E_IO, "cannot write %s: %s", path, strerror(errno));
	const bool moved = dup2(log, STDERR_FILENO) >= 0 && dup2(log, STDOUT_FILENO) >= 0;
	close(log);
	return moved ? WEIR_OK : weir_fail(err, WEIR_E_IO, "cannot write %s: %s", path, strerror(errno));
}

static weir_status announce(struct up *u, weir_error *err)
{
	char ledger[JOB_PLACES_BYTES];
	weir_status status = job_servers_find_ledger(u->run.job, NULL, ledger, err);
	if (status != WEIR_OK)
		return status;
	job_servers_absolute(ledger);
	status = print_address(u, ledger, err);
	if (status == WEIR_OK && fflush(stdout) != 0)
		status = weir_fail(err, WEIR_E_IO, "cannot write stdout: %s", strerror(errno));
	if (status != WEIR_OK || u->announce_fd < 0)
		return status;
	status = leave_terminal(u, err);
	if (status == WEIR_OK && write(u->announce_fd, "", 1) == 1)
		close(u->announce_fd);
	u->announce_fd = -1;
	return status;
}

/* --- Running */

/* The exit status: 0 when the starter has closed its pipe. */
static int end_of(struct up *u)
{
	struct train *t = &u->run;
	if (t->failure.status != WEIR_OK)
		return verb_fail("up", &t->failure);
	return t->stop_signal && u->foreground ? EXIT_BY_SIGNAL(t->stop_signal) : EXIT_SUCCESS;
}

static int serve(struct up *u)
{
	struct train *t = &u->run;
	struct report unused = {0};
	weir_status status = job_options_logger(&t->options, "weir", LOG_WARN, &t->logger, &t->failure);
	if (status == WEIR_OK)
		status = run_start(t, &unused, &t->failure);
	report_destroy(&unused);
	if (status != WEIR_OK)
		return verb_fail("up", &t->failure);
	status = run_pid_write(t->job, &t->failure);
	if (status == WEIR_OK)
		status = announce(u, &t->failure);
	if (status == WEIR_OK)
		job_loop_run(t);
	const bool finished = t->seen_any && t->seen.state == JOB_FINISHED && !t->server_gone;
	if (finished && t->failure.status == WEIR_OK)
		status = run_note_finished(t, true, &t->failure);
	run_stop(t);
	run_pid_remove(t->job);
	return end_of(u);
}

/* Waits until the servers answer. Returns the exit status. */
static int await(int fd, pid_t child)
{
	char byte;
	int end = 0;
	ssize_t n;
	while ((n = read(fd, &byte, 1)) < 0 && errno == EINTR) {
	}
	if (n == 1)
		return EXIT_SUCCESS;
	while (waitpid(child, &end, 0) < 0 && errno == EINTR) {
	}
	return WIFEXITED(end) ? WEXITSTATUS(end) : EXIT_FAILURE; /* it has told why */
}

/* Call before any thread is created. */
static int run_in_background(struct up *u)
{
	int fds[2];
	struct train *t = &u->run;
	if (pipe2(fds, O_CLOEXEC) != 0) {
		weir_fail(&t->failure, WEIR_E_IO, "cannot make a pipe: %s", strerror(errno));
		return verb_fail("up", &t->failure);
	}
	const pid_t child = fork();
	if (child < 0) {
		weir_fail(&t->failure, WEIR_E_IO, "cannot start a process: %s", strerror(errno));
		return verb_fail("up", &t->failure);
	}
	if (child > 0) {
		close(fds[1]);
		const int code = await(fds[0], child);
		close(fds[0]);
		return code;
	}
	close(fds[0]);
	(void)setsid();
	const int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (null >= 0)
		(void)dup2(null, STDIN_FILENO);
	u->announce_fd = fds[1];
	return serve(u);
}

/* Standard input is watched if a program holds its other end. */
static void choose_watch(struct up *u)
{
	struct stat st;
	const bool piped = fstat(STDIN_FILENO, &st) == 0 && (S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode));
	if (u->watch != UINT64_MAX)
		u->run.watch_fd = (int)u->watch;
	else if (piped && strcmp(u->run.options.path, "-") != 0)
		u->run.watch_fd = STDIN_FILENO;
	if (u->run.watch_fd > STDERR_FILENO) /* not for the servers */
		(void)fcntl(u->run.watch_fd, F_SETFD, FD_CLOEXEC);
}

static weir_status check_options(const struct up *u, weir_error *err)
{
	if (u->run.resume && u->run.fresh)
		return weir_fail(err, WEIR_E_INVALID, "--resume goes on with the earlier run, --fresh deletes it: give one of them");
	if (u->watch != UINT64_MAX && !u->foreground)
		return weir_fail(err, WEIR_E_INVALID, "--watch-fd is for --foreground: servers in the background end by `weir down`");
	if (u->watch != UINT64_MAX && (u->watch > INT32_MAX || fcntl((int)u->watch, F_GETFD) < 0))
		return weir_fail(err, WEIR_E_INVALID, "--watch-fd: %llu is no open descriptor", (unsigned long long)u->watch);
	return WEIR_OK;
}

static weir_status check_job(const struct job *job, weir_error *err)
{
	if (job->cluster.servers_at_count == 0)
		return WEIR_OK;
	return weir_fail(err, WEIR_E_INVALID,
	                 "cluster.servers_at names servers that are started by other means: there is nothing to start");
}

int verb_up(int count, char **args)
{
	static const struct run_kind kind = {.verb = "up"};
	struct up u = {.run = RUN_INIT(&kind), .watch = UINT64_MAX, .announce_fd = -1};
	struct train *t = &u.run;
	const struct option options[] = {
	    JOB_OPTIONS(&t->options),
	    {"--json", OPTION_FLAG, &u.json, NULL, "print the ledger's address as JSON"},
	    {"--foreground", OPTION_FLAG, &u.foreground, NULL,
	     "stay, and end the servers with this process, or when the other end of a pipe on stdin closes"},
	    {"--watch-fd", OPTION_COUNT, &u.watch, "N", "watch the inherited pipe N in place of stdin"},
	    {"--http", OPTION_TEXT, &t->http, "[HOST:]PORT",
	     "show the job on a page, and to Prometheus at /metrics; on loopback unless HOST is given"},
	    HTTP_NAME_OPTION(t->http_names),
	    {"--resume", OPTION_FLAG, &t->resume, NULL, "go on with what the servers of the earlier run hold"},
	    {"--fresh", OPTION_FLAG, &t->fresh, NULL, "begin anew: the servers' data of the earlier run are deleted"}};
	const char *word = NULL;
	t->start_ms = clock_ms(t->clock);
	progress_line_init(&t->progress, stderr, getenv("TERM"));
	weir_status status = options_parse(count, args, options, sizeof options / sizeof *options, &word, 1, &t->failure);
	if (status == WEIR_OK)
		status = job_options_take(&t->options, word, &t->failure);
	if (status == WEIR_OK)
		status = check_options(&u, &t->failure);
	if (status != WEIR_OK)
		return verb_usage("up", &t->failure);
	status = job_options_load_text(&t->options, &t->job, &t->job_text, &t->failure);
	if (status == WEIR_OK)
		status = check_job(t->job, &t->failure);
	if (status == WEIR_OK && u.foreground)
		choose_watch(&u);
	const int code = status != WEIR_OK ? verb_fail("up", &t->failure) : u.foreground ? serve(&u) : run_in_background(&u);
	run_destroy(t);
	return code;
}

/* --- weir down */

static weir_status stop(const struct job *job, weir_error *err)
{
	pid_t pid;
	weir_status status = run_pid_read(job, &pid, err);
	if (status != WEIR_OK)
		return status;
	const struct clock *clock = clock_system();
	const int64_t until_ms = clock_ms(clock) + DOWN_PATIENCE_MS;
	if (kill(pid, SIGTERM) != 0 && errno != ESRCH)
		return weir_fail(err, WEIR_E_DENIED, "cannot signal process %ld, which runs the servers: %s", (long)pid, strerror(errno));
	while (run_dir_is_used(job) && clock_ms(clock) < until_ms)
		usleep(DOWN_POLL_MS * 1000);
	if (run_dir_is_used(job))
		return weir_fail(err, WEIR_E_TIMEOUT,
		                 "process %ld and its servers did not end in %d s: see %s/up.log; kill -9 %ld ends them", (long)pid,
		                 DOWN_PATIENCE_MS / 1000, job->run_dir, (long)pid);
	return WEIR_OK;
}

int verb_down(int count, char **args)
{
	struct job_options o = {0};
	struct job *job = NULL;
	weir_error err = {0};
	const char *word = NULL;
	const struct option options[] = {JOB_OPTIONS(&o)};
	weir_status status = options_parse(count, args, options, sizeof options / sizeof *options, &word, 1, &err);
	if (status == WEIR_OK)
		status = job_options_take(&o, word, &err);
	if (status != WEIR_OK)
		return verb_usage("down", &err);
	status = job_options_load(&o, &job, &err);
	if (status == WEIR_OK)
		status = check_job(job, &err);
	if (status == WEIR_OK)
		status = stop(job, &err);
	if (status == WEIR_OK)
		printf("job %s: its servers have ended\n", job->name);
	job_destroy(job);
	return status == WEIR_OK ? EXIT_SUCCESS : verb_fail("down", &err);
}
