/* Starts, monitors and ends child processes. */
#include "cli/core/supervise.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli/core/progress_line.h"
#include "common/system/disk.h"

struct supervisor {
	char program_dir[WEIR_PATH_BYTES_MAX], run_dir[WEIR_PATH_BYTES_MAX];
	const struct clock *clock;
	struct child **children; /* (count) */
	uint32_t count;
};

enum {
	OTHERS = 3 /* evaluator, importer, etcd */,
	CHILDREN_MAX = WEIR_SERVERS_MAX + WEIR_WORKERS_MAX + OTHERS,
	LOG_TAIL_BYTES = 4096,
	POLL_MS = 20
};

weir_status supervisor_own_dir(char *out, size_t bytes, weir_error *err)
{
	ssize_t n = readlink("/proc/self/exe", out, bytes - 1);
	if (n <= 0)
		return weir_fail(err, WEIR_E_IO, "cannot read /proc/self/exe: %s", strerror(errno));
	out[n] = '\0';
	*strrchr(out, '/') = '\0';
	return WEIR_OK;
}

weir_status supervisor_create(struct supervisor **out, const char *program_dir, const char *run_dir, const struct clock *clock,
                              weir_error *err)
{
	struct supervisor *s = calloc(1, sizeof *s);
	if (!s || !(s->children = calloc(CHILDREN_MAX, sizeof *s->children))) {
		free(s);
		return weir_fail(err, WEIR_E_MEMORY, "no memory for a supervisor");
	}
	snprintf(s->program_dir, sizeof s->program_dir, "%s", program_dir);
	snprintf(s->run_dir, sizeof s->run_dir, "%s", run_dir);
	s->clock = clock;
	*out = s;
	return WEIR_OK;
}

void child_argument(struct child *c, const char *text)
{
	assert(c->arguments_count + 1 < CHILD_ARGUMENTS_MAX);
	c->arguments[c->arguments_count] = strdup(text);
	assert(c->arguments[c->arguments_count]);
	c->arguments_count++;
}

void child_setting(struct child *c, const char *name, const char *value)
{
	assert(c->settings_count < CHILD_SETTINGS_MAX);
	if (asprintf(&c->settings[c->settings_count], "%s=%s", name, value) < 0)
		c->settings[c->settings_count] = NULL;
	assert(c->settings[c->settings_count]);
	c->settings_count++;
}

static bool is_set(const struct child *c, const char *variable)
{
	const size_t name = strcspn(variable, "=") + 1;
	for (uint32_t i = 0; i < c->settings_count; i++)
		if (strncmp(c->settings[i], variable, name) == 0)
			return true;
	return false;
}

/* This process's environment with the child's settings, in malloc'ed memory; the texts are
 * borrowed. */
static char **environment_of(const struct child *c)
{
	size_t count = 0, used = 0;
	while (environ[count])
		count++;
	char **all = calloc(count + c->settings_count + 1, sizeof *all);
	for (size_t i = 0; all && i < count; i++)
		if (!is_set(c, environ[i]))
			all[used++] = environ[i];
	for (uint32_t i = 0; all && i < c->settings_count; i++)
		all[used++] = c->settings[i];
	return all;
}

static void join_path(char out[WEIR_PATH_BYTES_MAX], const char *dir, const char *name, const char *suffix)
{
	size_t dir_bytes = strnlen(dir, WEIR_PATH_BYTES_MAX / 2);
	snprintf(out, WEIR_PATH_BYTES_MAX, "%.*s/%.*s%s", (int)dir_bytes, dir, (int)WEIR_NAME_BYTES_MAX, name, suffix);
}

struct child *supervisor_add(struct supervisor *s, enum child_role role, const char *name, const char *program, weir_error *err)
{
	char path[WEIR_PATH_BYTES_MAX];
	if (program[0] == '/')
		snprintf(path, sizeof path, "%s", program);
	else
		join_path(path, s->program_dir, program, "");
	if (access(path, X_OK) != 0) {
		weir_fail(err, WEIR_E_NOT_FOUND, "there is no program %s: %s; build it with `make`", path, strerror(errno));
		return NULL;
	}
	struct child *c = s->count < CHILDREN_MAX ? calloc(1, sizeof *c) : NULL;
	if (!c) {
		weir_fail(err, WEIR_E_LIMIT, "no room for one more process: %s", name);
		return NULL;
	}
	c->role = role;
	c->ready_fd = -1;
	snprintf(c->name, sizeof c->name, "%s", name);
	join_path(c->log_path, s->run_dir, name, ".log");
	child_argument(c, path);
	s->children[s->count++] = c;
	return c;
}

