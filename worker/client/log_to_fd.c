/* weir_log_to_fd: a client's log as lines of a descriptor, for a program that cannot be called
 * back. A line is one write, so lines of several threads do not mix in a pipe, and a full pipe
 * takes a line whole or not at all. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include "weir/weir.h"

_Static_assert(WEIR_ERROR_TEXT_BYTES + 16 <= PIPE_BUF, "a pipe must take a line with its level as a whole");

void weir_log_to_fd(void *fd, weir_log_level level, const char *line)
{
	static const char *const words[] = {"debug", "info", "warn", "error"};
	char out[WEIR_ERROR_TEXT_BYTES + 16];
	int bytes = snprintf(out, sizeof out - 1, "%s: %s", words[level], line);
	if (bytes > (int)sizeof out - 2)
		bytes = (int)sizeof out - 2;
	for (int i = 0; i < bytes; i++)
		if (out[i] == '\n')
			out[i] = ' ';
	out[bytes++] = '\n';
	while (write(*(const int *)fd, out, (size_t)bytes) < 0 && errno == EINTR)
		;
}
