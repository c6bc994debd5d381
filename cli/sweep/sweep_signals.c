#include "cli/sweep/sweep_signals.h"

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "common/system/stop_signals.h"

weir_status sweep_signals_open(struct sweep_signals *out, weir_error *err)
{
	*out = (struct sweep_signals){.fd = -1};
	return stop_signals_open(&out->fd, err);
}

int sweep_signals_read(struct sweep_signals *s, int also, int timeout_ms)
{
	struct pollfd p[] = {{.fd = s->fd, .events = POLLIN}, {.fd = also, .events = POLLIN}};
	struct signalfd_siginfo info;
	int stop = 0;
	if (poll(p, 2, timeout_ms) <= 0)
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
