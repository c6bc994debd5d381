/* Draws the live line. */
#include "live.h"

#include <stdarg.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { BAR_COLUMNS_MAX = 24, LINE_BYTES = 512, COLUMNS_DEFAULT = 120 };

static void format_scaled(char *out, size_t bytes, double value, const char *unit)
{
	static const char *const prefixes[] = {"", "k", "M", "G", "T", "P"};
	unsigned p = 0;
	while (value >= 999.5 && p + 1 < sizeof prefixes / sizeof *prefixes) {
		value /= 1000;
		p++;
	}
	snprintf(out, bytes, p > 0 && value < 99.95 ? "%.1f %s%s" : "%.0f %s%s", value, prefixes[p], unit);
	size_t n = strlen(out);
	if (n > 0 && out[n - 1] == ' ')
		out[n - 1] = '\0';
}

void format_bytes(char *out, size_t bytes, double value)
{
	format_scaled(out, bytes, value, "B");
}

void format_count(char *out, size_t bytes, double value)
{
	format_scaled(out, bytes, value, "");
}

void live_init(struct live *l, FILE *out, const char *term)
{
	memset(l, 0, sizeof *l);
	l->out = out;
	l->terminal = isatty(fileno(out)) && term && strcmp(term, "dumb") != 0;
}

static void format_bar(char *out, size_t bytes, double part, unsigned columns)
{
	unsigned full = (unsigned)(part * columns + 0.5);
	if (columns + 3 > bytes) {
		out[0] = '\0';
		return;
	}
	out[0] = '[';
	for (unsigned i = 0; i < columns; i++)
		out[1 + i] = i < full ? '#' : '.';
	memcpy(out + 1 + columns, "]", 2);
}

static void format_doing(char *out, size_t bytes, const struct live *l, enum job_state state)
{
	char rate[16];
	format_count(rate, sizeof rate, l->samples_per_s);
	if (state == JOB_RUNNING)
		snprintf(out, bytes, "%s samples/s", rate);
	else
		snprintf(out, bytes, "%s", state == JOB_EVALUATING ? "evaluating" : state == JOB_FINISHED ? "finished" : "failed");
}

void live_format(char *out, size_t bytes, const struct live *l, const struct overview *s, unsigned columns)
{
	char bar[BAR_COLUMNS_MAX + 3], rest[LINE_BYTES], doing[32], pushed[16], pulled[16], auc[24] = "", loss[24] = "",
	                                                                                    workers[24] = "";
	format_bytes(pushed, sizeof pushed, (double)s->bytes_pushed);
	format_bytes(pulled, sizeof pulled, (double)s->bytes_pulled);
	format_doing(doing, sizeof doing, l, s->state);
	if (s->state != JOB_FINISHED)
		snprintf(workers, sizeof workers, ", %u worker%s", s->workers_live, s->workers_live == 1 ? "" : "s");
	if (s->auc > 0)
		snprintf(auc, sizeof auc, ", valid auc %.4f", s->auc);
	if (l->loss > 0)
		snprintf(loss, sizeof loss, ", loss %.4f", l->loss);
	if (s->units == 0) { /* no worker has told the ledger yet what there is to do */
		snprintf(out, bytes, "%.*s", (int)(columns > 1 ? columns - 1 : 0), "waiting for workers");
		return;
	}
	uint32_t pass = s->passes > 0 && s->pass >= s->passes ? s->passes : s->pass + 1;
	int n = snprintf(rest, sizeof rest, " pass %u/%u, %u/%u units%s%s, %s, pushed %s, pulled %s, staleness p50 %llu p99 %llu%s",
	                 pass, s->passes, s->committed, s->units, loss, auc, doing, pushed, pulled,
	                 (unsigned long long)overview_staleness_quantile(s, 0.5),
	                 (unsigned long long)overview_staleness_quantile(s, 0.99), workers);
	unsigned room = (unsigned)n + 4 < columns ? columns - (unsigned)n - 3 : 0;
	bar[0] = '\0';
	if (room >= 4)
		format_bar(bar, sizeof bar, (double)s->committed / s->units, room < BAR_COLUMNS_MAX ? room : BAR_COLUMNS_MAX);
	snprintf(out, bytes, "%s%.*s", bar, (int)(columns > 1 ? columns - 1 : 0), bar[0] ? rest : rest + 1);
}

/* Means over what happened since the last line. */
static void measure(struct live *l, const struct overview *s, int64_t now_ms)
{
	if (l->rows_ms > 0 && now_ms > l->rows_ms && s->rows >= l->rows) {
		l->samples_per_s = (double)(s->rows - l->rows) * 1000.0 / (double)(now_ms - l->rows_ms);
		if (s->rows > l->rows)
			l->loss = (s->loss_sum - l->loss_sum) / (double)(s->rows - l->rows);
	}
	l->rows = s->rows;
	l->rows_ms = now_ms;
	l->loss_sum = s->loss_sum;
}

static unsigned terminal_columns(FILE *out)
{
	struct winsize size;
	return ioctl(fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : COLUMNS_DEFAULT;
}

void live_show(struct live *l, const struct overview *s, int64_t now_ms, bool force)
{
	char line[LINE_BYTES];
	if (!force && l->shown_ms > 0 && now_ms - l->shown_ms < (l->terminal ? LIVE_TERMINAL_MS : LIVE_PLAIN_MS))
		return;
	l->shown_ms = now_ms;
	measure(l, s, now_ms);
	live_format(line, sizeof line, l, s, l->terminal ? terminal_columns(l->out) : LINE_BYTES);
	fprintf(l->out, l->terminal ? "\r%s\033[K" : "%s\n", line);
	l->drawn = l->terminal;
	fflush(l->out);
}

void live_note(struct live *l, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	if (l->drawn)
		fputs("\r\033[K", l->out);
	l->drawn = false;
	vfprintf(l->out, format, args);
	fputc('\n', l->out);
	fflush(l->out);
	va_end(args);
}

void live_end(struct live *l)
{
	if (l->drawn)
		fputc('\n', l->out);
	l->drawn = false;
	fflush(l->out);
}
