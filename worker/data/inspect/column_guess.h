/* Guesses what the columns of a table are to a job: the kind of each, with its keys.
 *
 * A guess goes by the values first and by the words of the name second. It is a suggestion for a
 * person to read, made so that training starts with it: a column that fits nothing is ignored. */
#ifndef WEIR_COLUMN_GUESS_H
#define WEIR_COLUMN_GUESS_H

#include "common/job/job_columns.h"
#include "worker/data/inspect/column_profile.h"

#define GUESS_WHY_BYTES 160u

struct column_guess {
	enum column_kind kind;
	char separator;      /* multi, sequence; 0: the cells are lists */
	uint32_t max_length; /* sequence; 0: the default */
	int64_t share;       /* the column whose ids it has, too; -1: none */
	enum column_transform transform;
	enum column_time time;
	/* label: rows with this text are positive; "": 1 is positive, or see `above` */
	char positive[PROFILE_VALUE_BYTES];
	bool has_above; /* label: values above `above` are positive */
	double above;
	char why[GUESS_WHY_BYTES]; /* the reason, for a comment; may be "" */
};

/* names, profiles, out: (count). Returns the number of the label, or -1 if no column looks like
 * one. */
int64_t columns_guess(struct column_guess *out, char *const *names, const struct column_profile *profiles, uint32_t count);

#endif