/* Runs in the child between fork and exec: only async-signal-safe calls. Returns only on
 * failure. */
static void become(char *const *arguments, char *const *environment, int log_fd, pid_t parent)
{
	sigset_t none;
	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent) /* the parent died before prctl took effect */
		_exit(127);
	int null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (null_fd < 0 || dup2(null_fd, STDIN_FILENO) < 0 || dup2(log_fd, STDOUT_FILENO) < 0 || dup2(log_fd, STDERR_FILENO) < 0)
		_exit(127);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	execve(arguments[0], arguments, environment);
	_exit(127);
}

weir_status child_start(struct supervisor *s, struct child *c, bool ready, weir_error *err)
{
	int pipe_fds[2] = {-1, -1};
	char flag[] = "--ready-fd", number[16] = "";
	char *arguments[CHILD_ARGUMENTS_MAX + 2];
	memcpy(arguments, c->arguments, sizeof(char *) * (c->arguments_count + 1u));
	/* A restarted child appends to its log: the end of the previous log explains the restart. */
	int log_fd = open(c->log_path, O_WRONLY | O_CREAT | O_CLOEXEC | O_APPEND | (c->last_pid ? 0 : O_TRUNC), 0600);
	if (log_fd < 0)
		return weir_fail(err, WEIR_E_IO, "cannot write %s: %s", c->log_path, strerror(errno));
	if (ready) {
		if (pipe2(pipe_fds, O_CLOEXEC) != 0) {
			close(log_fd);
			return weir_fail(err, WEIR_E_IO, "cannot make a pipe for %s: %s", c->name, strerror(errno));
		}
		fcntl(pipe_fds[1], F_SETFD, 0);
		snprintf(number, sizeof number, "%d", pipe_fds[1]);
		arguments[c->arguments_count] = flag;
		arguments[c->arguments_count + 1] = number;
		arguments[c->arguments_count + 2] = NULL;
	}
	char **environment = environment_of(c);
	pid_t parent = getpid(), pid = environment ? fork() : -1;
	if (pid == 0)
		become(arguments, environment, log_fd, parent);
	int why = errno;
	free(environment);
	close(log_fd);
	if (ready)
		close(pipe_fds[1]);
	if (pid < 0) {
		if (ready)
			close(pipe_fds[0]);
		return weir_fail(err, WEIR_E_IO, "cannot start %s: %s", c->name, strerror(why));
	}
	setpgid(pid, pid); /* both processes do it, in either order */
	c->pid = c->last_pid = pid;
	c->started_ms = clock_ms(s->clock);
	c->ready_fd = pipe_fds[0];
	c->state = CHILD_RUNNING;
	return WEIR_OK;
}

/* --- Ends */

static void record_end(struct child *c, int wait_status)
{
	c->pid = 0;
	c->wait_status = wait_status;
	c->state = CHILD_ENDED;
}

struct child *supervisor_reap(struct supervisor *s)
{
	for (uint32_t i = 0; i < s->count; i++) {
		struct child *c = s->children[i];
		int wait_status = 0;
		if (c->state == CHILD_RUNNING && waitpid(c->pid, &wait_status, WNOHANG) == c->pid) {
			record_end(c, wait_status);
			return c;
		}
	}
	return NULL;
}

bool child_succeeded(const struct child *c)
{
	return c->state == CHILD_ENDED && WIFEXITED(c->wait_status) && WEXITSTATUS(c->wait_status) == 0;
}

bool child_killed(const struct child *c)
{
	return c->state == CHILD_ENDED && WIFSIGNALED(c->wait_status);
}

/* Reads the end of a file, without trailing newlines; "" for an empty or absent file. */
static size_t read_end(const char *path, char text[LOG_TAIL_BYTES + 1])
{
	text[0] = '\0';
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	off_t size = lseek(fd, 0, SEEK_END);
	ssize_t n = pread(fd, text, LOG_TAIL_BYTES, size > LOG_TAIL_BYTES ? size - LOG_TAIL_BYTES : 0);
	close(fd);
	while (n > 0 && text[n - 1] == '\n')
		n--;
	text[n > 0 ? n : 0] = '\0';
	return n > 0 ? (size_t)n : 0;
}

