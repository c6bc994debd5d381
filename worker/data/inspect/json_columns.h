/* The columns of JSON lines that no job describes: their keys, in the order in which they first
 * appear, and what their values are. */
#ifndef WEIR_JSON_COLUMNS_H
#define WEIR_JSON_COLUMNS_H

#include "worker/data/format/json_scan.h"
#include "worker/data/inspect/column_type.h"

struct json_columns {
	char **names;              /* (count) */
	struct column_type *types; /* (count) */
	uint32_t count, capacity;
	uint32_t expected; /* the column that the next key probably names */
	struct json_scan scan;
};

/* Learns from a line; PARSE_SLACK readable bytes must follow. A line that is no object teaches
 * nothing. Returns false if no job can describe the line: `why`. */
bool json_columns_learn(struct json_columns *c, const char *line, size_t n, char why[PARSE_WHY_BYTES]);
void json_columns_destroy(struct json_columns *c);

#endif
