/* A plot of lines as a standalone SVG: axes with ticks and labels, a legend, nothing but what is in the file. It has no background of its own; all colours
 * are seen on white and on black alike. */
#ifndef WEIR_PLOT_H
#define WEIR_PLOT_H

#include <stdbool.h>
#include <stdint.h>

/* Colours of lines, (PLOT_COLOURS) 0xRRGGBB; the contrast to white and to a dark page is at least 3 (WCAG 2.1, 1.4.11). */
#define PLOT_COLOURS 8u
extern const uint32_t plot_colours[PLOT_COLOURS];
#define PLOT_DASHES 8u /* kinds of lines of one colour */

struct plot_line {
	const char *name; /* for the legend; NULL: not in it */
	const double *x, *y;
	uint32_t count;
	uint32_t style; /* a colour, and beyond PLOT_COLOURS the same ones dashed, in another way each time */
	bool faint;     /* thin and pale, without points */
};

enum plot_unit { PLOT_NUMBER, PLOT_BYTES };

struct plot {
	const char *title, *x_label, *y_label;
	enum plot_unit x_unit;
	bool x_log; /* points at 0 and below are left out */
	const struct plot_line *lines;
	uint32_t lines_count; /* later ones above earlier ones */
};

/* The document, in malloc'ed memory; NULL: out of memory. Points that are not finite are left out. */
char *plot_svg(const struct plot *p);

#endif
