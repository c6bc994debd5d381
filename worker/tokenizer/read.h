/* What the readers of a tokenizer.json's parts share. Their errors say what is wrong in the part; tokenizer_parse puts the file and the part before it. */
#ifndef WEIR_TOKENIZER_READ_H
#define WEIR_TOKENIZER_READ_H

#include "common/web/json.h"
#include "weir/status.h"
#include "worker/tokenizer/pattern.h"

#define READ_DEPTH_MAX 8u /* Sequences in Sequences */

/* The text at `key`, which must be there, in malloc'ed memory with a NUL behind it. */
weir_status read_text(char **out, size_t *bytes, const struct json_value *v, const char *key, weir_error *err);
weir_status read_bool(bool *out, const struct json_value *v, const char *key, bool absent, weir_error *err);
/* {"pattern": {"String": ...} or {"Regex": ...}}. */
weir_status read_pattern(struct pattern **out, const struct json_value *v, weir_error *err);
/* Calls `each` with v, or where v is a Sequence with the members of its list, in order; not at all when v is null or absent. */
weir_status read_sequence(const struct json_value *v, const char *list,
                          weir_status (*each)(void *arg, const char *type, const struct json_value *v, weir_error *err),
                          void *arg, weir_error *err);

#endif
