/* The schema of job files: one row per key. job_read.c finds keys in it, job_value.c turns their text into fields of struct job,
 * and a test holds config/reference.yaml to it. Internal to the job files. */
#ifndef WEIR_JOB_SCHEMA_H
#define WEIR_JOB_SCHEMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define JOB_KEYS_MAX       256u
#define JOB_KEY_BYTES_MAX  96u /* of a whole path, with its NUL */
#define JOB_EXPECTED_BYTES 384u

enum key_type {
	KEY_TEXT,  /* char[size] */
	KEY_U32,   /* low..high */
	KEY_U64,   /* low..high */
	KEY_BYTES, /* uint64_t, low..high; "4GiB"; zero_word */
	KEY_RATE,  /* uint64_t, bits a second, low..high; "100Mb/s"; zero_word */
	KEY_BOOL,
	KEY_FLOAT,     /* float, float_low..float_high; zero_word */
	KEY_CHOICE,    /* an enum */
	KEY_U32_LIST,  /* uint32_t[size] and a count */
	KEY_TEXT_LIST, /* char ** and a count; each item malloc'ed */
	KEY_LATER      /* known, but not in this release: giving it is an error that says so */
};

/* What a key's value determines. Of OF_DATA, OF_MODEL and OF_TRAINING another value makes other results: it is in the job's
 * fingerprint (fingerprint.h). OF_OPERATION may change at any time. */
enum key_class { OF_OPERATION, OF_DATA, OF_MODEL, OF_TRAINING };

struct choice {
	const char *name;
	uint32_t value;
	bool later; /* known, but not in this release */
};

struct key {
	const char *path; /* "cluster.servers" */
	enum key_type type;
	size_t offset;        /* of the field in struct job */
	size_t count_offset;  /* lists: of the uint32_t that counts */
	size_t size;          /* KEY_TEXT: bytes; lists: items at most */
	const char *fallback; /* the default as one would write it; NULL: must be given; "" for an empty text or list */
	const char *unit;     /* what the number counts, for messages; may be NULL */
	uint64_t low, high;
	double float_low, float_high;
	bool float_below;      /* float_high itself is too much */
	const char *zero_word; /* a word that stands for 0, of a float for NaN: "auto"; may be NULL */
	const struct choice *choices;
	uint32_t choices_count;
	enum key_class of;
	bool of_weights; /* weights mean something else with another value: verbs that take weights compare it */
};

const struct key *job_schema(uint32_t *count);
/* The row of a whole path, or NULL. */
const struct key *job_schema_find(const char *path);
/* True when `path` is a map that holds keys ("" is the file itself). */
bool job_schema_is_map(const char *path);
/* The names directly inside map `path`, each once: borrowed from names (JOB_KEYS_MAX). Returns how many. */
uint32_t job_schema_children(const char *path, char names[][JOB_KEY_BYTES_MAX]);
/* "data", "training". */
const char *key_class_name(enum key_class c);
/* The value of a key in its canonical form; cut at the end of out. */
struct job;
void job_key_text(const struct job *job, const struct key *key, char *out, size_t bytes);
/* A text that is read as the same number, of 6 digits where they suffice. */
void job_float_text(float value, char *out, size_t bytes);
/* "a whole number from 1 to 256 (servers)". */
void job_schema_expected(const struct key *key, char out[JOB_EXPECTED_BYTES]);

#endif
