/* Supervision of real processes. Small shell scripts stand in for servers and workers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/core/supervise.h"

struct fixture {
	char dir[64];
	struct supervisor *supervisor;
	weir_error err;
};

enum { PATIENCE_MS = 10000 };

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof *f);
	strcpy(f->dir, "/tmp/weir-supervise-XXXXXX");
	assert_non_null(mkdtemp(f->dir));
	assert_int_equal(supervisor_create(&f->supervisor, f->dir, f->dir, clock_system(), &f->err), WEIR_OK);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;
	char command[128];
	supervisor_destroy(f->supervisor);
	snprintf(command, sizeof command, "rm -r %s", f->dir);
	assert_int_equal(system(command), 0);
	free(f);
	return 0;
}

/* Adds a program in the fixture's folder that runs `script`. $1 is its first argument. */
static struct child *add(struct fixture *f, enum child_role role, const char *name, const char *script)
{
	char path[160];
	snprintf(path, sizeof path, "%s/%s.sh", f->dir, name);
	FILE *out = fopen(path, "w");
	fprintf(out, "#!/bin/sh\n%s\n", script);
	fclose(out);
	assert_int_equal(chmod(path, 0755), 0);
	snprintf(path, sizeof path, "%s.sh", name);
	struct child *c = supervisor_add(f->supervisor, role, name, path, &f->err);
	assert_non_null(c);
	return c;
}

static struct child *wait_end(struct fixture *f)
{
	int64_t deadline = clock_ms(clock_system()) + PATIENCE_MS;
	struct child *c;
	while (!(c = supervisor_reap(f->supervisor)) && clock_ms(clock_system()) < deadline)
		poll(NULL, 0, 5);
	assert_non_null(c);
	return c;
}

/* The last argument is the ready descriptor: sh gets N of `--ready-fd N` as $2. */
#define READY "echo \"READY unix:/tmp/x.sock\" >&$2\n"

static void ready_line_gives_the_address(void **state)
{
	struct fixture *f = *state;
	struct child *c = add(f, CHILD_SERVER, "server-0", READY "exec sleep 60");
	assert_int_equal(child_start(f->supervisor, c, true, &f->err), WEIR_OK);
	assert_int_equal(supervisor_wait_ready(f->supervisor, c, PATIENCE_MS, &f->err), WEIR_OK);
	assert_string_equal(c->address, "unix:/tmp/x.sock");
	assert_int_equal(supervisor_alive(f->supervisor, CHILD_SERVER), 1);
	supervisor_signal(f->supervisor, CHILD_SERVER, SIGTERM);
	assert_int_equal(supervisor_stop(f->supervisor, CHILD_SERVER, PATIENCE_MS), 0);
	assert_int_equal(supervisor_alive(f->supervisor, CHILD_SERVER), 0);
}

static void death_before_ready_shows_the_log(void **state)
{
	struct fixture *f = *state;
	struct child *c = add(f, CHILD_SERVER, "server-0", "echo first >&2; echo 'address in use' >&2; exit 1");
	assert_int_equal(child_start(f->supervisor, c, true, &f->err), WEIR_OK);
	assert_int_equal(supervisor_wait_ready(f->supervisor, c, PATIENCE_MS, &f->err), WEIR_E_UNAVAILABLE);
	assert_non_null(strstr(f->err.text, "server-0 ended with status 1 before it was ready; the end of"));
	const char *said = strstr(f->err.text, "address in use");
	assert_non_null(said);
	assert_null(strstr(said + 1, "address in use"));
}

static void death_without_a_word_tells_of_the_disk(void **state)
{
	struct fixture *f = *state;
	struct child *c = add(f, CHILD_SERVER, "server-0", "exit 1");
	assert_int_equal(child_start(f->supervisor, c, true, &f->err), WEIR_OK);
	assert_int_equal(supervisor_wait_ready(f->supervisor, c, PATIENCE_MS, &f->err), WEIR_E_UNAVAILABLE);
	assert_non_null(strstr(f->err.text, "nothing was said; "));
	assert_non_null(strstr(f->err.text, "B are free on its disk"));
}

static void silence_before_ready_times_out(void **state)
{
	struct fixture *f = *state;
	struct child *c = add(f, CHILD_SERVER, "server-0", "exec sleep 60");
	assert_int_equal(child_start(f->supervisor, c, true, &f->err), WEIR_OK);
	assert_int_equal(supervisor_wait_ready(f->supervisor, c, 100, &f->err), WEIR_E_TIMEOUT);
	assert_non_null(strstr(f->err.text, "server-0"));
}

