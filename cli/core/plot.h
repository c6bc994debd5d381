/* A line plot as a standalone SVG: axes with ticks and labels, and a legend. The SVG refers to
 * nothing outside itself and has no background. All colours are visible on white and on black. */
#ifndef WEIR_PLOT_H
#define WEIR_PLOT_H

#include <stdbool.h>
#include <stdint.h>

/* Line colours, (PLOT_COLOURS) 0xRRGGBB. Their contrast to white and to a dark page is at least 3
 * (WCAG 2.1, 1.4.11). */
#define PLOT_COLOURS 8u
extern const uint32_t plot_colours[PLOT_COLOURS];
#define PLOT_DASHES 8u /* line styles for each colour */

struct plot_line {
	const char *name; /* for the legend; NULL: omitted from the legend */
	const double *x, *y;
	uint32_t count;
	/* a colour; values from PLOT_COLOURS on repeat the colours with a different dash pattern each
	 * time */
	uint32_t style;
	bool faint; /* thin and pale, without points */
};

enum plot_unit { PLOT_NUMBER, PLOT_BYTES };

struct plot {
	const char *title, *x_label, *y_label;
	enum plot_unit x_unit;
	bool x_log; /* points at 0 and below are omitted */
	const struct plot_line *lines;
	uint32_t lines_count; /* later lines are drawn above earlier ones */
};

/* Returns the document in malloc'ed memory, or NULL when out of memory. Omits points that are not
 * finite. */
char *plot_svg(const struct plot *p);

#endif
