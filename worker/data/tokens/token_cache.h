/* The token file that texts become when a job names them itself: built once, by one process while others wait on its lock, and again when a source (path, size, time of
 * change), the tokenizer or a setting changes. */
#ifndef WEIR_TOKEN_CACHE_H
#define WEIR_TOKEN_CACHE_H

#include "worker/data/tokens/tokenize_files.h"

struct token_cache_options {
	const char *dir;                  /* made if need be */
	struct tokenize_options tokenize; /* its identity is the cache's own */
};

weir_status token_cache_open(struct token_file **out, const struct token_cache_options *o, weir_error *err);

#endif
