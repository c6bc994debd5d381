/* The line that shows a training job while it runs: redrawn in place on a terminal, a plain line every few seconds elsewhere. */
#ifndef WEIR_LIVE_H
#define WEIR_LIVE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "overview/overview.h"

struct live {
	FILE *out;
	bool terminal;    /* redraw in place */
	bool drawn;       /* a line stands there without its end */
	int64_t shown_ms; /* when the last line was written; 0: none yet */
	uint64_t rows;    /* at the last rate */
	int64_t rows_ms;
	double samples_per_s; /* of the time since the last line */
	double loss_sum;
	uint64_t loss_rows; /* that it is over */
	double loss;        /* mean over the rows since the last line */
	double first_part;  /* of the whole run, done when it was first looked at */
	int64_t first_ms;   /* 0: it was not yet */
	double left_s;      /* that the rest will take, by how fast it went since; 0: not known */
};

#define LIVE_TERMINAL_MS 1000
#define LIVE_PLAIN_MS    5000

/* Terminal or not is found out from out's descriptor and TERM (`term`, may be NULL). */
void live_init(struct live *l, FILE *out, const char *term);
/* Shows s when it is time (force: at once). */
void live_show(struct live *l, const struct overview *s, int64_t now_ms, bool force);
/* A line for good, above the live one. */
void live_note(struct live *l, const char *format, ...) WEIR_PRINTF(2, 3);
/* Ends the line that stands there. */
void live_end(struct live *l);

/* The share of the whole job, all passes of it, that is done: 0 to 1. */
double live_part_done(const struct overview *s);
/* The line's text, of fewer than `columns` columns: whole items in the order of their importance,
 * as many as fit, behind a bar that takes what is left and shows the whole run, with how long that
 * may still take. 0 columns: a plain line, with every item and neither. */
void live_format(char *out, size_t bytes, const struct live *l, const struct overview *s, unsigned columns);
/* "1.5 GB", "12.3 k". */
void format_bytes(char *out, size_t bytes, double value);
void format_count(char *out, size_t bytes, double value);

#endif
