/* The parts of an overview that the status and the final report share, as JSON. docs/REPORT.md
 * explains them. */
#ifndef WEIR_OVERVIEW_JSON_H
#define WEIR_OVERVIEW_JSON_H

#include "common/web/json.h"
#include "overview/overview.h"

/* Writes rows, bytes, the staleness of all pushes, the counts of refused, dropped and omitted
 * items, the last gradient norm, the last step's learning rate, and the compression. */
void overview_put_totals(struct json *j, const struct overview *s);
/* Writes samples per second. For a language model also writes tokens per second and the utilization
 * of the devices of that many workers. */
void overview_put_speed(struct json *j, const struct overview *s, double samples_per_s, uint32_t workers);
/* Tables: name, pushes, bytes by codec, staleness, steps. Workers: name, rows, staleness. */
void overview_put_table(struct json *j, const struct overview_table *t);
void overview_put_worker(struct json *j, const struct overview_worker *w);
/* Writes the number of stalls and the last stall. */
void overview_put_stall(struct json *j, const struct overview_worker *w);

#endif
