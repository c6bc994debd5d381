/* What the status and the final report have in common, as JSON: docs/REPORT.md says what it means. */
#ifndef WEIR_OVERVIEW_JSON_H
#define WEIR_OVERVIEW_JSON_H

#include "json.h"
#include "overview.h"

/* Rows, bytes, staleness of all pushes, what was refused, dropped or left out, compression. */
void overview_put_totals(struct json *j, const struct overview *s);
/* Name, pushes, bytes by codec, staleness; and a worker's name, rows, staleness. */
void overview_put_table(struct json *j, const struct overview_table *t);
void overview_put_worker(struct json *j, const struct overview_worker *w);

#endif
