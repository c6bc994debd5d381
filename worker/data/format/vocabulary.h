/* The vocabulary of a field: a file with an id a line. The key of an id is made of the number of
 * its line, so that keys are dense and the same in every run.
 *
 * Without data.hash_buckets the key is field * 2^32 + line, with it field * hash_buckets + line.
 * Lines count from 1; 0 stands for all ids that are not in the file. */
#ifndef WEIR_VOCABULARY_H
#define WEIR_VOCABULARY_H

#include <stddef.h>
#include <stdint.h>

#include "weir/status.h"

struct vocabulary;

/* hash_buckets: of a field, 0: none. E_INVALID names the line that is blank or there twice;
 * E_LIMIT: more ids than a field has keys. */
weir_status vocabulary_open(struct vocabulary **out, const char *path, uint64_t hash_buckets, weir_error *err) WEIR_MUST_CHECK;
void vocabulary_close(struct vocabulary *v); /* NULL is allowed */
/* Hash of the ids in their order; never 0. */
uint64_t vocabulary_content(const struct vocabulary *v);
uint64_t vocabulary_key(const struct vocabulary *v, uint32_t field, const char *id, size_t n);

#endif
