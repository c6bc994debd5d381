/* Finds the files of a dataset and identifies them: expands globs, copies remote files (remote.h),
 * and puts all into one order. */
#ifndef WEIR_SOURCES_H
#define WEIR_SOURCES_H

#include <stdint.h>

#include "common/job/job.h"
#include "weir/status.h"
#include "worker/data/format/text.h"
#include "worker/data/remote/remote.h"

struct source {
	char *path;
	uint64_t size;    /* bytes */
	int64_t mtime_ns; /* of a remote copy 0, as its path identifies it */
	/* 0: the file is here; else the hash of the version of an object for which the path has a
	 * note */
	uint64_t version;
	enum text_kind kind;
	uint32_t place; /* position among all files that the patterns match */
};
struct sources {
	struct source *items; /* (count), each path once */
	uint32_t count;
};

/* An existing path is taken literally, and so are existing folders at the beginning of a pattern.
 * E_NOT_FOUND names a pattern without a match. E_LIMIT: more than WEIR_DATA_FILES_MAX files. */
enum sources_order {
	SOURCES_BY_PATH, /* sorts all files by path */
	SOURCES_AS_GIVEN /* keeps the order of the patterns; sorts the matches of each by path */
};
/* remote: NULL allows local files only. */
weir_status sources_find(struct sources *out, char *const *patterns, uint32_t count, enum sources_order order,
                         const struct remote_options *remote, weir_error *err);
/* E_UNSUPPORTED: a Parquet or Arrow file where the format is another one. */
weir_status sources_check_format(const struct sources *s, enum data_format format, weir_error *err) WEIR_MUST_CHECK;
void sources_destroy(struct sources *s);

#endif
