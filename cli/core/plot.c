#include "cli/core/plot.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/core/progress_line.h"

/* In SVG units, which are pixels without scaling. */
enum {
	LEFT = 64,
	TOP = 40,
	WIDTH = 560, /* of the plot area */
	HEIGHT = 340,
	BOTTOM = 52,
	RIGHT = 24,
	LETTER = 7, /* approximate width of a letter */
	LEGEND_ROW = 20,
	LEGEND_DASH = 26,
	TICKS = 6, /* approximate number of ticks */
	TICKS_MAX = 64,
	DECADES_FEW = 3 /* with fewer, a logarithmic axis also has ticks at 2 and 5 */
};
#define INK           "#767676" /* contrast 4.5 to white, 4.6 to black */
#define DECADES_LEAST 0.7       /* with fewer, a logarithmic axis has linear ticks */
#define SPARE         0.04      /* share of an axis beyond the points */
#define SAME_SHARE    1e-9

const uint32_t plot_colours[PLOT_COLOURS] = {0x2f7fd0, 0xd8611f, 0x2a9153, 0xd0489a, 0x8f6fd6, 0x9b7f16, 0x14909c, 0xd94f4f};

/* The first pattern is a solid line. Each colour can have each pattern. */
static const char *const dashes[PLOT_DASHES] = {"", "6 3", "2 3", "10 3 2 3", "12 6", "2 7", "10 3 2 3 2 3", "6 3 6 9"};

/* --- Axes */

struct axis {
	double low, high; /* logarithms if `log` */
	bool log;
	unsigned pixels;
	double ticks[TICKS_MAX]; /* (ticks_count) values, not logarithms */
	unsigned ticks_count;
	int decimals;
};

static bool is_shown(const struct plot *p, double x, double y)
{
	return isfinite(x) && isfinite(y) && (!p->x_log || x > 0);
}

static void widen(struct axis *a, double value)
{
	value = a->log ? log10(value) : value;
	a->low = fmin(a->low, value);
	a->high = fmax(a->high, value);
}

/* Returns a round step: 1, 2 or 5 times a power of ten. */
static double nice_step(double span)
{
	const double rough = span / TICKS, power = pow(10, floor(log10(rough)));
	const double part = rough / power;
	return power * (part <= 1 ? 1 : part <= 2 ? 2 : part <= 5 ? 5 : 10);
}

static void add_tick(struct axis *a, double value, double at)
{
	const double same = (a->high - a->low) * SAME_SHARE;
	if (a->ticks_count < TICKS_MAX && at >= a->low - same && at <= a->high + same)
		a->ticks[a->ticks_count++] = value;
}

static void tick_linear(struct axis *a)
{
	const double step = nice_step(a->high - a->low), first = ceil(a->low / step - SAME_SHARE);
	a->decimals = step < 1 ? (int)ceil(-log10(step) - SAME_SHARE) : 0;
	for (double i = first; i * step <= a->high + step * SAME_SHARE && a->ticks_count < TICKS_MAX; i++)
		add_tick(a, i * step + 0.0, i * step);
}

static void tick_log(struct axis *a)
{
	static const double parts[] = {1, 2, 5};
	const double from = pow(10, a->low), to = pow(10, a->high), step = nice_step(to - from);
	if (a->high - a->low < DECADES_LEAST) {
		for (double i = ceil(from / step); i * step <= to && a->ticks_count < TICKS_MAX; i++)
			add_tick(a, i * step, log10(i * step));
		return;
	}
	const unsigned used = a->high - a->low < DECADES_FEW ? 3 : 1;
	for (double decade = floor(a->low); decade <= a->high && a->ticks_count < TICKS_MAX; decade++)
		for (unsigned i = 0; i < used; i++)
			add_tick(a, parts[i] * pow(10, decade), decade + log10(parts[i]));
}

/* Sets the range and ticks of an axis. Without points the range is 0 to 1; with a single value it
 * is a little around it. */
static void settle(struct axis *a)
{
	if (a->low > a->high) {
		a->low = 0;
		a->high = 1;
	}
	const double least = a->log ? 0.1 : fmax(fabs(a->high), 1) * 1e-3;
	if (a->high - a->low < least * SAME_SHARE) {
		a->low -= least;
		a->high += least;
	}
	const double spare = (a->high - a->low) * SPARE;
	a->low = !a->log && a->low >= 0 && a->low < spare ? 0 : a->low - spare;
	a->high += spare;
	if (a->log)
		tick_log(a);
	else
		tick_linear(a);
}

