/* The files a dataset is made of: globs expanded, sorted, and what identifies them. */
#ifndef WEIR_SOURCES_H
#define WEIR_SOURCES_H

#include <stdint.h>

#include "text.h"
#include "weir/status.h"

struct source {
	char *path;
	uint64_t size; /* bytes */
	int64_t mtime_ns;
	enum text_kind kind;
};
struct sources {
	struct source *items; /* (count), sorted by path, each once */
	uint32_t count;
};

/* E_NOT_FOUND names the pattern that matches nothing; E_LIMIT beyond WEIR_DATA_FILES_MAX. */
weir_status sources_find(struct sources *out, char *const *patterns, uint32_t count, weir_error *err);
void sources_free(struct sources *s);

#endif
