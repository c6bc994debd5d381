/* JSON documents, accessed by dotted paths ("test.auc"). json.c is the only user of jansson.
 * Setters create the objects along a path as needed. Documents whose keys are not paths, such as
 * vocabularies, are read value by value (below). */
#ifndef WEIR_JSON_H
#define WEIR_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "weir/status.h"

struct json;
struct json *json_create(void); /* an empty object; NULL when out of memory */
void json_destroy(struct json *j);

/* Setters do nothing on a NULL document, so that an item that ran out of memory can be filled;
 * json_append then reports the failure. */
/* a NaN or an infinity becomes null */
void json_set_real(struct json *j, const char *path, double value);
void json_set_count(struct json *j, const char *path, uint64_t value);
void json_set_text(struct json *j, const char *path, const char *value);
void json_set_bool(struct json *j, const char *path, bool value);
void json_set_null(struct json *j, const char *path);
void json_set_empty_list(struct json *j, const char *path);
/* Appends item to the list at path, which it creates if absent, and takes ownership of item. A NULL
 * item breaks j: writing j fails then. */
void json_append(struct json *j, const char *path, struct json *item);
/* The same for a text. */
void json_append_text(struct json *j, const char *path, const char *value);

/* Sets an object at a path and takes ownership of child. A NULL or broken child breaks j. */
void json_set_object(struct json *j, const char *path, struct json *child);

bool json_get_real(const struct json *j, const char *path, double *out);
bool json_get_count(const struct json *j, const char *path, uint64_t *out);
bool json_get_bool(const struct json *j, const char *path);        /* false when absent */
const char *json_get_text(const struct json *j, const char *path); /* borrowed; NULL when absent */
/* a new reference: destroy it; NULL when absent */
struct json *json_get_object(const struct json *j, const char *path);
size_t json_list_length(const struct json *j, const char *path); /* 0 when absent */
/* a new reference: destroy it; NULL when absent */
struct json *json_list_get(const struct json *j, const char *path, size_t i);

/* Parses a document. E_PARSE: the message has `name`, line and column. If any whole number is
 * beyond 64 bits, as Python may write it, all numbers of the document are read as reals. */
weir_status json_parse(const char *text, size_t bytes, const char *name, struct json **out, weir_error *err) WEIR_MUST_CHECK;
/* The same for text whose strings may have zero bytes: json_value_text returns their length. */
weir_status json_parse_strings(const char *text, size_t bytes, const char *name, struct json **out,
                               weir_error *err) WEIR_MUST_CHECK;

/* A value inside a document, borrowed from it. NULL means absent: every function accepts it. */
struct json_value;
const struct json_value *json_root(const struct json *j);
/* NULL: not an object, or no such member */
const struct json_value *json_member(const struct json_value *v, const char *key);
/* NULL: not a list, or no such element */
const struct json_value *json_element(const struct json_value *v, size_t i);
bool json_is_absent(const struct json_value *v); /* absent or null */
bool json_is_list(const struct json_value *v);
bool json_is_map(const struct json_value *v);
/* elements of a list, members of an object; otherwise 0 */
size_t json_length(const struct json_value *v);
/* NULL: not a text. A NUL follows the text. */
const char *json_value_text(const struct json_value *v, size_t *bytes);
/* false: not a whole number >= 0 */
bool json_value_count(const struct json_value *v, uint64_t *out);
bool json_value_real(const struct json_value *v, double *out); /* false: not a number */
/* `absent`: the value of an absent one; false: not a bool */
bool json_value_bool(const struct json_value *v, bool absent, bool *out);
bool json_value_equal(const struct json_value *a, const struct json_value *b);
/* Whether the value of a key requests nothing: absent, null, false, empty, or the number
 * `neutral`. */
bool json_value_is_off(const struct json_value *v, double neutral);
/* Writes the value on one line for a message, cut to fit; "nothing" if it is absent. */
void json_value_show(const struct json_value *v, char *out, size_t bytes);
/* Calls `each` for every member, in the order of the text, until it returns false. Returns whether
 * it always returned true. */
bool json_each(const struct json_value *v,
               bool (*each)(void *arg, const char *key, size_t bytes, const struct json_value *member), void *arg);

/* The text in malloc'ed memory; NULL: out of memory. */
char *json_text(const struct json *j);
/* The same with 17 digits a number, which give back the same double. */
char *json_text_exact(const struct json *j);
/* The canonical form, the same for equal documents: no white space, keys sorted. In malloc'ed
 * memory; NULL: out of memory. */
char *json_canonical(const struct json *j);
weir_status json_read_file(const char *path, struct json **out, weir_error *err) WEIR_MUST_CHECK;
/* atomically */
weir_status json_write_file(const struct json *j, const char *path, weir_error *err) WEIR_MUST_CHECK;
weir_status json_print(const struct json *j, FILE *out, weir_error *err) WEIR_MUST_CHECK;

#endif
