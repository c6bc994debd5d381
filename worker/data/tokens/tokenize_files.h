/* Tokenizes text files into a token file, with several threads.
 *
 * Each thread repeats three steps: take a piece of a file, encode it alone, and deliver its
 * documents after those of all earlier pieces. So the number of threads changes neither the file
 * nor the reported error, which is the first one in the text.
 *
 * A text file is one document; one of more than TOKENIZE_DOCUMENT_BYTES becomes several, each of
 * whole lines. A line of JSONL is one document (record.h), and so is an element of a JSON array in
 * place of JSONL. */
#ifndef WEIR_TOKENIZE_FILES_H
#define WEIR_TOKENIZE_FILES_H

#include "common/system/logger.h"
#include "worker/data/format/sources.h"
#include "worker/data/tokens/record.h"
#include "worker/data/tokens/token_file.h"

#define TOKENIZE_DOCUMENT_BYTES (64u << 20) /* of text */
#define TOKENIZE_LINES_BYTES    (1u << 20)  /* of lines per piece */

enum tokenize_format {
	/* .jsonl, .json and .ndjson, also before .gz or .lz4: JSONL; any other name: text. */
	TOKENIZE_BY_NAME,
	TOKENIZE_TEXT,
	TOKENIZE_JSONL
};

struct tokenize_options {
	const struct sources *sources;
	struct record_options record;
	enum tokenize_format format;
	/* Replaces invalid UTF-8 by U+FFFD. Otherwise such text is E_INVALID, with file and byte, and a
	 * line with it is a bad line. */
	bool replace;
	uint32_t threads;
	uint64_t identity;         /* of the token file */
	struct logger *logger;     /* may be NULL */
	uint32_t bad_line_reports; /* number of bad lines to log with file:line */
	uint64_t bad_lines_max;    /* more bad lines: E_LIMIT */
};

/* Writes `path` atomically and describes it in *out. E_INVALID: there is no document, and no file
 * is written. */
weir_status tokenize(const struct tokenize_options *o, const char *path, struct token_file_info *out, weir_error *err);

#endif
