/* Hands libweir's lines to the program's logger. */
#ifndef WEIR_WORKER_LOG_H
#define WEIR_WORKER_LOG_H

#include "common/system/logger.h"
#include "weir/weir.h"

/* For weir_options.log with log_arg a struct logger *. */
static inline void worker_log_line(void *arg, weir_log_level level, const char *line)
{
	static const enum log_level levels[] = {LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR};
	LOG_AT(arg, levels[level], "libweir", "%s", line);
}

#endif