static void make_axes(const struct plot *p, struct axis *x, struct axis *y)
{
	*x = (struct axis){.low = INFINITY, .high = -INFINITY, .log = p->x_log, .pixels = WIDTH};
	*y = (struct axis){.low = INFINITY, .high = -INFINITY, .pixels = HEIGHT};
	for (uint32_t i = 0; i < p->lines_count; i++)
		for (uint32_t k = 0; k < p->lines[i].count; k++)
			if (is_shown(p, p->lines[i].x[k], p->lines[i].y[k])) {
				widen(x, p->lines[i].x[k]);
				widen(y, p->lines[i].y[k]);
			}
	settle(x);
	settle(y);
}

static double place(const struct axis *a, double value)
{
	return ((a->log ? log10(value) : value) - a->low) / (a->high - a->low) * a->pixels;
}

static double place_x(const struct axis *x, double value)
{
	return LEFT + place(x, value);
}

static double place_y(const struct axis *y, double value)
{
	return TOP + HEIGHT - place(y, value);
}

/* --- Writing */

static void put_text(FILE *out, const char *text)
{
	for (; *text; text++) {
		if (*text == '<' || *text == '>' || *text == '&')
			fputs(*text == '<' ? "&lt;" : *text == '>' ? "&gt;" : "&amp;", out);
		else if ((unsigned char)*text < ' ')
			fputc(' ', out); /* XML allows no other control characters */
		else
			fputc(*text, out);
	}
}

static void put_label(FILE *out, const char *attributes, const char *text)
{
	fprintf(out, "<text %s>", attributes);
	put_text(out, text);
	fputs("</text>\n", out);
}

static void format_tick(char *out, size_t bytes, enum plot_unit unit, const struct axis *a, double value)
{
	if (unit == PLOT_BYTES)
		format_bytes(out, bytes, value);
	else if (a->log)
		snprintf(out, bytes, "%g", value);
	else
		snprintf(out, bytes, "%.*f", a->decimals, value);
}

static void put_axes(FILE *out, const struct plot *p, const struct axis *x, const struct axis *y)
{
	char text[32], at[96];
	const int floor_y = TOP + HEIGHT;
	fputs("<g stroke=\"" INK "\" stroke-width=\"1\" stroke-opacity=\"0.35\">\n", out);
	for (unsigned i = 0; i < x->ticks_count; i++)
		fprintf(out, "<line x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\"/>\n", place_x(x, x->ticks[i]), TOP,
		        place_x(x, x->ticks[i]), floor_y);
	for (unsigned i = 0; i < y->ticks_count; i++)
		fprintf(out, "<line x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\"/>\n", LEFT, place_y(y, y->ticks[i]), LEFT + WIDTH,
		        place_y(y, y->ticks[i]));
	fprintf(out, "</g>\n<path d=\"M%d %dV%dH%d\" fill=\"none\" stroke=\"" INK "\" stroke-width=\"1.5\"/>\n", LEFT, TOP, floor_y,
	        LEFT + WIDTH);
	for (unsigned i = 0; i < x->ticks_count; i++) {
		format_tick(text, sizeof text, p->x_unit, x, x->ticks[i]);
		snprintf(at, sizeof at, "x=\"%.1f\" y=\"%d\" text-anchor=\"middle\"", place_x(x, x->ticks[i]), floor_y + 18);
		put_label(out, at, text);
	}
	for (unsigned i = 0; i < y->ticks_count; i++) {
		format_tick(text, sizeof text, PLOT_NUMBER, y, y->ticks[i]);
		snprintf(at, sizeof at, "x=\"%d\" y=\"%.1f\" text-anchor=\"end\"", LEFT - 6, place_y(y, y->ticks[i]) + 4);
		put_label(out, at, text);
	}
	snprintf(at, sizeof at, "x=\"%d\" y=\"%d\" text-anchor=\"middle\"", LEFT + WIDTH / 2, floor_y + 40);
	put_label(out, at, p->x_label);
	snprintf(at, sizeof at, "transform=\"translate(14 %d) rotate(-90)\" text-anchor=\"middle\"", TOP + HEIGHT / 2);
	put_label(out, at, p->y_label);
	snprintf(at, sizeof at, "x=\"%d\" y=\"%d\" font-size=\"15\" font-weight=\"bold\"", LEFT, TOP - 16);
	put_label(out, at, p->title);
}

