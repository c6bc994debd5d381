/* The schema of job files: one row per key. job_read.c looks up keys in it, job_value.c converts
 * their text to fields of struct job, and a test compares config/reference.yaml with it. Internal
 * to the job files. */
#ifndef WEIR_JOB_SCHEMA_H
#define WEIR_JOB_SCHEMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define JOB_KEYS_MAX       320u
#define JOB_KEY_BYTES_MAX  96u /* a complete path, with its NUL */
#define JOB_EXPECTED_BYTES 384u
#define JOB_ANY_FLOAT      3.0e38 /* float_high, or -float_low, of a key without a limit */

enum key_type {
	KEY_TEXT,  /* char[size] */
	KEY_U32,   /* low..high */
	KEY_U64,   /* low..high */
	KEY_BYTES, /* uint64_t, low..high; "4GiB"; zero_word */
	KEY_RATE,  /* uint64_t, bits per second, low..high; "100Mb/s"; zero_word */
	KEY_BOOL,
	KEY_FLOAT,      /* float, float_low..float_high; zero_word */
	KEY_CHOICE,     /* an enum */
	KEY_U32_LIST,   /* uint32_t[size] and a count */
	KEY_TEXT_LIST,  /* char ** and a count; each item malloc'ed */
	KEY_FLOAT_LIST, /* float * and a count, malloc'ed; float_low..float_high */
	KEY_COLUMNS,    /* struct job_column * and a count: a list of maps (job_column_schema.h) */
	KEY_LATER       /* known, but unsupported in this release: giving it is an error that says so */
};

/* What the value of a key affects. Another value of an OF_DATA, OF_MODEL or OF_TRAINING key changes
 * the results, so the key is part of the job's fingerprint (fingerprint.h). An OF_OPERATION key may
 * change at any time. */
enum key_class { OF_OPERATION, OF_DATA, OF_MODEL, OF_TRAINING };

struct choice {
	const char *name;
	uint32_t value;
	bool later; /* known, but unsupported in this release */
};

struct key {
	const char *path; /* "cluster.servers" */
	enum key_type type;
	size_t offset;       /* of the field in struct job */
	size_t count_offset; /* lists: offset of the uint32_t count */
	size_t size;         /* KEY_TEXT: bytes; lists: maximum number of items */
	/* the default, as a person would write it; NULL: required; "": an empty text or list */
	const char *fallback;
	const char *unit; /* the unit of the number, for messages; may be NULL */
	uint64_t low, high;
	double float_low, float_high;
	bool float_below;      /* float_high itself is not allowed */
	const char *zero_word; /* a word for 0, for a float for NaN: "auto"; may be NULL */
	const struct choice *choices;
	uint32_t choices_count;
	enum key_class of;
	uint32_t parts; /* bits, 1 << enum model_part: models with any of them use the key; 0: all */
	/* another value changes the meaning of weights: verbs that take weights compare it */
	bool of_weights;
	bool planned; /* the word `auto` asks the planner for a value (job.asks) */
};

const struct key *job_schema(uint32_t *count);
/* The row of a complete path, or NULL. */
const struct key *job_schema_find(const char *path);
/* True if `path` is a map that contains keys ("" is the file itself). */
bool job_schema_is_map(const char *path);
/* The names directly inside map `path`, each once, written to names (JOB_KEYS_MAX). Returns their
 * number. */
uint32_t job_schema_children(const char *path, char names[][JOB_KEY_BYTES_MAX]);
/* "data", "training". */
const char *key_class_name(enum key_class c);
/* Writes the value of a key in its canonical form; cut at the end of out. */
struct job;
void job_key_text(const struct job *job, const struct key *key, char *out, size_t bytes);
/* The same for a key of another struct, at `base`. */
void job_field_text(const void *base, const struct key *key, char *out, size_t bytes);
/* Writes a text that parses to the same number, with 6 digits if these suffice. */
void job_float_text(float value, char *out, size_t bytes);
/* The names of the units of KEY_BYTES or KEY_RATE; "" is a unit if a number may stand alone.
 * Returns their number. */
#define JOB_UNITS_MAX 16u
uint32_t job_schema_units(enum key_type type, const char *names[JOB_UNITS_MAX]);
/* "a whole number from 1 to 256 (servers)". */
void job_schema_expected(const struct key *key, char out[JOB_EXPECTED_BYTES]);

#endif