void log_tail(const char *path, uint32_t lines, char *out, size_t bytes)
{
	char text[LOG_TAIL_BYTES + 1];
	out[0] = '\0';
	char *start = text + read_end(path, text);
	for (uint32_t seen = 0; start > text; start--)
		if (start[-1] == '\n' && ++seen == lines)
			break;
	size_t used = 0;
	for (char *line = start, *next; line && *line && used + 1 < bytes; line = next) {
		if ((next = strchr(line, '\n')))
			*next++ = '\0';
		used += (size_t)snprintf(out + used, bytes - used, "%s  %s", used ? "\n" : "", line);
	}
}

/* Returns the last line that the program itself has written, "weir-server: ...": a thread may have
 * logged more lines after it. If there is no such line, returns the last line. */
static const char *last_words(char text[LOG_TAIL_BYTES + 1])
{
	const char *last = "", *words = NULL;
	for (char *line, *next = text; (line = strsep(&next, "\n"));) {
		last = line;
		if (strncmp(line, "weir", 4) == 0)
			words = line;
	}
	return words ? words : last;
}

static int describe_status(int wait_status, char *out, size_t bytes)
{
	if (!WIFSIGNALED(wait_status))
		return snprintf(out, bytes, "ended with status %d", WEXITSTATUS(wait_status));
	int signal = WTERMSIG(wait_status);
	return snprintf(out, bytes, "was killed by signal %d (%s)", signal, strsignal(signal));
}

void child_describe_end(const struct child *c, char *out, size_t bytes)
{
	char text[LOG_TAIL_BYTES + 1];
	int n = describe_status(c->wait_status, out, bytes);
	/* A failed assertion logs its text. */
	const bool has_words = !WIFSIGNALED(c->wait_status) || WTERMSIG(c->wait_status) == SIGABRT;
	if (has_words && n < (int)bytes && read_end(c->log_path, text))
		snprintf(out + n, bytes - (size_t)n, ": %s", last_words(text));
}

/* --- Readiness */

/* Reads one line from fd before the deadline, without its newline. */
static bool read_line(int fd, char *out, size_t bytes, const struct clock *clock, int64_t deadline_ms)
{
	size_t used = 0;
	while (used + 1 < bytes) {
		struct pollfd p = {.fd = fd, .events = POLLIN};
		int64_t left = deadline_ms - clock_ms(clock);
		if (left <= 0 || poll(&p, 1, (int)left) == 0)
			return false;
		ssize_t n = read(fd, out + used, 1);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		if (out[used] == '\n') {
			out[used] = '\0';
			return true;
		}
		used++;
	}
	return false;
}

/* Copies the last lines of a child's log. If the log is empty, gives the free space of its disk
 * instead: a full disk also loses log lines. */
static void last_lines(const struct child *c, char *out, size_t bytes)
{
	char size[16];
	uint64_t space = 0;
	weir_error ignored = {0};
	log_tail(c->log_path, 4, out, bytes);
	if (out[0] || disk_system()->ops->free_space(disk_system(), c->log_path, &space, &ignored) != WEIR_OK)
		return;
	format_bytes(size, sizeof size, (double)space);
	snprintf(out, bytes, "  nothing was said; %s are free on its disk", size);
}

weir_status supervisor_wait_ready(struct supervisor *s, struct child *c, uint32_t timeout_ms, weir_error *err)
{
	char line[WEIR_ADDRESS_BYTES_MAX + 16], tail[WEIR_ERROR_TEXT_BYTES / 2], end[WEIR_ERROR_TEXT_BYTES / 8];
	int64_t deadline = clock_ms(s->clock) + timeout_ms;
	bool ready = read_line(c->ready_fd, line, sizeof line, s->clock, deadline) && strncmp(line, "READY ", 6) == 0;
	close(c->ready_fd);
	c->ready_fd = -1;
	if (ready) {
		snprintf(c->address, sizeof c->address, "%.*s", (int)sizeof c->address - 1, line + 6);
		return WEIR_OK;
	}
	int wait_status = 0;
	bool ended;
	while (!(ended = waitpid(c->pid, &wait_status, WNOHANG) == c->pid) && clock_ms(s->clock) < deadline)
		poll(NULL, 0, POLL_MS);
	last_lines(c, tail, sizeof tail);
	if (!ended)
		return weir_fail(err, WEIR_E_TIMEOUT, "%s (pid %d) did not get ready in %u ms; the end of %s:\n%s", c->name, (int)c->pid,
		                 timeout_ms, c->log_path, tail);
	record_end(c, wait_status);
	describe_status(wait_status, end, sizeof end);
	return weir_fail(err, WEIR_E_UNAVAILABLE, "%s %s before it was ready; the end of %s:\n%s", c->name, end, c->log_path, tail);
}

