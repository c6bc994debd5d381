/* Shared by the readers of the parts of a tokenizer.json. Their errors describe the fault in the
 * part; tokenizer_parse puts the file and the part before it. */
#ifndef WEIR_READ_H
#define WEIR_READ_H

#include "common/web/json.h"
#include "weir/status.h"
#include "worker/tokenizer/pattern.h"

#define READ_DEPTH_MAX 8u /* Sequences in Sequences */

/* Reads the text at `key`, which must exist, into malloc'ed memory with a NUL after it. */
weir_status read_text(char **out, size_t *bytes, const struct json_value *v, const char *key, weir_error *err);
weir_status read_bool(bool *out, const struct json_value *v, const char *key, bool absent, weir_error *err);
/* Reads {"pattern": {"String": ...} or {"Regex": ...}}. */
weir_status read_pattern(struct pattern **out, const struct json_value *v, weir_error *err);
/* Calls `each` with v, or, if v is a Sequence, with the members of its list, in order. Does not
 * call it if v is null or absent. */
weir_status read_sequence(const struct json_value *v, const char *list,
                          weir_status (*each)(void *arg, const char *type, const struct json_value *v, weir_error *err),
                          void *arg, weir_error *err);

#endif
