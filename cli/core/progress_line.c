/* Draws the progress line. */
#include "cli/core/progress_line.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* Lines narrower than LINE_COLUMNS_WITH_BAR have no bar: the words matter more. */
enum { BAR_COLUMNS_MIN = 8, BAR_COLUMNS_MAX = 24, LINE_COLUMNS_WITH_BAR = 40, LINE_BYTES = 512, COLUMNS_DEFAULT = 120 };

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

void progress_line_init(struct progress_line *l, FILE *out, const char *term)
{
	memset(l, 0, sizeof *l);
	l->out = out;
	l->terminal = isatty(fileno(out)) && term && strcmp(term, "dumb") != 0;
}

/* The items of the line, the most important first. The first item that does not fit ends the
 * line. */
struct words {
	char text[LINE_BYTES];
	unsigned columns, room; /* used; the maximum */
};

WEIR_PRINTF(2, 3) static void say(struct words *w, const char *format, ...)
{
	char item[64];
	va_list args;
	va_start(args, format);
	vsnprintf(item, sizeof item, format, args);
	va_end(args);
	unsigned wanted = (unsigned)strlen(item) + (w->columns ? 2 : 0);
	if (w->columns + wanted > w->room) {
		w->room = w->columns;
		return;
	}
	snprintf(w->text + w->columns, sizeof w->text - w->columns, "%s%s", w->columns ? ", " : "", item);
	w->columns += wanted;
}

static void say_doing(struct words *w, const struct progress_line *l, const struct overview *s)
{
	char rate[16];
	const double mfu = overview_mfu(s, l->samples_per_s, s->workers_live);
	format_count(rate, sizeof rate, l->samples_per_s * (s->row_tokens ? s->row_tokens : 1));
	if (s->state != JOB_RUNNING) {
		say(w, "%s", s->state == JOB_EVALUATING ? "evaluating" : s->state == JOB_FINISHED ? "finished" : "failed");
		return;
	}
	say(w, "%s %s/s", rate, s->row_tokens ? "tokens" : "samples");
	if (mfu > 0)
		say(w, "MFU %.3g %%", 100 * mfu);
}

double progress_line_part_done(const struct overview *s)
{
	if (s->state == JOB_FINISHED)
		return 1;
	if (s->passes == 0 || s->units == 0)
		return 0;
	const double done = (double)s->pass + (double)s->committed / s->units;
	return done < s->passes ? done / s->passes : 1;
}

/* Adds "42 s left". Early stopping may make it less. */
static void say_left(struct words *w, double seconds)
{
	const unsigned long minutes = (unsigned long)(seconds / 60 + 0.5);
	if (seconds < 59.5)
		say(w, "%.0f s left", seconds < 1 ? 1 : seconds);
	else if (minutes < 60)
		say(w, "%lu min left", minutes);
	else
		say(w, "%lu h %lu min left", minutes / 60, minutes % 60);
}

static void say_all(struct words *w, const struct progress_line *l, const struct overview *s, bool with_rest)
{
	char pushed[16], pulled[16];
	format_bytes(pushed, sizeof pushed, (double)s->bytes_pushed);
	format_bytes(pulled, sizeof pulled, (double)s->bytes_pulled);
	say(w, "pass %u/%u", s->passes > 0 && s->pass >= s->passes ? s->passes : s->pass + 1, s->passes);
	say(w, "%u/%u units", s->committed, s->units);
	if (with_rest && l->left_s > 0 && s->state == JOB_RUNNING)
		say_left(w, l->left_s);
	if (l->loss > 0)
		say(w, "loss %.4f", l->loss);
	if (s->evaluated_batches && !s->language && !isnan(s->auc))
		say(w, "auc %.4f", s->auc);
	else if (s->evaluated_batches) /* text, or a single class */
		say(w, "valid %.4f", s->logloss);
	if (overview_perplexity(s) > 0)
		say(w, "perplexity %.4g", overview_perplexity(s));
	say_doing(w, l, s);
	if (s->gradient_norm > 0)
		say(w, "gradient norm %.3g, lr %.3g", s->gradient_norm, overview_learning_rate(s));
	say(w, "pushed %s, pulled %s", pushed, pulled);
	say(w, "staleness p50 %llu p99 %llu", (unsigned long long)overview_staleness_quantile(s, 0.5),
	    (unsigned long long)overview_staleness_quantile(s, 0.99));
	if (s->state != JOB_FINISHED)
		say(w, "%u worker%s", s->workers_live, s->workers_live == 1 ? "" : "s");
}

