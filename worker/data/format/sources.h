/* The files a dataset is made of: globs expanded, copies of what is elsewhere (remote.h), in one
 * order, and what identifies them. */
#ifndef WEIR_SOURCES_H
#define WEIR_SOURCES_H

#include <stdint.h>

#include "weir/status.h"
#include "worker/data/format/text.h"
#include "worker/data/remote/remote.h"

struct source {
	char *path;
	uint64_t size;    /* bytes */
	int64_t mtime_ns; /* of a copy 0: its path says it all */
	enum text_kind kind;
	uint32_t place; /* among all that the patterns name */
};
struct sources {
	struct source *items; /* (count), each path once */
	uint32_t count;
};

/* A name that is there as it stands is no pattern, nor is the part of one that names such
 * folders. E_NOT_FOUND names the pattern that matches nothing; E_LIMIT beyond
 * WEIR_DATA_FILES_MAX. */
enum sources_order {
	SOURCES_BY_PATH, /* the order of the patterns means nothing */
	SOURCES_AS_GIVEN /* that of the patterns; by path what one of them matches */
};
/* remote: NULL: there is nothing but files. */
weir_status sources_find(struct sources *out, char *const *patterns, uint32_t count, enum sources_order order,
                         const struct remote_options *remote, weir_error *err);
void sources_free(struct sources *s);

#endif
