#include "cli/sweep/sweep_signals.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "common/system/stop_signals.h"

weir_status sweep_signals_open(struct sweep_signals *out, weir_error *err)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	stop_signals_add(&set);
	sigprocmask(SIG_BLOCK, &set, NULL);
	*out = (struct sweep_signals){.fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK)};
	return out->fd >= 0 ? WEIR_OK : weir_fail(err, WEIR_E_IO, "cannot make a signalfd: %s", strerror(errno));
}

int sweep_signals_read(struct sweep_signals *s, int timeout_ms)
{
	struct pollfd p = {.fd = s->fd, .events = POLLIN};
	struct signalfd_siginfo info;
	int stop = 0;
	if (poll(&p, 1, timeout_ms) <= 0)
		return 0;
	while (read(s->fd, &info, sizeof info) == sizeof info) {
		if (info.ssi_signo == SIGCHLD)
			continue;
		stop = (int)info.ssi_signo;
		s->stop_at_once = s->stop_signal != 0;
		s->stop_signal = s->stop_signal ? s->stop_signal : stop;
	}
	return stop;
}

void sweep_signals_close(struct sweep_signals *s)
{
	if (s->fd >= 0)
		close(s->fd);
	s->fd = -1;
}
