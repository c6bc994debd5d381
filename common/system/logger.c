/* A line is formatted on the stack and passed to the kernel in one write(2), so lines of threads,
 * and of processes that share a descriptor, never mix. There are no locks: a logger does not change
 * after its creation. */
#include "common/system/logger.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/base/limits.h"
#include "common/base/utf8_sanitize.h"

#define CUT_MARK  "..."
#define END_BYTES 8u /* room for the end of a line: the mark, "} and a newline */

struct logger {
	int fd;
	enum log_level level;
	enum log_format format;
	const struct clock *clock;
	char who[WEIR_NAME_BYTES_MAX];
};

static const char *const level_names[] = {"debug", "info", "warn", "error", "off"};

struct logger *logger_create(const struct logger_options *options)
{
	struct logger *l = calloc(1, sizeof *l);
	if (!l)
		return NULL;
	l->fd = fileno(options->out ? options->out : stderr);
	assert(l->fd >= 0);
	l->level = options->level;
	l->format = options->format;
	l->clock = options->clock ? options->clock : clock_system();
	snprintf(l->who, sizeof l->who, "%s", options->who ? options->who : "weir");
	return l;
}

void logger_destroy(struct logger *l)
{
	free(l);
}

bool log_level_from(const char *name, enum log_level *out)
{
	for (unsigned i = 0; i <= LOG_OFF; i++)
		if (strcmp(name, level_names[i]) == 0) {
			*out = (enum log_level)i;
			return true;
		}
	return false;
}

/* A line under construction. It drops text beyond the limit and sets `cut`. Room for the end is
 * kept apart. */
struct line {
	size_t length;
	bool cut;
	char text[WEIR_LOG_LINE_BYTES_MAX + END_BYTES];
};

static void put(struct line *line, const char *text, size_t bytes)
{
	size_t left = WEIR_LOG_LINE_BYTES_MAX - line->length;
	if (line->cut || bytes > left) {
		line->cut = true;
		return;
	}
	memcpy(line->text + line->length, text, bytes);
	line->length += bytes;
}

static void put_text(struct line *line, const char *text)
{
	put(line, text, strlen(text));
}

/* Writes text as the inside of a JSON string (RFC 8259, section 7). Bytes that are not UTF-8 become
 * U+FFFD. */
static void put_json(struct line *line, const char *text)
{
	for (const unsigned char *p = (const unsigned char *)text; *p;) {
		size_t n = utf8_character(p);
		char escaped[8];
		if (*p == '"' || *p == '\\') {
			put(line, (char[]){'\\', (char)*p}, 2);
		} else if (*p < 0x20 || *p == 0x7f) {
			snprintf(escaped, sizeof escaped, "\\u%04x", *p);
			put_text(line, escaped);
		} else if (n == 0) {
			put_text(line, "\\ufffd");
		} else {
			put(line, (const char *)p, n);
		}
		p += n ? n : 1;
	}
}

/* Writes text for people, on one line. */
static void put_human(struct line *line, const char *text)
{
	for (; *text; text++)
		put(line, (unsigned char)*text < 0x20 || *text == 0x7f ? " " : text, 1);
}

/* True: this line is within the site's limit. *dropped: lines dropped since the site's last
 * line. */
static bool site_admits(struct log_site *site, int64_t second, uint32_t *dropped)
{
	*dropped = 0;
	int64_t seen = atomic_load_explicit(&site->second, memory_order_relaxed);
	if (seen != second &&
	    atomic_compare_exchange_strong_explicit(&site->second, &seen, second, memory_order_relaxed, memory_order_relaxed))
		atomic_store_explicit(&site->lines, 0, memory_order_relaxed);
	if (atomic_fetch_add_explicit(&site->lines, 1, memory_order_relaxed) >= WEIR_LOG_SITE_LINES_MAX) {
		atomic_fetch_add_explicit(&site->dropped, 1, memory_order_relaxed);
		return false;
	}
	*dropped = atomic_exchange_explicit(&site->dropped, 0, memory_order_relaxed);
	return true;
}

static void format_time(int64_t wall_ns, char *out, size_t bytes)
{
	time_t seconds = (time_t)(wall_ns / 1000000000);
	struct tm tm;
	gmtime_r(&seconds, &tm);
	char date[32];
	strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(out, bytes, "%s.%03dZ", date, (int)(wall_ns / 1000000 % 1000));
}

static void compose_human(struct line *line, const struct logger *l, enum log_level level, const char *time, const char *event,
                          const char *detail, uint32_t dropped)
{
	char head[128];
	snprintf(head, sizeof head, "%s %-5s %s: ", time, level_names[level], l->who);
	put_text(line, head);
	put_human(line, event);
	if (*detail) {
		put_text(line, " ");
		put_human(line, detail);
	}
	if (dropped > 0) {
		snprintf(head, sizeof head, " (%u like this left out)", dropped);
		put_text(line, head);
	}
	if (line->cut) {
		memcpy(line->text + line->length, CUT_MARK, sizeof CUT_MARK - 1);
		line->length += sizeof CUT_MARK - 1;
	}
}

static void compose_json(struct line *line, const struct logger *l, enum log_level level, const char *time, const char *event,
                         const char *detail, uint32_t dropped)
{
	char head[128];
	snprintf(head, sizeof head, "{\"time\":\"%s\",\"level\":\"%s\",", time, level_names[level]);
	put_text(line, head);
	if (dropped > 0) {
		snprintf(head, sizeof head, "\"left_out\":%u,", dropped);
		put_text(line, head);
	}
	put_text(line, "\"who\":\"");
	put_json(line, l->who);
	put_text(line, "\",\"event\":\"");
	put_json(line, event);
	put_text(line, "\",\"detail\":\"");
	put_json(line, detail);
	memcpy(line->text + line->length, line->cut ? CUT_MARK "\"}" : "\"}", line->cut ? 5 : 2);
	line->length += line->cut ? 5 : 2;
}

static void write_all(int fd, const char *text, size_t bytes)
{
	while (bytes > 0) {
		ssize_t n = write(fd, text, bytes);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return; /* a log that cannot be written has nowhere to report that */
		text += n;
		bytes -= (size_t)n;
	}
}

void logger_write(struct logger *l, enum log_level level, struct log_site *site, const char *event, const char *format, ...)
{
	if (!l || level < l->level || level >= LOG_OFF)
		return;
	uint32_t dropped = 0;
	if (site && !site_admits(site, clock_ns(l->clock) / 1000000000, &dropped))
		return;
	char detail[WEIR_LOG_LINE_BYTES_MAX], time[48];
	va_list args;
	va_start(args, format);
	vsnprintf(detail, sizeof detail, format, args);
	va_end(args);
	format_time(l->clock->ops->wall_ns(l->clock), time, sizeof time);
	struct line line;
	line.length = 0;
	line.cut = false;
	if (l->format == LOG_JSON)
		compose_json(&line, l, level, time, event, detail, dropped);
	else
		compose_human(&line, l, level, time, event, detail, dropped);
	line.text[line.length++] = '\n';
	write_all(l->fd, line.text, line.length);
}
