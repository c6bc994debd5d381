/* The progress line of a training job: redrawn in place on a terminal, otherwise a plain line every
 * few seconds. */
#ifndef WEIR_PROGRESS_LINE_H
#define WEIR_PROGRESS_LINE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "overview/overview.h"

struct progress_line {
	FILE *out;
	bool terminal;    /* redraw in place */
	bool drawn;       /* an unterminated line is on the terminal */
	int64_t shown_ms; /* when the last line was written; 0: not yet */
	uint64_t rows;    /* at the last rate calculation */
	int64_t rows_ms;
	double samples_per_s; /* over the time since the last line */
	double loss_sum;
	uint64_t loss_rows; /* number of rows in loss_sum */
	double loss;        /* mean over the rows since the last line */
	double first_part;  /* share of the whole run that was done at the first poll */
	int64_t first_ms;   /* time of the first poll; 0: not yet */
	/* estimated remaining time, from the speed since the first poll; 0: unknown */
	double left_s;
};

#define LIVE_TERMINAL_MS 1000
#define LIVE_PLAIN_MS    5000

/* Detects a terminal from out's descriptor and from TERM (`term`, may be NULL). */
void progress_line_init(struct progress_line *l, FILE *out, const char *term);
/* Shows s when the next line is due; force: immediately. */
void progress_line_show(struct progress_line *l, const struct overview *s, int64_t now_ms, bool force);
/* Prints a permanent line above the progress line. */
void progress_line_note(struct progress_line *l, const char *format, ...) WEIR_PRINTF(2, 3);
/* Ends the current line. */
void progress_line_end(struct progress_line *l);

/* Returns the share of the whole job, over all its passes, that is done: 0 to 1. */
double progress_line_part_done(const struct overview *s);
/* Formats the line in fewer than `columns` columns: as many whole items as fit, in the order of
 * importance, after a bar that takes the remaining space. The bar shows the whole run and the
 * estimated remaining time. 0 columns: a plain line with every item, without bar and estimate. */
void progress_line_format(char *out, size_t bytes, const struct progress_line *l, const struct overview *s, unsigned columns);
/* "1.5 GB", "12.3 k". */
void format_bytes(char *out, size_t bytes, double value);
void format_count(char *out, size_t bytes, double value);

#endif
