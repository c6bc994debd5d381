/* JSON documents by dotted paths ("test.auc"); the only user of jansson is json.c. Objects on the way are made as needed.
 * Documents whose keys are no paths, such as vocabularies, are read value by value (below). */
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

/* Setting in NULL does nothing: an item that memory did not suffice for may be filled, and is told by json_append. */
void json_set_real(struct json *j, const char *path, double value); /* a NaN or an infinity becomes null */
void json_set_count(struct json *j, const char *path, uint64_t value);
void json_set_text(struct json *j, const char *path, const char *value);
void json_set_bool(struct json *j, const char *path, bool value);
void json_set_null(struct json *j, const char *path);
void json_set_empty_list(struct json *j, const char *path);
/* Appends item to the list at path (made when absent) and takes item over; a NULL item breaks j, whose writing fails then. */
void json_append(struct json *j, const char *path, struct json *item);
/* The same of a text. */
void json_append_text(struct json *j, const char *path, const char *value);

/* An object at a path; takes child over, and a NULL or broken one breaks j. */
void json_set_object(struct json *j, const char *path, struct json *child);

bool json_get_real(const struct json *j, const char *path, double *out);
bool json_get_count(const struct json *j, const char *path, uint64_t *out);
bool json_get_bool(const struct json *j, const char *path);           /* false when absent */
const char *json_get_text(const struct json *j, const char *path);    /* borrowed; NULL when there is none */
struct json *json_get_object(const struct json *j, const char *path); /* a reference of its own: destroy it; NULL when absent */
size_t json_list_length(const struct json *j, const char *path);      /* 0 when absent */
struct json *json_list_get(const struct json *j, const char *path,
                           size_t i); /* a reference of its own: destroy it; NULL when absent */

/* name: of where the text is from, for errors: E_PARSE with line and column. Where a whole number is beyond 64 bits, as Python writes them, all of the document's are
 * read as reals. */
weir_status json_parse(const char *text, size_t bytes, const char *name, struct json **out, weir_error *err) WEIR_MUST_CHECK;
/* The same of text that may have zero bytes in its strings: json_value_text tells their length. */
weir_status json_parse_strings(const char *text, size_t bytes, const char *name, struct json **out,
                               weir_error *err) WEIR_MUST_CHECK;

/* A value inside a document, borrowed from it. NULL is one that is absent: it may be asked too, and is and has nothing. */
struct json_value;
const struct json_value *json_root(const struct json *j);
const struct json_value *json_member(const struct json_value *v, const char *key); /* NULL: no object, or not in it */
const struct json_value *json_element(const struct json_value *v, size_t i);       /* NULL: no list, or not in it */
bool json_is_absent(const struct json_value *v);                                   /* or null */
bool json_is_list(const struct json_value *v);
bool json_is_map(const struct json_value *v);
size_t json_length(const struct json_value *v);                           /* elements of a list, members of an object; else 0 */
const char *json_value_text(const struct json_value *v, size_t *bytes);   /* NULL: no text. A NUL follows it */
bool json_value_count(const struct json_value *v, uint64_t *out);         /* false: not a whole number from 0 */
bool json_value_real(const struct json_value *v, double *out);            /* false: not a number */
bool json_value_bool(const struct json_value *v, bool absent, bool *out); /* false: neither a bool nor absent */
bool json_value_equal(const struct json_value *a, const struct json_value *b);
/* Whether a key asks for nothing: it is absent, null, false, empty, or the number `neutral`. */
bool json_value_is_off(const struct json_value *v, double neutral);
/* The value on one line for a message, cut to fit; "nothing" where it is absent. */
void json_value_show(const struct json_value *v, char *out, size_t bytes);
/* Calls `each` with every member, in the order of the text, while it answers true. Returns whether it always did. */
bool json_each(const struct json_value *v,
               bool (*each)(void *arg, const char *key, size_t bytes, const struct json_value *member), void *arg);

/* The text in malloc'ed memory; NULL: out of memory. */
char *json_text(const struct json *j);
/* The one form that equal documents have: no white space, keys sorted. Likewise. */
char *json_canonical(const struct json *j);
weir_status json_read_file(const char *path, struct json **out, weir_error *err) WEIR_MUST_CHECK;
weir_status json_write_file(const struct json *j, const char *path, weir_error *err) WEIR_MUST_CHECK; /* atomically */
weir_status json_print(const struct json *j, FILE *out, weir_error *err) WEIR_MUST_CHECK;

#endif
