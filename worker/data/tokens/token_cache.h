/* The cached token file of a job that names text files itself.
 *
 * One process builds it while others wait for its lock. A change of a source (path, size,
 * modification time, content), of the tokenizer or of a setting rebuilds it. */
#ifndef WEIR_TOKEN_CACHE_H
#define WEIR_TOKEN_CACHE_H

#include "worker/data/tokens/tokenize_files.h"

struct token_cache_options {
	const char *dir;                  /* created if missing */
	struct tokenize_options tokenize; /* the cache sets its identity */
};

weir_status token_cache_open(struct token_file **out, const struct token_cache_options *o, weir_error *err);

#endif
