/* Data: files cut into units, units read as batches. What follows is said of click data; of text (data.format: text) it holds with the examples of corpus.h for
 * rows, in units of exact ranges, without a cache; of tokens (data.format: tokens) with the sequences of sequences.h for rows, in such units, from token files
 * or from a cache of texts (token_cache.h).
 *
 * A dataset is a list of files (after globbing, sorted) cut into units: packed files by exact row ranges (unit_batches * batch rows),
 * plain text by byte ranges of about that many rows aligned at line starts, gzip and LZ4 files whole. The cut is a function of files
 * and settings only, so every worker computes the same one; `fingerprint` proves it. The order of rows inside a unit is a function of
 * (seed, pass, unit). A split by crc32 cuts the files of data.train in three; a part with files of its own (data.valid, data.test) is
 * all of them. Formats are described in parse.h, the packed file in packed.h. Threads parse; bad lines are counted, the first few
 * logged with file:line, and beyond the limit the unit (the cache's building) fails. */
#ifndef WEIR_DATASET_H
#define WEIR_DATASET_H

#include <stdbool.h>
#include <stdint.h>

#include "common/job/job.h"
#include "common/system/logger.h"
#include "weir/status.h"
#include "worker/data/format/batch.h"

struct dataset_info {
	uint64_t fingerprint, rows; /* rows 0: unknown */
	uint64_t bad_lines;         /* left out of packed data, or of tokens, when it was built; of text, unit_bad_lines tells */
	uint32_t units, fields, dense_dim;
	uint32_t context;      /* text; else 0 */
	uint32_t sequence;     /* tokens; else 0 */
	uint32_t vocabulary;   /* tokens: each is below this */
	uint8_t tokenizer[16]; /* tokens: its fingerprint */
	bool one_hot;          /* every bag has exactly one key and no values */
};

struct dataset;
/* Opens the part of the job's data; builds or reuses the packed cache when data.cache is on (one process builds, others wait on its lock).
 * Errors name the file. */
weir_status dataset_open(struct dataset **out, const struct job *job, enum split_part part, struct logger *logger,
                         weir_error *err);
/* Opens data for scoring alone. Every line becomes a row, in the order of the files; a broken line
 * has the label LABEL_BAD, a blank one LABEL_BLANK. Rows need no labels. Packed data, text and
 * tokens have no lines: they open as with dataset_open. */
struct dataset_scored {
	uint32_t fields; /* those of the model, where data.fields does not say it; 0: not known */
	bool unlabelled; /* libsvm: the rows have no labels, whatever they look like */
};
weir_status dataset_open_scored(struct dataset **out, const struct job *job, enum split_part part, const struct dataset_scored *o,
                                struct logger *logger, weir_error *err);
const struct dataset_info *dataset_get_info(const struct dataset *d);
/* How many batches a unit has; 0: that is not known before it is read. */
uint32_t dataset_unit_batches(const struct dataset *d, uint32_t data_unit);
/* What the part's files hold, told by their content (content.h); *train: they are those of data.train, of which this part is a
 * share. */
weir_status dataset_content(const struct dataset *d, bool *train, char out[WEIR_FINGERPRINT_VALUE_BYTES],
                            weir_error *err) WEIR_MUST_CHECK;
/* "rows 81 to 96 of train.svm". */
#define DATASET_UNIT_BYTES 512u
void dataset_describe_unit(const struct dataset *d, uint32_t data_unit, char out[DATASET_UNIT_BYTES]);
void dataset_close(struct dataset *d);

/* Finds out which labels click data have: reads until both are seen, or DATASET_LABEL_ROWS rows.
 * E_INVALID: there is no row. */
#define DATASET_LABEL_ROWS (1u << 22)
struct dataset_labels {
	uint64_t rows, bad_lines; /* as far as was read */
	bool positive, negative;  /* of rows with a weight above 0 */
};
weir_status dataset_see_labels(struct dataset *d, struct dataset_labels *out, weir_error *err);

/* The lines behind the rows of dataset_open_scored, in the same order. */
struct dataset_lines;
weir_status dataset_lines_open(struct dataset_lines **out, const struct dataset *d,
                               weir_error *err); /* E_INVALID: the data are no lines */
/* The file of the next line (the dataset owns its name) and its number, from 1. E_NOT_FOUND: there
 * are no more. */
weir_status dataset_lines_next(struct dataset_lines *l, const char **file, uint64_t *line, weir_error *err);
void dataset_lines_close(struct dataset_lines *l); /* NULL is allowed */

/* Reads one unit: `order_seed` shuffles its rows (0: as in the file). Blocking; call from a prefetch thread. */
struct unit_reader;
weir_status unit_open(struct unit_reader **out, struct dataset *d, uint32_t data_unit, uint64_t order_seed, weir_error *err);
uint32_t unit_batches(const struct unit_reader *u);
uint64_t unit_bad_lines(const struct unit_reader *u);
/* A hash of all its examples, in no order: the same whichever way they are shuffled. Never 0. */
weir_status unit_content(const struct unit_reader *u, uint64_t *out, weir_error *err) WEIR_MUST_CHECK;
/* Batch i of the unit, in any order (a re-leased unit starts at its watermark). Reuses b's memory when it fits. */
weir_status unit_read(struct unit_reader *u, uint32_t i, struct batch *b, weir_error *err);
void unit_close(struct unit_reader *u);

#endif
