/* One line of text to one row.
 *
 *   criteo   label TAB number * dense TAB category * fields       empty: missing (number 0, category a key of its own)
 *   libsvm   label[:weight] [qid:N] index:value ... [# comment]   the position is the field; fewer entries leave the last bags empty
 *   libffm   label[:weight] field:index:value ... [# comment]     in any order; several of one field are a bag
 *
 * Lines end with LF or CRLF. A blank line is no row, nor is one that is all comment; the group of a
 * ranking (qid) is not read. A label is 0 or 1, or -1 and 1, or, with data.positive_above, any
 * number. A number x becomes log(1 + max(x, 0)).
 *
 * Keys: criteo hashes (field, category), libffm hashes (field, index), in libsvm the index alone
 * names the feature and is the key, up to 2^64 - 1. With hash_buckets criteo's hash is folded to
 * that many buckets, and an index is taken modulo them; field f has the keys from f *
 * hash_buckets on. In libsvm, whose features have no fields, all share the buckets. */
#ifndef WEIR_PARSE_H
#define WEIR_PARSE_H

#include <stdint.h>

#include "common/job/job.h"
#include "worker/data/format/rows.h"

#define PARSE_LOG_TABLE 4096u
/* Lines are read in whole words: this many readable bytes must follow a text. */
#define PARSE_SLACK     64u
#define PARSE_WHY_BYTES 160u
/* Of how keys are made of text: weights learnt under one version have no meaning under another.
 * 1: all fields shared hash_buckets. */
#define PARSE_KEYS_VERSION 2u
/* Of which lines are rows, and of which values: parsed copies of another version are made anew.
 * 1: a labelled Criteo line of a missing column was scored as one without a label. */
#define PARSE_LINES_VERSION 2u

struct parser {
	enum data_format format;
	uint32_t fields, dense_dim;
	bool fields_counted; /* in the files' beginnings: a line with more is PARSED_BEYOND */
	uint64_t hash_buckets;
	float positive_above; /* NaN: labels are 0, 1 or -1 */
	bool
	    every_line; /* to be scored: rows without a label, or with another number or word for unknown, are taken, and theirs is LABEL_NONE */
	bool unlabelled;                  /* with every_line: lines begin with their entries or columns */
	float log_table[PARSE_LOG_TABLE]; /* log(1 + i) */
};

/* fields, dense 0: 26 and 13 for criteo; for the others `fields` must be known (parse_shape).
 * Labels are 0, 1 or -1 until one says otherwise. */
void parser_init(struct parser *p, enum data_format format, uint32_t fields, uint32_t dense, uint64_t hash_buckets);
/* Whether rows of this format need offsets, values and weights. */
bool parser_bags(const struct parser *p);

enum parsed {
	PARSED_ROW,     /* appended */
	PARSED_NOTHING, /* a blank line, or a comment */
	PARSED_BAD,     /* the line is broken */
	PARSED_LABEL,   /* its label is a number that is no label: where that is common, it is the file that is wrong */
	PARSED_BEYOND   /* more fields than were counted: the line is good, and the count is wrong */
};
/* Appends the row of line[0 .. n) (no newline; PARSE_SLACK readable bytes after it). But for
 * PARSED_ROW nothing is appended, and for the last three `why` says what is wrong. */
enum parsed parse_line(const struct parser *p, struct rows *out, const char *line, size_t n, char why[PARSE_WHY_BYTES]);
/* Appends a row without features, in the place of a line that is none. False when out of memory. */
bool parse_placeholder(const struct parser *p, struct rows *out, float label);
/* The line without the CR of its end. */
size_t parse_line_bytes(const char *line, size_t n);

/* What a line looks like before the fields are known. */
struct line_shape {
	bool is_row;
	uint32_t fields; /* libsvm: entries behind the first word; libffm: the highest field + 1 */
	enum {
		LABEL_THERE,
		LABEL_PERHAPS,
		LABEL_ABSENT
	} label; /* perhaps: "1:1" is a label with its weight, or an index with its value */
};
/* columns: criteo, those behind the label. */
struct line_shape parse_shape(enum data_format format, uint32_t columns, const char *line, size_t n);

#endif
