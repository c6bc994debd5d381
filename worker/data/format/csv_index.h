/* Where to cut a plain CSV file. A newline inside quotes ends no row, so a file with quotes cannot
 * be cut at any byte: it is read once, and the beginnings of the rows at which units begin are kept
 * beside the packed caches. A file without a quote is cut as other text is.
 *
 * The file, little-endian 64-bit words:
 *
 *   +------------+----------+------------+-------+----------------+
 *   | "WEIRROWS" | identity | hash of .. | count | starts * count |
 *   +------------+----------+------------+-------+----------------+
 *
 * identity hashes the source (size, modification time, content) and the size of a unit; the third
 * word hashes the count and the starts. count 0: the source has no quote. */
#ifndef WEIR_CSV_INDEX_H
#define WEIR_CSV_INDEX_H

#include "worker/data/format/csv_scan.h"
#include "worker/data/format/sources.h"

struct csv_index {
	uint64_t *starts; /* (count) the first is 0; free it */
	uint64_t count;   /* 0: cut the file as other text */
};

struct csv_index_options {
	const char *dir; /* created if missing */
	const struct source *source;
	uint64_t unit_bytes; /* a unit begins at the first row from each multiple of this on */
	struct csv_marks marks;
};

/* Reads the index, or makes it. E_IO, E_LIMIT: the source or the folder; the message has the
 * path. */
weir_status csv_index_open(struct csv_index *out, const struct csv_index_options *o, weir_error *err) WEIR_MUST_CHECK;

#endif