static void put_stroke(FILE *out, const struct plot_line *l)
{
	const char *dash = dashes[l->style / PLOT_COLOURS % PLOT_DASHES];
	fprintf(out, "fill=\"none\" stroke=\"#%06x\" stroke-width=\"%s\" stroke-linejoin=\"round\"%s",
	        plot_colours[l->style % PLOT_COLOURS], l->faint ? "1" : "2.2", l->faint ? " stroke-opacity=\"0.4\"" : "");
	if (*dash)
		fprintf(out, " stroke-dasharray=\"%s\"", dash);
}

static void put_line(FILE *out, const struct plot *p, const struct plot_line *l, const struct axis *x, const struct axis *y)
{
	const char *before = "";
	fputs("<polyline ", out);
	put_stroke(out, l);
	fputs(" points=\"", out);
	for (uint32_t i = 0; i < l->count; i++) {
		if (!is_shown(p, l->x[i], l->y[i]))
			continue;
		fprintf(out, "%s%.1f,%.1f", before, place_x(x, l->x[i]), place_y(y, l->y[i]));
		before = " ";
	}
	fputs("\"/>\n", out);
	for (uint32_t i = 0; i < l->count && !l->faint; i++)
		if (is_shown(p, l->x[i], l->y[i]))
			fprintf(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"2.6\" fill=\"#%06x\"/>\n", place_x(x, l->x[i]), place_y(y, l->y[i]),
			        plot_colours[l->style % PLOT_COLOURS]);
}

/* Writes the legend and returns its number of rows; with out NULL it only measures. */
static unsigned put_legend(FILE *out, const struct plot *p, size_t *longest)
{
	const int x = LEFT + WIDTH + RIGHT;
	unsigned row = 0;
	*longest = 0;
	for (uint32_t i = 0; i < p->lines_count; i++) {
		const struct plot_line *l = &p->lines[i];
		const int y = TOP + 10 + (int)row * LEGEND_ROW;
		char at[64];
		if (!l->name)
			continue;
		row++;
		*longest = strlen(l->name) > *longest ? strlen(l->name) : *longest;
		if (!out)
			continue;
		fprintf(out, "<path d=\"M%d %dh%d\" ", x, y, LEGEND_DASH - 6);
		put_stroke(out, l);
		fputs("/>\n", out);
		snprintf(at, sizeof at, "x=\"%d\" y=\"%d\"", x + LEGEND_DASH, y + 4);
		put_label(out, at, l->name);
	}
	return row;
}

static void put_plot(FILE *out, const struct plot *p)
{
	struct axis x, y;
	size_t longest = 0;
	make_axes(p, &x, &y);
	const int rows = (int)put_legend(NULL, p, &longest) * LEGEND_ROW;
	const int width = LEFT + WIDTH + RIGHT + LEGEND_DASH + (int)longest * LETTER + RIGHT / 2;
	const int height = TOP + (rows > HEIGHT ? rows : HEIGHT) + BOTTOM;
	fprintf(out,
	        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" ",
	        width, height);
	fprintf(out, "viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" font-size=\"12\" fill=\"" INK "\">\n<title>", width, height);
	put_text(out, p->title);
	fputs("</title>\n", out);
	put_axes(out, p, &x, &y);
	for (uint32_t i = 0; i < p->lines_count; i++)
		put_line(out, p, &p->lines[i], &x, &y);
	put_legend(out, p, &longest);
	fputs("</svg>\n", out);
}

char *plot_svg(const struct plot *p)
{
	char *text = NULL;
	size_t bytes = 0;
	FILE *out = open_memstream(&text, &bytes);
	if (!out)
		return NULL;
	put_plot(out, p);
	const bool failed = ferror(out) != 0;
	if (fclose(out) != 0 || failed) {
		free(text);
		return NULL;
	}
	return text;
}
