/* Files of text to a token file, by several threads: each in turn takes a piece of a file, encodes
 * it alone, and hands its documents over when all pieces before it have been. So the file does not
 * depend on the number of threads, nor does the error reported: the first in the text.
 *
 * A file of text is one document; one of more than TOKENIZE_DOCUMENT_BYTES is several, each of
 * whole lines. A line of JSONL is one (record.h), and so is an element of a JSON array in its
 * place. */
#ifndef WEIR_TOKENIZE_H
#define WEIR_TOKENIZE_H

#include "common/system/logger.h"
#include "worker/data/format/sources.h"
#include "worker/data/tokens/record.h"
#include "worker/data/tokens/token_file.h"

#define TOKENIZE_DOCUMENT_BYTES (64u << 20) /* of text */
#define TOKENIZE_LINES_BYTES    (1u << 20)  /* of lines that a thread takes at once */

enum tokenize_format {
	TOKENIZE_BY_NAME, /* .jsonl, .json and .ndjson, also before .gz or .lz4: jsonl; any other name: text */
	TOKENIZE_TEXT,
	TOKENIZE_JSONL
};

struct tokenize_options {
	const struct sources *sources;
	struct record_options record;
	enum tokenize_format format;
	bool replace; /* U+FFFD for invalid UTF-8. Else text with it is E_INVALID, with file and byte, and a line with it a bad one */
	uint32_t threads;
	uint64_t identity;         /* of the file */
	struct logger *logger;     /* may be NULL */
	uint32_t bad_line_reports; /* bad lines logged with file:line */
	uint64_t bad_lines_max;    /* more: E_LIMIT */
};

/* Writes `path`, atomically; *out tells what is in it. E_INVALID, and no file, where there is no
 * document. */
weir_status tokenize(const struct tokenize_options *o, const char *path, struct token_file_info *out, weir_error *err);

#endif
