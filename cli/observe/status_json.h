/* A running job's status as JSON: `weir status --json`, and /status.json of the pages. */
#ifndef WEIR_STATUS_JSON_H
#define WEIR_STATUS_JSON_H

#include <stdio.h>

#include "common/web/json.h"
#include "overview/overview.h"

struct json *status_json(const struct overview *s); /* NULL: out of memory */
weir_status status_json_print(const struct overview *s, FILE *out, weir_error *err);

#endif
