/* Structured log: one line an event, human or JSON, levels, rate-limited per call site. No globals: a logger is passed. */
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
	FILE *out; /* not owned; NULL is stderr; lines go to its descriptor, one write(2) each */
	enum log_level level;
	enum log_format format;
	const char *who;           /* "server-0"; copied */
	const struct clock *clock; /* NULL is the system's */
};

struct logger *logger_create(const struct logger_options *options);
void logger_destroy(struct logger *l);
bool log_level_from(const char *name, enum log_level *out);

/* Rate limit of one call site: at most WEIR_LOG_SITE_LINES_MAX lines per second; the site's next line tells how many were left
 * out. Shared by all loggers that pass it. Zero-initialised. */
struct log_site {
	_Atomic int64_t second;
	_Atomic uint32_t lines;
	_Atomic uint32_t dropped;
};

/* A line: `event` is a short fixed phrase ("worker joined"), `format` its details as key=value pairs. l may be NULL (nothing), site
 * too (no limit). A line longer than WEIR_LOG_LINE_BYTES_MAX is cut. Safe from any thread. */
void logger_write(struct logger *l, enum log_level level, struct log_site *site, const char *event, const char *format, ...)
    WEIR_PRINTF(5, 6);

#define LOG_AT(l, level, event, ...)                                  \
	do {                                                              \
		static struct log_site log_site_;                             \
		logger_write((l), (level), &log_site_, (event), __VA_ARGS__); \
	} while (0)

#endif
