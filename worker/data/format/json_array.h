/* Turns a JSON array of records into JSONL, in place.
 *
 * Outside of strings, the array's opening bracket and all newlines become spaces; the commas
 * between its elements and its closing bracket become newlines. So each record is a line, and bytes
 * keep their places. */
#ifndef WEIR_JSON_ARRAY_H
#define WEIR_JSON_ARRAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct json_array {
	uint64_t depth; /* number of open brackets and braces */
	bool in_string, escaped;
};

/* Returns whether a text begins with an array; with of_objects, with one whose first element is an
 * object that has a key. */
bool json_array_begins(const char *text, size_t n, bool of_objects);
/* Converts the next n bytes in place. Start with a zeroed json_array. */
void json_array_to_lines(struct json_array *a, char *text, size_t n);

#endif
