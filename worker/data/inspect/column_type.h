/* What the type of a column says of its values. All columns of CSV are texts. */
#ifndef WEIR_COLUMN_TYPE_H
#define WEIR_COLUMN_TYPE_H

#define COLUMN_TYPE_WHY_BYTES 96u

struct column_type {
	enum {
		TYPE_TEXT, /* texts, integers or booleans */
		TYPE_REAL, /* floats: they are no ids */
		TYPE_TIME, /* timestamps or dates */
		TYPE_LIST, /* lists of ids */
		TYPE_REFUSED
	} is;
	char why[COLUMN_TYPE_WHY_BYTES]; /* TYPE_REFUSED: no kind but ignore takes it, and the reason */
};

#endif
