/* Child processes of `weir train`, and the runs of `weir sweep`: started beside our own program, each with a log file and in a process group of its own (a terminal's Ctrl-C
 * reaches only us), and killed by the kernel when we die. One thread owns a supervisor: the kernel ties a child's fate to the
 * thread that started it.
 *
 * A child killed by a signal may be started again, after a growing pause, WEIR_CHILD_RESTARTS_MAX times in a row; a life of
 * WEIR_CHILD_STEADY_MS ends the row. One that ends with a failure of its own said why in its log and is not. */
#ifndef WEIR_SUPERVISE_H
#define WEIR_SUPERVISE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/base/clock.h"
#include "common/base/limits.h"
#include "weir/status.h"

enum child_role { CHILD_SERVER, CHILD_TRAINER, CHILD_EVALUATOR, CHILD_IMPORTER, CHILD_COORDINATOR, CHILD_RUN, CHILD_ROLES };
enum child_state { CHILD_NEW, CHILD_RUNNING, CHILD_PAUSING /* to be started again */, CHILD_ENDED };

#define CHILD_ARGUMENTS_MAX 256u

struct child {
	enum child_role role;
	enum child_state state;
	char name[WEIR_NAME_BYTES_MAX];       /* "worker-0" */
	char address[WEIR_ADDRESS_BYTES_MAX]; /* servers, once ready */
	char log_path[WEIR_PATH_BYTES_MAX];
	char *arguments[CHILD_ARGUMENTS_MAX]; /* NULL-terminated; [0] is the program's path */
	uint32_t arguments_count;
	pid_t pid, last_pid; /* pid 0: not running */
	int ready_fd;        /* our end of the ready pipe, or -1 */
	int wait_status;     /* of its last end, as waitpid gives it */
	uint32_t restarts;
	int64_t started_ms, restart_at_ms;
};

struct supervisor;
/* program_dir: where weir-server and weir-worker are; run_dir: for the logs. */
weir_status supervisor_create(struct supervisor **out, const char *program_dir, const char *run_dir, const struct clock *clock,
                              weir_error *err) WEIR_MUST_CHECK;
/* The folder of the running program. */
weir_status supervisor_own_dir(char *out, size_t bytes, weir_error *err) WEIR_MUST_CHECK;

/* A child to be started later. program: of ours, whose path is checked here, or another's path. NULL with an error when it is not there. */
struct child *supervisor_add(struct supervisor *s, enum child_role role, const char *name, const char *program, weir_error *err);
void child_argument(struct child *c, const char *text); /* copied */
/* Starts it with a fresh log. ready: with `--ready-fd N` appended, whose line supervisor_wait_ready reads. */
weir_status child_start(struct supervisor *s, struct child *c, bool ready, weir_error *err) WEIR_MUST_CHECK;
/* Waits for "READY <address>\n". E_TIMEOUT, or E_UNAVAILABLE when it died first; the text ends with the tail of its log. */
weir_status supervisor_wait_ready(struct supervisor *s, struct child *c, uint32_t timeout_ms, weir_error *err) WEIR_MUST_CHECK;

/* The next child that has ended since the last call, or NULL. */
struct child *supervisor_reap(struct supervisor *s);
bool child_succeeded(const struct child *c);
bool child_killed(const struct child *c);
/* Plans a restart of a killed child; false when it has used them up. The pause doubles from WEIR_CHILD_PAUSE_FIRST_MS. */
bool supervisor_plan_restart(struct supervisor *s, struct child *c);
/* Starts what is due. */
weir_status supervisor_restart_due(struct supervisor *s, weir_error *err) WEIR_MUST_CHECK;

/* Children of a role that run or will run again. */
uint32_t supervisor_alive(const struct supervisor *s, enum child_role role);
void supervisor_signal(struct supervisor *s, enum child_role role, int signal);
/* Waits until no child of the role runs, at most timeout_ms, then kills what is left. Returns how many had to be killed. */
uint32_t supervisor_end(struct supervisor *s, enum child_role role, uint32_t timeout_ms);
uint32_t supervisor_count(const struct supervisor *s);
struct child *supervisor_child(struct supervisor *s, uint32_t i);
/* Kills what still runs, waits for it, frees. */
void supervisor_destroy(struct supervisor *s);

/* "was killed by signal 9 (Killed)", "ended with status 1: <what it said last>". */
void child_describe_end(const struct child *c, char *out, size_t bytes);
/* The last `lines` lines of a file, indented by two spaces each; "" when there is none. */
void log_tail(const char *path, uint32_t lines, char *out, size_t bytes);

#endif
