/* A structured log: one line per event, for people or as JSON, with levels, rate-limited per call
 * site. There are no globals: callers pass a logger. */
#ifndef WEIR_LOGGER_H
#define WEIR_LOGGER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "common/base/clock.h"
#include "weir/status.h"

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR, LOG_OFF };
enum log_format { LOG_HUMAN, LOG_JSON };

struct logger;
struct logger_options {
	FILE *out; /* not owned; NULL: stderr; each line is one write(2) to its descriptor */
	enum log_level level;
	enum log_format format;
	const char *who;           /* "server-0"; copied */
	const struct clock *clock; /* NULL: the system's */
};

struct logger *logger_create(const struct logger_options *options);
void logger_destroy(struct logger *l);
bool log_level_from(const char *name, enum log_level *out);

/* Rate limit of one call site: at most WEIR_LOG_SITE_LINES_MAX lines per second. The site's next
 * line says how many were dropped. All loggers that pass the site share it. Zero-initialise it. */
struct log_site {
	_Atomic int64_t second;
	_Atomic uint32_t lines;
	_Atomic uint32_t dropped;
};

/* Writes a line. `event` is a short fixed phrase ("worker joined"), `format` gives the details as
 * key=value pairs. l may be NULL (writes nothing), and site too (no limit). A line longer than
 * WEIR_LOG_LINE_BYTES_MAX is cut. Safe from any thread. */
void logger_write(struct logger *l, enum log_level level, struct log_site *site, const char *event, const char *format, ...)
    WEIR_PRINTF(5, 6);

#define LOG_AT(l, level, event, ...)                                  \
	do {                                                              \
		static struct log_site log_site_;                             \
		logger_write((l), (level), &log_site_, (event), __VA_ARGS__); \
	} while (0)

#endif