static void a_killed_child_comes_back_and_a_failed_one_is_explained(void **state)
{
	struct fixture *f = *state;
	char text[256];
	/* The first process waits to be killed; the second fails by itself. */
	struct child *c = add(f, CHILD_TRAINER, "worker-0",
	                      "if [ -e \"$0.again\" ]; then echo 'broken file' >&2; exit 1; fi\n: > \"$0.again\"; exec sleep 60");
	assert_int_equal(child_start(f->supervisor, c, false, &f->err), WEIR_OK);
	char mark[160];
	struct stat st;
	snprintf(mark, sizeof mark, "%s/worker-0.sh.again", f->dir);
	while (stat(mark, &st) != 0)
		poll(NULL, 0, 5);
	pid_t first = c->pid;
	assert_int_equal(kill(first, SIGKILL), 0);
	assert_ptr_equal(wait_end(f), c);
	assert_true(child_killed(c));
	assert_false(child_succeeded(c));
	child_describe_end(c, text, sizeof text);
	assert_string_equal(text, "was killed by signal 9 (Killed)");

	assert_true(supervisor_plan_restart(f->supervisor, c));
	assert_int_equal(supervisor_alive(f->supervisor, CHILD_TRAINER), 1);
	assert_int_equal(c->pid, 0);
	while (c->state == CHILD_PAUSING) {
		assert_int_equal(supervisor_restart_due(f->supervisor, &f->err), WEIR_OK);
		poll(NULL, 0, 5);
	}
	assert_int_not_equal(c->last_pid, first);
	assert_ptr_equal(wait_end(f), c);
	assert_false(child_killed(c));
	child_describe_end(c, text, sizeof text);
	assert_string_equal(text, "ended with status 1: broken file");
}

static void the_last_words_of_a_program_precede_the_log_of_its_threads(void **state)
{
	struct fixture *f = *state;
	char text[256];
	struct child *c = add(f, CHILD_SERVER, "server-0", "printf 'info one\\nweir-server: no disk\\nwarn two\\n' >&2; exit 1");
	assert_int_equal(child_start(f->supervisor, c, false, &f->err), WEIR_OK);
	assert_ptr_equal(wait_end(f), c);
	child_describe_end(c, text, sizeof text);
	assert_string_equal(text, "ended with status 1: weir-server: no disk");
}

static void restarts_are_limited(void **state)
{
	struct fixture *f = *state;
	struct child *c = add(f, CHILD_TRAINER, "worker-0", "exit 0");
	c->started_ms = clock_ms(clock_system());
	for (unsigned i = 0; i < WEIR_CHILD_RESTARTS_MAX; i++) {
		assert_true(supervisor_plan_restart(f->supervisor, c));
		assert_true(c->restart_at_ms <= clock_ms(clock_system()) + WEIR_CHILD_PAUSE_CAP_MS);
	}
	c->state = CHILD_ENDED;
	assert_false(supervisor_plan_restart(f->supervisor, c));
	c->started_ms -= WEIR_CHILD_STEADY_MS;
	assert_true(supervisor_plan_restart(f->supervisor, c));
	assert_int_equal(c->restarts, 1);
}

static void a_deaf_child_is_killed(void **state)
{
	struct fixture *f = *state;
	struct child *c = add(f, CHILD_SERVER, "server-0", "trap '' TERM\n" READY "while :; do sleep 1; done");
	assert_int_equal(child_start(f->supervisor, c, true, &f->err), WEIR_OK);
	assert_int_equal(supervisor_wait_ready(f->supervisor, c, PATIENCE_MS, &f->err), WEIR_OK);
	supervisor_signal(f->supervisor, CHILD_SERVER, SIGTERM);
	assert_int_equal(supervisor_stop(f->supervisor, CHILD_SERVER, 50), 1);
	assert_true(child_killed(c));
}

