/* Parses one line of text into one row.
 *
 *   criteo   label TAB number * dense TAB category * fields
 *            empty: missing (number 0, category a key of its own)
 *   libsvm   label[:weight] [qid:N] index:value ... [# comment]
 *            the position is the field; fewer entries leave the last bags empty
 *   libffm   label[:weight] field:index:value ... [# comment]
 *            in any order; several entries of one field are a bag
 *
 * Lines end with LF or CRLF. Blank lines and lines with only a comment are not rows. libsvm's qid
 * is the row's group; qid 0 becomes group 2^64 - 1, because 0 means no group. A label is 0 or 1, or
 * -1 and 1; data.positive_above allows any number. A number x becomes log(1 + max(x, 0)). The rows
 * of csv are not lines: parse_table.h describes them.
 *
 * Keys: criteo hashes (field, category) and libffm hashes (field, index). In libsvm the index alone
 * is the key, up to 2^64 - 1. With hash_buckets, criteo's hash is folded into that many buckets,
 * and an index is taken modulo them; field f has the keys from f * hash_buckets on. libsvm's
 * features have no fields, so all share the buckets. */
#ifndef WEIR_PARSE_H
#define WEIR_PARSE_H

#include <stdint.h>

#include "common/job/job.h"
#include "weir/status.h"
#include "worker/data/format/rows.h"

#define PARSE_LOG_TABLE 4096u
/* Parsers read whole words: this many readable bytes must follow a text. */
#define PARSE_SLACK     64u
#define PARSE_WHY_BYTES 160u
/* Version of how text becomes keys. Weights learnt under one version mean nothing under another.
 * Version 1: all fields shared hash_buckets. */
#define PARSE_KEYS_VERSION 2u
/* Version of which lines are rows, and of their values. Parsed copies of another version are
 * rebuilt. Version 1 scored a labelled Criteo line with a missing column as one without a label;
 * version 2 ignored libsvm's qid; version 3 took a Criteo line of the other kind for a bad one. */
#define PARSE_LINES_VERSION 4u

struct table_layout;

struct parser {
	enum data_format format;
	const struct table_layout *layout; /* of data.columns, borrowed; else NULL */
	uint32_t tasks, fields, dense_dim;
	bool fields_counted; /* from the files' beginnings; a line with more is PARSED_REFUSED */
	uint64_t hash_buckets;
	float positive_above; /* NaN: labels are 0, 1 or -1 */
	/* For scoring: also takes rows without a label, or with another number or a word for unknown;
	 * their label is LABEL_NONE. */
	bool every_line;
	bool unlabelled;                  /* with every_line: lines begin with entries or columns */
	float log_table[PARSE_LOG_TABLE]; /* log(1 + i) */
};

/* Rows have one label, until `tasks` is set. fields and dense 0 mean 26 and 13 for criteo; other
 * formats need `fields` (parse_shape). Labels are 0, 1 or -1 until positive_above is set. */
void parser_init(struct parser *p, enum data_format format, uint32_t fields, uint32_t dense, uint64_t hash_buckets);
/* Returns the shape of the rows. */
struct row_shape parser_shape(const struct parser *p);
/* Returns whether rows of this format need offsets, values and weights. */
bool parser_bags(const struct parser *p);

enum parsed {
	PARSED_ROW,     /* a row was appended */
	PARSED_NOTHING, /* a blank line, or a comment */
	PARSED_BAD,     /* a broken line */
	PARSED_LABEL,   /* the label is not a valid one; if common, the file is wrong */
	/* The data are wrong, not the line: it has more fields than were counted; or, to be scored, a
	 * label where other lines have none, or none where they have one. */
	PARSED_REFUSED
};
/* Appends the row of line[0 .. n), without newline; PARSE_SLACK readable bytes must follow. Appends
 * only for PARSED_ROW. For the last three results, `why` says what is wrong. */
enum parsed parse_line(const struct parser *p, struct rows *out, const char *line, size_t n, char why[PARSE_WHY_BYTES]);
/* The key of an id of a field (criteo: from 0 among the categories; csv: job_column_key_field;
 * libsvm: of no effect). value: criteo, csv: the category, "" if it is missing; else the index.
 * E_INVALID: the index is no number; E_LIMIT: the category is longer than PARSE_VALUE_BYTES. */
#define PARSE_VALUE_BYTES 1024u
weir_status parse_key(const struct parser *p, uint32_t field, const char *value, uint64_t *key, weir_error *err) WEIR_MUST_CHECK;
/* Appends a row without features in place of a line that is not a row. Returns false when out of
 * memory. */
bool parse_placeholder(const struct parser *p, struct rows *out, float label);
/* Returns the line's size without trailing CR. */
size_t parse_line_bytes(const char *line, size_t n);

/* The look of a line before the number of fields is known. */
struct line_shape {
	bool is_row;
	uint32_t fields; /* libsvm: entries after the first word; libffm: the highest field + 1 */
	enum {
		LABEL_THERE,
		LABEL_PERHAPS,
		LABEL_ABSENT
	} label; /* LABEL_PERHAPS: "1:1" is a label with its weight, or an index with its value */
};
/* columns: criteo only, the number of columns after the label. */
struct line_shape parse_shape(enum data_format format, uint32_t columns, const char *line, size_t n);

#endif
