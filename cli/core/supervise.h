/* Child processes of a run, and the runs of `weir sweep`. Each child has a log file and a
 * process group of its own, so that a terminal's Ctrl-C reaches only the parent. The kernel kills
 * the children when the parent dies. One thread owns a supervisor: the kernel ties a child's life
 * to the thread that started it.
 *
 * A child killed by a signal may restart after a growing pause, at most WEIR_CHILD_RESTARTS_MAX
 * times in a row. A run of WEIR_CHILD_STEADY_MS resets the count. A child that ends with its own
 * failure does not restart; its log gives the reason. */
#ifndef WEIR_SUPERVISE_H
#define WEIR_SUPERVISE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/base/clock.h"
#include "common/base/limits.h"
#include "weir/status.h"

enum child_role { CHILD_SERVER, CHILD_TRAINER, CHILD_EVALUATOR, CHILD_IMPORTER, CHILD_COORDINATOR, CHILD_RUN, CHILD_ROLES };
/* waits for its restart */
enum child_state { CHILD_NEW, CHILD_RUNNING, CHILD_PAUSING, CHILD_ENDED };

#define CHILD_ARGUMENTS_MAX 256u
#define CHILD_SETTINGS_MAX  16u

struct child {
	enum child_role role;
	enum child_state state;
	char name[WEIR_NAME_BYTES_MAX];       /* "worker-0" */
	char address[WEIR_ADDRESS_BYTES_MAX]; /* of a server, once ready */
	char log_path[WEIR_PATH_BYTES_MAX];
	char *arguments[CHILD_ARGUMENTS_MAX]; /* NULL-terminated; [0] is the program's path */
	uint32_t arguments_count;
	char *settings[CHILD_SETTINGS_MAX]; /* (settings_count) "NAME=VALUE", over this process's own */
	uint32_t settings_count;
	pid_t pid, last_pid; /* pid 0: not running */
	int ready_fd;        /* our end of the ready pipe, or -1 */
	int wait_status;     /* of its last end, as waitpid returns it */
	uint32_t restarts;
	int64_t started_ms, restart_at_ms;
};

struct supervisor;
/* program_dir: the folder of weir-server and weir-worker; run_dir: the folder for logs. */
weir_status supervisor_create(struct supervisor **out, const char *program_dir, const char *run_dir, const struct clock *clock,
                              weir_error *err) WEIR_MUST_CHECK;
/* Returns the folder of the running program. */
weir_status supervisor_own_dir(char *out, size_t bytes, weir_error *err) WEIR_MUST_CHECK;

/* Adds a child to be started later. program: one of ours, whose path is checked here, or another
 * program's path. Returns NULL with an error when the program does not exist. */
struct child *supervisor_add(struct supervisor *s, enum child_role role, const char *name, const char *program, weir_error *err);
void child_argument(struct child *c, const char *text); /* copied */
/* Sets a variable in the child's environment. */
void child_setting(struct child *c, const char *name, const char *value);
/* Starts the child with a fresh log. ready: appends `--ready-fd N`; supervisor_wait_ready reads the
 * line from it. */
weir_status child_start(struct supervisor *s, struct child *c, bool ready, weir_error *err) WEIR_MUST_CHECK;
/* Waits for "READY <address>\n". E_TIMEOUT, or E_UNAVAILABLE when the child died first; the text
 * ends with the tail of its log. */
weir_status supervisor_wait_ready(struct supervisor *s, struct child *c, uint32_t timeout_ms, weir_error *err) WEIR_MUST_CHECK;

/* Returns the next child that has ended since the last call, or NULL. */
struct child *supervisor_reap(struct supervisor *s);
bool child_succeeded(const struct child *c);
bool child_killed(const struct child *c);
/* Schedules a restart of a killed child. False: no restarts are left. The pause starts at
 * WEIR_CHILD_PAUSE_FIRST_MS and doubles. */
bool supervisor_plan_restart(struct supervisor *s, struct child *c);
/* Starts the children whose restart is due. */
weir_status supervisor_restart_due(struct supervisor *s, weir_error *err) WEIR_MUST_CHECK;

/* Returns the number of children of a role that run or will restart. */
uint32_t supervisor_alive(const struct supervisor *s, enum child_role role);
void supervisor_signal(struct supervisor *s, enum child_role role, int signal);
/* Waits at most timeout_ms until no child of the role runs, then kills the rest. Returns the number
 * of killed children. */
uint32_t supervisor_stop(struct supervisor *s, enum child_role role, uint32_t timeout_ms);
uint32_t supervisor_count(const struct supervisor *s);
struct child *supervisor_child(struct supervisor *s, uint32_t i);
/* Kills running children, waits for them, and frees the supervisor. */
void supervisor_destroy(struct supervisor *s);

/* Formats "was killed by signal 9 (Killed)" or "ended with status 1: <the last message>". */
void child_describe_end(const struct child *c, char *out, size_t bytes);
/* Copies the last `lines` lines of a file, each indented by two spaces; "" for an empty or absent
 * file. */
void log_tail(const char *path, uint32_t lines, char *out, size_t bytes);

#endif
