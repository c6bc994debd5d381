/* Parallel coordinates: an axis for each key of the space and one for the first objective, a line
 * for each trial. A better trial has a stronger line, drawn above the others. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/core/plot.h"
#include "cli/sweep/search_report.h"

enum { LEFT = 100, TOP = 60, GAP = 150, HEIGHT = 300, BOTTOM = 60, LETTERS = 22, LABEL_BYTES = 64 };
#define INK       "#767676"
#define PALE      0.15 /* opacity of the worst trial */
#define ROOM_SIDE 0.5  /* between choices: half of a choice's share */

struct parallel {
	const struct search_book *book;
	const struct space *space;
	double least, most; /* of the objective */
};

static double axis_x(uint32_t axis)
{
	return LEFT + (double)axis * GAP;
}

/* Place 0 is at the bottom. */
static double axis_y(double place)
{
	return TOP + HEIGHT * (1 - place);
}

static double place_of(const struct space_dim *d, double x)
{
	return d->choices_count ? (x + ROOM_SIDE) / d->choices_count : space_place(d, x);
}

static void put_text(FILE *out, double x, double y, const char *attributes, const char *text)
{
	fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" %s>", x, y, attributes);
	for (; *text; text++) {
		if (*text == '<' || *text == '>' || *text == '&')
			fputs(*text == '<' ? "&lt;" : *text == '>' ? "&gt;" : "&amp;", out);
		else
			fputc((unsigned char)*text < ' ' ? ' ' : *text, out);
	}
	fputs("</text>\n", out);
}

/* The end of a long key: its beginning is often that of the others. */
static void put_title(FILE *out, uint32_t axis, const char *key)
{
	char shown[LETTERS + 8];
	size_t n = 0;
	while (key[n])
		n++;
	snprintf(shown, sizeof shown, "%s%s", n > LETTERS ? "..." : "", n > LETTERS ? key + n - LETTERS : key);
	put_text(out, axis_x(axis), TOP - 24, "text-anchor=\"middle\" font-weight=\"bold\"", shown);
	fprintf(out, "<path d=\"M%.1f %dv%d\" stroke=\"" INK "\" stroke-width=\"1.5\"/>\n", axis_x(axis), TOP, HEIGHT);
}

static void put_dim(FILE *out, const struct parallel *p, uint32_t axis)
{
	const struct space_dim *d = &p->space->dims[axis];
	char text[LABEL_BYTES];
	put_title(out, axis, d->key);
	const uint32_t ticks = d->choices_count ? d->choices_count : 3;
	for (uint32_t i = 0; i < ticks; i++) {
		const double x = d->choices_count ? i : space_at(d, i / 2.0);
		space_text(d, x, text, sizeof text);
		put_text(out, axis_x(axis) + 6, axis_y(place_of(d, x)) + 4, "font-size=\"11\"", text);
	}
}

static void put_objective(FILE *out, const struct parallel *p)
{
	char text[LABEL_BYTES];
	put_title(out, p->space->count, p->book->sweep->search->objectives[0].name);
	for (uint32_t i = 0; i < 3; i++) {
		snprintf(text, sizeof text, "%.5g", p->least + (p->most - p->least) * i / 2);
		put_text(out, axis_x(p->space->count) + 6, axis_y(i / 2.0) + 4, "font-size=\"11\"", text);
	}
}

/* A dimension that does not count is left out of the line. share: 0 is the best trial. */
static void put_trial(FILE *out, const struct parallel *p, const struct ranked *best, double share)
{
	const struct space_point *point = &search_at(search_trial(p->book->search, best->trial), best->step)->point;
	const double value = search_book_step(p->book, best->trial, best->step)->measures[0];
	const char *letter = "M";
	fprintf(out, "<path fill=\"none\" stroke=\"#%06x\" stroke-width=\"%.1f\" stroke-opacity=\"%.2f\" d=\"",
	        plot_colours[share < 0.1 ? 1 : 0], share < 0.1 ? 2.2 : 1.2, 1 - (1 - PALE) * share);
	for (uint32_t i = 0; i < p->space->count; i++) {
		if (isnan(point->x[i]))
			continue;
		fprintf(out, "%s%.1f %.1f", letter, axis_x(i), axis_y(place_of(&p->space->dims[i], point->x[i])));
		letter = "L";
	}
	if (isfinite(value))
		fprintf(out, "%s%.1f %.1f", letter, axis_x(p->space->count),
		        axis_y(p->most > p->least ? (value - p->least) / (p->most - p->least) : 0.5));
	fputs("\"/>\n", out);
}

static void put_all(FILE *out, const struct parallel *p, const struct ranked *order, uint32_t count)
{
	const int width = 2 * LEFT + (int)p->space->count * GAP, height = TOP + HEIGHT + BOTTOM / 2;
	fprintf(out,
	        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
	        "viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" font-size=\"12\" fill=\"" INK
	        "\">\n<title>Settings of the trials</title>\n",
	        width, height, width, height);
	for (uint32_t i = count; i-- > 0;)
		put_trial(out, p, &order[i], count > 1 ? (double)i / (count - 1) : 0);
	for (uint32_t i = 0; i < p->space->count; i++)
		put_dim(out, p, i);
	put_objective(out, p);
	fputs("</svg>\n", out);
}

char *search_parallel_svg(const struct search_book *b, const struct ranked *order, uint32_t count)
{
	struct parallel p = {.book = b, .space = &b->sweep->search->options.space, .least = INFINITY, .most = -INFINITY};
	char *text = NULL;
	size_t bytes = 0;
	FILE *out = open_memstream(&text, &bytes);
	if (!out)
		return NULL;
	for (uint32_t i = 0; i < count; i++) {
		const double value = search_book_step(b, order[i].trial, order[i].step)->measures[0];
		p.least = fmin(p.least, value);
		p.most = fmax(p.most, value);
	}
	if (p.least > p.most)
		p.least = p.most = 0;
	put_all(out, &p, order, count);
	if (fclose(out) == 0)
		return text;
	free(text);
	return NULL;
}
