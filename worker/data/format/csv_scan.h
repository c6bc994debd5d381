/* Finds the cells of CSV (RFC 4180): the delimiters and newlines outside quotes.
 *
 * A quote opens a cell's quotes only as the first byte of the cell; elsewhere in a cell without
 * quotes it is a byte like others. Inside quotes a doubled quote is one quote, and delimiters and
 * newlines are bytes like others. What follows a closing quote belongs to the cell until its end;
 * the parser refuses such a cell. LF ends a row; the parser drops a CR before it.
 *
 * Vector variants classify 64 bytes at a time: comparisons give a bit per byte, and a carry-less
 * multiplication of the quotes' bits by all ones gives the bytes inside quotes (Langdale and
 * Lemire, "Parsing Gigabytes of JSON per Second", 2019). That holds if each quote that opens stands
 * first in its cell. A block in which one does not is scanned byte by byte, so all variants agree
 * on all texts. */
#ifndef WEIR_CSV_SCAN_H
#define WEIR_CSV_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The characters that make cells of a text. */
struct csv_marks {
	char delimiter;
	char quote; /* 0: none; cells have no quotes */
};

/* Where the scan is, between two bytes. */
enum csv_state {
	CSV_START,  /* at the beginning of a cell */
	CSV_PLAIN,  /* in a cell without quotes, or after its quotes */
	CSV_QUOTED, /* inside quotes */
	CSV_CLOSED  /* after a quote inside quotes: it closes them, or another one follows */
};

struct csv_scan {
	struct csv_marks marks;
	enum csv_state state; /* CSV_START at the beginning of a row */
	/* What was seen: a quote, a byte from 0x80 on, a zero byte. */
	bool quotes, high, zeros;
};

/* scan_cells writes up to this many offsets beyond the last cell. */
#define CSV_SCAN_SLACK 16u

struct csv_scan_ops {
	const char *name;
	/* Writes the offset of each byte that ends a cell. ends: room for n + CSV_SCAN_SLACK. Returns
	 * their number. Continues from s->state. */
	size_t (*cells)(struct csv_scan *s, const char *data, size_t n, uint32_t *ends);
	/* Returns the size of the whole rows at the beginning of the data; 0: no row ends here. */
	size_t (*rows)(struct csv_scan *s, const char *data, size_t n);
};

/* The best variant for this CPU. */
const struct csv_scan_ops *csv_scan_best(void);
/* The i-th variant that this CPU can run, byte by byte first; NULL when there are no more. */
const struct csv_scan_ops *csv_scan_variant(unsigned i);

/* The rules above, a byte at a time. */
static inline bool csv_scan_byte(struct csv_scan *s, char c)
{
	const bool ends = c == '\n' || c == s->marks.delimiter, quote = s->marks.quote && c == s->marks.quote;
	s->quotes |= quote;
	s->high |= (c & 0x80) != 0;
	s->zeros |= c == 0;
	if (s->state == CSV_QUOTED) {
		s->state = quote ? CSV_CLOSED : CSV_QUOTED;
		return false;
	}
	if (ends)
		s->state = CSV_START;
	else if (quote && s->state != CSV_PLAIN)
		s->state = CSV_QUOTED;
	else
		s->state = CSV_PLAIN;
	return ends;
}

#endif
