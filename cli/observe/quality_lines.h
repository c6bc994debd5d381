/* A model's quality on clicks as lines for people, below the line with AUC, logloss and
 * calibration. */
#ifndef WEIR_QUALITY_LINES_H
#define WEIR_QUALITY_LINES_H

#include <stdio.h>

#include "worker/data/quality/quality.h"

/* The further figures that the rows allow, each line after `indent`. Nothing if none is defined. */
/* Prints the main figures with `comma` between them: "AUC 0.8123, logloss 0.4021, calibration
 * 1.002"; of retrieval "loss 4.1002 over 9000 items". */
void quality_print_main(FILE *out, const char *comma, const struct quality *q);
void quality_print_more(FILE *out, const char *indent, const struct quality *q);
/* The table of calibration by bucket; nothing without buckets. */
void quality_print_buckets(FILE *out, const char *indent, const struct quality *q);

/* A table of slices: the heading, and a row for each. lists: the rows of some slice have groups;
 * the heading takes the k of NDCG@k from it. */
void quality_print_heading(FILE *out, const char *indent, const struct ranking *lists);
void quality_print_row(FILE *out, const char *indent, const char *value, const struct quality *q, bool lists);

#endif
