/* Stops one thread of a process, as a debugger does, while its other threads continue. From outside
 * this looks like a hung GPU, a dead NFS or a deadlock.
 *
 *     stop_thread PID [NAME]    the first thread, or the one of that name (/proc/PID/task/TID/comm)
 *
 * Prints "stopped TID" once the thread has stopped, and resumes it at the end of standard input.
 * Exit status: 0 the thread resumed, 1 it has ended, 2 wrong use or no such thread, 77 the kernel
 * does not allow it. */
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ENDED = 1, WRONG_USE = 2, SKIPPED = 77, NAME_BYTES = 32, POLL_MS = 50 };

static bool has_name(const char *pid, const char *tid, const char *name)
{
	char path[128], text[NAME_BYTES] = "";
	snprintf(path, sizeof path, "/proc/%.20s/task/%.20s/comm", pid, tid);
	FILE *file = fopen(path, "r");
	if (!file)
		return false;
	if (!fgets(text, sizeof text, file))
		text[0] = '\0';
	fclose(file);
	text[strcspn(text, "\n")] = '\0';
	return strcmp(text, name) == 0;
}

/* 0: no such thread. */
static pid_t find_thread(const char *pid, const char *name)
{
	char path[64];
	pid_t found = 0;
	snprintf(path, sizeof path, "/proc/%.20s/task", pid);
	DIR *tasks = opendir(path);
	for (struct dirent *task; tasks && !found && (task = readdir(tasks));)
		if (task->d_name[0] != '.' && has_name(pid, task->d_name, name))
			found = (pid_t)strtol(task->d_name, NULL, 10);
	if (tasks)
		closedir(tasks);
	return found;
}

static bool stops(pid_t thread)
{
	int status = 0;
	return ptrace(PTRACE_INTERRUPT, thread, NULL, NULL) == 0 && waitpid(thread, &status, __WALL) == thread && WIFSTOPPED(status);
}

/* Waits for the end of standard input. False: the thread has ended, and its process needs us to
 * reap it. */
static bool waits(pid_t thread)
{
	struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
	char byte;
	int status;
	for (;;) {
		if (waitpid(thread, &status, WNOHANG | __WALL) == thread && !WIFSTOPPED(status))
			return false;
		if (poll(&input, 1, POLL_MS) > 0 && read(STDIN_FILENO, &byte, 1) <= 0)
			return true;
	}
}

int main(int argc, char **argv)
{
	const pid_t thread = argc == 3 ? find_thread(argv[1], argv[2]) : argc == 2 ? (pid_t)strtol(argv[1], NULL, 10) : 0;
	if (thread <= 0) {
		fprintf(stderr, "usage: stop_thread PID [NAME]: there is no such thread\n");
		return WRONG_USE;
	}
	if (ptrace(PTRACE_SEIZE, thread, NULL, NULL) != 0) {
		fprintf(stderr, "stop_thread: thread %ld cannot be traced: %s\n", (long)thread, strerror(errno));
		return errno == EPERM ? SKIPPED : WRONG_USE;
	}
	if (!stops(thread))
		return ENDED;
	printf("stopped %ld\n", (long)thread);
	fflush(stdout);
	if (!waits(thread))
		return ENDED;
	return ptrace(PTRACE_DETACH, thread, NULL, NULL) == 0 ? EXIT_SUCCESS : ENDED;
}
