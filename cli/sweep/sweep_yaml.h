/* The YAML of a sweep file: maps of known keys, with errors that give file:line:column and the key.
 */
#ifndef WEIR_SWEEP_YAML_H
#define WEIR_SWEEP_YAML_H

#include <yaml.h>

#include "cli/sweep/sweep_file.h"

enum { VALUE_SHOWN = 60, READER_KEYS_MAX = 16 };

struct reader {
	struct sweep *sweep;
	yaml_document_t yaml;
	weir_error *err;
};

/* One key of a map. */
struct field {
	const char *name;
	weir_status (*read)(struct reader *r, const char *path, const yaml_node_t *node, void *out);
	const char *expected; /* the expected value of a required key; NULL for an optional key */
};

/* `path` of all these is the key's, "" at the top. */
WEIR_PRINTF(4, 5)
weir_status reader_fail_at(struct reader *r, const yaml_node_t *node, const char *path, const char *format, ...);
/* "is 'x'; expected ..." */
weir_status reader_fail_value(struct reader *r, const yaml_node_t *node, const char *path, const char *expected);
const char *reader_text_of(const yaml_node_t *node); /* of a scalar */
/* A text that is not empty, in the sweep's arena. */
weir_status reader_text(struct reader *r, const char *path, const yaml_node_t *node, const char *expected, const char **out);
/* A list of 1 to `most` items. */
weir_status reader_list(struct reader *r, const char *path, const yaml_node_t *node, uint32_t most, const char *what,
                        uint32_t *count);
yaml_node_t *reader_item(struct reader *r, const yaml_node_t *list, uint32_t i);
/* Calls the reader of each key that a map has, with `out`. */
weir_status reader_map(struct reader *r, const char *path, const yaml_node_t *node, const struct field *fields, uint32_t count,
                       void *out);
/* Parses a text of one document, and calls `read` while r->yaml is there. */
weir_status reader_load(struct reader *r, const char *text, weir_status (*read)(struct reader *r));

#endif