/* The kernel kills the children of a supervisor that dies suddenly. */
static void children_die_with_their_parent(void **state)
{
	struct fixture *f = *state;
	int fds[2];
	char byte;
	assert_int_equal(pipe(fds), 0);
	struct child *c = add(f, CHILD_SERVER, "server-0", READY "exec sleep 60");
	pid_t parent = fork();
	if (parent == 0) {
		if (child_start(f->supervisor, c, true, NULL) != WEIR_OK ||
		    supervisor_wait_ready(f->supervisor, c, PATIENCE_MS, NULL) != WEIR_OK)
			_exit(1);
		pid_t pid = c->pid;
		if (write(fds[1], &pid, sizeof pid) != sizeof pid)
			_exit(1);
		kill(getpid(), SIGKILL);
	}
	pid_t grandchild = 0;
	close(fds[1]);
	assert_int_equal(read(fds[0], &grandchild, sizeof grandchild), sizeof grandchild);
	assert_int_equal(waitpid(parent, NULL, 0), parent);
	/* The read ends once the grandchild is gone too: nothing else holds the pipe's other end. */
	assert_int_equal(read(fds[0], &byte, 1), 0);
	int64_t deadline = clock_ms(clock_system()) + PATIENCE_MS;
	char path[64], stat_text[256] = "";
	snprintf(path, sizeof path, "/proc/%d/stat", (int)grandchild);
	for (;;) { /* the process is gone, or a zombie that its new parent has not reaped yet */
		FILE *in = fopen(path, "r");
		if (!in)
			break;
		bool zombie = fgets(stat_text, sizeof stat_text, in) && strstr(stat_text, ") Z ");
		fclose(in);
		if (zombie)
			break;
		assert_true(clock_ms(clock_system()) < deadline);
		poll(NULL, 0, 5);
	}
	close(fds[0]);
}

static void a_missing_program_is_named(void **state)
{
	struct fixture *f = *state;
	assert_null(supervisor_add(f->supervisor, CHILD_SERVER, "server-0", "weir-nothing", &f->err));
	assert_int_equal(f->err.status, WEIR_E_NOT_FOUND);
	assert_non_null(strstr(f->err.text, "weir-nothing"));
}

static void log_tail_takes_the_last_lines(void **state)
{
	struct fixture *f = *state;
	char path[160], out[256];
	snprintf(path, sizeof path, "%s/x.log", f->dir);
	log_tail(path, 3, out, sizeof out);
	assert_string_equal(out, "");
	FILE *file = fopen(path, "w");
	fputs("one\ntwo\nthree\n\n", file);
	fclose(file);
	log_tail(path, 2, out, sizeof out);
	assert_string_equal(out, "  two\n  three");
	log_tail(path, 9, out, sizeof out);
	assert_string_equal(out, "  one\n  two\n  three");
	log_tail(path, 2, out, 8);
	assert_string_equal(out, "  two\n ");
}

static void a_child_has_its_settings_over_the_environment(void **state)
{
	struct fixture *f = *state;
	char log[256], out[256];
	assert_int_equal(setenv("WEIR_TEST_RANK", "9", 1), 0);
	assert_int_equal(setenv("WEIR_TEST_RANKED", "yes", 1), 0);
	struct child *c = add(f, CHILD_TRAINER, "worker-0", "echo \"$WEIR_TEST_RANK $WEIR_TEST_RANKED $WEIR_TEST_NAME\"");
	child_setting(c, "WEIR_TEST_RANK", "0");
	child_setting(c, "WEIR_TEST_NAME", "a=b c");
	assert_int_equal(child_start(f->supervisor, c, false, &f->err), WEIR_OK);
	assert_true(child_succeeded(wait_end(f)));
	snprintf(log, sizeof log, "%s/worker-0.log", f->dir);
	log_tail(log, 1, out, sizeof out);
	assert_string_equal(out, "  0 yes a=b c");
	assert_string_equal(getenv("WEIR_TEST_RANK"), "9");
	unsetenv("WEIR_TEST_RANK");
	unsetenv("WEIR_TEST_RANKED");
}

#define SUPERVISED(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    SUPERVISED(ready_line_gives_the_address),
	    SUPERVISED(death_before_ready_shows_the_log),
	    SUPERVISED(death_without_a_word_tells_of_the_disk),
	    SUPERVISED(silence_before_ready_times_out),
	    SUPERVISED(a_killed_child_comes_back_and_a_failed_one_is_explained),
	    SUPERVISED(restarts_are_limited),
	    SUPERVISED(a_deaf_child_is_killed),
	    SUPERVISED(children_die_with_their_parent),
	    SUPERVISED(a_missing_program_is_named),
	    SUPERVISED(the_last_words_of_a_program_precede_the_log_of_its_threads),
	    SUPERVISED(a_child_has_its_settings_over_the_environment),
	    SUPERVISED(log_tail_takes_the_last_lines),
	};
	return cmocka_run_group_tests_name("cli_supervise", tests, NULL, NULL);
}
