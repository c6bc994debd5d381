#include "common/system/stop_signals.h"

#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>
#include <sys/signalfd.h>

void stop_signals_add(sigset_t *set)
{
	struct sigaction hangup;
	sigaddset(set, SIGINT);
	sigaddset(set, SIGTERM);
	if (sigaction(SIGHUP, NULL, &hangup) == 0 && hangup.sa_handler != SIG_IGN)
		sigaddset(set, SIGHUP);
}

weir_status stop_signals_open(int *fd, weir_error *err)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	stop_signals_add(&set);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	*fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return *fd >= 0 ? WEIR_OK : weir_fail(err, WEIR_E_IO, "cannot make a signalfd: %s", strerror(errno));
}

bool stop_signals_pending(void)
{
	sigset_t pending;
	if (sigpending(&pending) != 0)
		return false;
	return sigismember(&pending, SIGINT) == 1 || sigismember(&pending, SIGTERM) == 1 || sigismember(&pending, SIGHUP) == 1;
}

void stop_signals_handle(void (*handler)(int))
{
	const struct sigaction action = {.sa_handler = handler};
	const int all[] = {SIGINT, SIGTERM, SIGHUP};
	sigset_t set;
	sigemptyset(&set);
	stop_signals_add(&set);
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		if (sigismember(&set, all[i]) == 1)
			sigaction(all[i], &action, NULL);
}