/* --- Restarts */

bool supervisor_plan_restart(struct supervisor *s, struct child *c)
{
	if (clock_ms(s->clock) - c->started_ms >= WEIR_CHILD_STEADY_MS)
		c->restarts = 0;
	if (c->restarts == WEIR_CHILD_RESTARTS_MAX)
		return false;
	int64_t pause_ms = (int64_t)WEIR_CHILD_PAUSE_FIRST_MS << c->restarts;
	c->restart_at_ms = clock_ms(s->clock) + (pause_ms < WEIR_CHILD_PAUSE_CAP_MS ? pause_ms : WEIR_CHILD_PAUSE_CAP_MS);
	c->restarts++;
	c->state = CHILD_PAUSING;
	return true;
}

weir_status supervisor_restart_due(struct supervisor *s, weir_error *err)
{
	for (uint32_t i = 0; i < s->count; i++) {
		struct child *c = s->children[i];
		if (c->state == CHILD_PAUSING && clock_ms(s->clock) >= c->restart_at_ms) {
			weir_status status = child_start(s, c, false, err);
			if (status != WEIR_OK)
				return status;
		}
	}
	return WEIR_OK;
}

/* --- All children of a role */

uint32_t supervisor_alive(const struct supervisor *s, enum child_role role)
{
	uint32_t alive = 0;
	for (uint32_t i = 0; i < s->count; i++)
		alive +=
		    s->children[i]->role == role && (s->children[i]->state == CHILD_RUNNING || s->children[i]->state == CHILD_PAUSING);
	return alive;
}

void supervisor_signal(struct supervisor *s, enum child_role role, int signal)
{
	for (uint32_t i = 0; i < s->count; i++) {
		struct child *c = s->children[i];
		if (c->role != role)
			continue;
		/* there is no process to signal, and the child must not restart */
		if (c->state == CHILD_PAUSING)
			c->state = CHILD_ENDED;
		else if (c->state == CHILD_RUNNING)
			kill(c->pid, signal);
	}
}

uint32_t supervisor_stop(struct supervisor *s, enum child_role role, uint32_t timeout_ms)
{
	uint32_t killed = 0;
	int64_t deadline = clock_ms(s->clock) + timeout_ms;
	while (supervisor_alive(s, role) > 0 && clock_ms(s->clock) < deadline) {
		while (supervisor_reap(s)) {
		}
		if (supervisor_alive(s, role) > 0)
			poll(NULL, 0, POLL_MS);
	}
	for (uint32_t i = 0; i < s->count; i++) {
		struct child *c = s->children[i];
		if (c->role != role)
			continue;
		if (c->state == CHILD_RUNNING) {
			int wait_status = 0;
			kill(c->pid, SIGKILL);
			while (waitpid(c->pid, &wait_status, 0) < 0 && errno == EINTR) {
			}
			record_end(c, wait_status);
			killed++;
		}
		c->state = CHILD_ENDED;
	}
	return killed;
}

uint32_t supervisor_count(const struct supervisor *s)
{
	return s->count;
}

struct child *supervisor_child(struct supervisor *s, uint32_t i)
{
	return s->children[i];
}

void supervisor_destroy(struct supervisor *s)
{
	if (!s)
		return;
	for (unsigned role = 0; role < CHILD_ROLES; role++)
		supervisor_stop(s, (enum child_role)role, 0);
	for (uint32_t i = 0; i < s->count; i++) {
		struct child *c = s->children[i];
		if (c->ready_fd >= 0)
			close(c->ready_fd);
		for (uint32_t a = 0; a < c->arguments_count; a++)
			free(c->arguments[a]);
		for (uint32_t v = 0; v < c->settings_count; v++)
			free(c->settings[v]);
		free(c);
	}
	free(s->children);
	free(s);
}
