/* A JSON array of records read as JSONL: outside of strings its brackets and newlines become
 * spaces, and the commas between its elements newlines. So a line is a record, and bytes stay
 * where they are. */
#ifndef WEIR_JSON_ARRAY_H
#define WEIR_JSON_ARRAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct json_array {
	uint64_t depth; /* brackets and braces that are open */
	bool in_string, escaped;
};

/* Whether a text begins with an array; of_objects: whose first element is an object. */
bool json_array_begins(const char *text, size_t n, bool of_objects);
/* The next n bytes, in place. Begins with a zeroed json_array. */
void json_array_to_lines(struct json_array *a, char *text, size_t n);

#endif
