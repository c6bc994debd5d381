/* What the status and the final report have in common, as JSON: docs/REPORT.md says what it means. */
#ifndef WEIR_OVERVIEW_JSON_H
#define WEIR_OVERVIEW_JSON_H

#include "common/web/json.h"
#include "overview/overview.h"

/* Rows, bytes, staleness of all pushes, what was refused, dropped or left out, the last gradient's norm and step's rate, compression. */
void overview_put_totals(struct json *j, const struct overview *s);
/* Samples and, of a language model, tokens a second, and what share of so many workers' devices that makes use of. */
void overview_put_speed(struct json *j, const struct overview *s, double samples_per_s, uint32_t workers);
/* Name, pushes, bytes by codec, staleness, steps; and a worker's name, rows, staleness. */
void overview_put_table(struct json *j, const struct overview_table *t);
void overview_put_worker(struct json *j, const struct overview_worker *w);
/* How often it stalled, and the last time. */
void overview_put_stall(struct json *j, const struct overview_worker *w);

#endif