/* Formats "[####....] ": `columns` of bar, of which the share `part` is full. */
static void format_bar(char *out, double part, unsigned columns)
{
	unsigned full = (unsigned)(part * columns + 0.5);
	*out++ = '[';
	for (unsigned i = 0; i < columns; i++)
		*out++ = i < full ? '#' : '.';
	memcpy(out, "] ", 3);
}

void progress_line_format(char *out, size_t bytes, const struct progress_line *l, const struct overview *s, unsigned columns)
{
	enum { BRACKETS = 3 }; /* two brackets and the space */
	char bar[BAR_COLUMNS_MAX + BRACKETS + 1] = "";
	struct words w = {.room = columns ? columns - 1 : LINE_BYTES - 1};
	bool with_bar = columns >= LINE_COLUMNS_WITH_BAR && s->units > 0;
	if (with_bar)
		w.room -= BAR_COLUMNS_MIN + BRACKETS;
	unsigned spare = w.room;
	if (s->units > 0)
		say_all(&w, l, s, columns > 0);
	else
		say(&w, "waiting for workers"); /* no worker has reported the work to the ledger yet */
	spare += BAR_COLUMNS_MIN - w.columns;
	if (with_bar)
		format_bar(bar, progress_line_part_done(s), spare < BAR_COLUMNS_MAX ? spare : BAR_COLUMNS_MAX);
	snprintf(out, bytes, "%s%s", bar, w.text);
}

/* Computes means over the time since the last line. */
static void measure(struct progress_line *l, const struct overview *s, int64_t now_ms)
{
	if (l->rows_ms > 0 && now_ms > l->rows_ms && s->rows >= l->rows) {
		l->samples_per_s = (double)(s->rows - l->rows) * 1000.0 / (double)(now_ms - l->rows_ms);
		if (s->loss_rows > l->loss_rows)
			l->loss = (s->loss_sum - l->loss_sum) / (double)(s->loss_rows - l->loss_rows);
	}
	const double part = progress_line_part_done(s);
	if (l->first_ms == 0 || part < l->first_part) { /* a rewound job restarts the estimate */
		l->first_ms = now_ms;
		l->first_part = part;
	}
	l->left_s = part > l->first_part ? (1 - part) / (part - l->first_part) * (double)(now_ms - l->first_ms) / 1e3 : 0;
	l->rows = s->rows;
	l->loss_rows = s->loss_rows;
	l->rows_ms = now_ms;
	l->loss_sum = s->loss_sum;
}

static unsigned terminal_columns(FILE *out)
{
	struct winsize size;
	return ioctl(fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : COLUMNS_DEFAULT;
}

void progress_line_show(struct progress_line *l, const struct overview *s, int64_t now_ms, bool force)
{
	char line[LINE_BYTES];
	if (!force && !l->terminal && s->state == JOB_FINISHED)
		return; /* its last line is still to come, with `force` */
	if (!force && l->shown_ms > 0 && now_ms - l->shown_ms < (l->terminal ? LIVE_TERMINAL_MS : LIVE_PLAIN_MS))
		return;
	l->shown_ms = now_ms;
	measure(l, s, now_ms);
	progress_line_format(line, sizeof line, l, s, l->terminal ? terminal_columns(l->out) : 0);
	fprintf(l->out, l->terminal ? "\r%s\033[K" : "%s\n", line);
	l->drawn = l->terminal;
	fflush(l->out);
}

void progress_line_note(struct progress_line *l, const char *format, ...)
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

void progress_line_end(struct progress_line *l)
{
	if (l->drawn)
		fputc('\n', l->out);
	l->drawn = false;
	fflush(l->out);
}
