/* Datasets: files cut into units, and units read as batches.
 *
 * A dataset is a list of files (globs expanded, then sorted) cut into units. Packed files are cut
 * by exact row ranges (unit_batches * batch rows). Plain text is cut by byte ranges of about as
 * many rows, aligned at line starts. gzip and LZ4 files are whole units. The cut depends only on
 * files and settings, so that every worker computes the same one; `fingerprint` proves it. The
 * order of rows inside a unit depends only on (seed, pass, unit); a pass over the data is elsewhere
 * called an epoch.
 *
 * A split cuts the files of data.train in three. A part with files of its own (data.valid,
 * data.test) has all of their rows. parse.h describes the text formats, packed.h the packed file.
 * Several threads parse. Bad lines are counted and the first few logged with file:line. Beyond the
 * limit, the unit fails, or the building of the cache.
 *
 * Packed files hold the numbers of columns to scale (transform standard, minmax) as they are; a
 * batch has them scaled. column_facts.h finds the scales, before a dataset is opened.
 *
 * The above holds for click data. With data.format text, rows are the examples of corpus.h, in
 * units of exact ranges, without a cache. With data.format tokens, rows are the sequences of
 * sequences.h, in such units, from token files or from a cache of texts (token_cache.h). */
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
	/* Lines left out of packed data or tokens when these were built. For text, see
	 * unit_bad_lines. */
	uint64_t bad_lines;
	uint32_t units, fields, dense_dim;
	uint32_t tasks;        /* click data: labels of a row; else 0 */
	uint32_t context;      /* text data; else 0 */
	uint32_t sequence;     /* token data; else 0 */
	uint32_t vocabulary;   /* token data: each token is below this */
	uint8_t tokenizer[16]; /* token data: the tokenizer's fingerprint */
	bool one_hot;          /* every bag has exactly one key and no values */
};

struct dataset;
/* Opens one part of the job's data. With data.cache on, builds or reuses the packed cache; one
 * process builds it while others wait for its lock. Errors name the file. */
weir_status dataset_open(struct dataset **out, const struct job *job, enum split_part part, struct logger *logger,
                         weir_error *err);
/* Opens data for scoring only. Every line becomes a row, in the order of the files. A broken line
 * has the label LABEL_BAD, a blank one LABEL_BLANK. Rows need no labels. Packed data, text and
 * tokens have no lines and open as with dataset_open. */
struct dataset_scored {
	uint32_t fields; /* the model's fields, used without data.fields; 0: unknown */
	bool unlabelled; /* libsvm, libffm: rows have no labels, even if they look labelled */
};
weir_status dataset_open_scored(struct dataset **out, const struct job *job, enum split_part part, const struct dataset_scored *o,
                                struct logger *logger, weir_error *err);
const struct dataset_info *dataset_get_info(const struct dataset *d);
/* Returns the number of batches in a unit; 0: unknown until the unit is read. */
uint32_t dataset_unit_batches(const struct dataset *d, uint32_t data_unit);
/* Identifies the part's files by their content (content.h). *train: the files are those of
 * data.train, of which this part has a share. */
weir_status dataset_content(const struct dataset *d, bool *train, char out[WEIR_FINGERPRINT_VALUE_BYTES],
                            weir_error *err) WEIR_MUST_CHECK;
/* Describes a unit: "rows 81 to 96 of train.svm". */
#define DATASET_UNIT_BYTES 512u
void dataset_describe_unit(const struct dataset *d, uint32_t data_unit, char out[DATASET_UNIT_BYTES]);
void dataset_close(struct dataset *d);

/* Finds out which labels click data have. Reads until it has seen both of each task, or
 * DATASET_LABEL_ROWS rows. E_INVALID: there is no row. */
#define DATASET_LABEL_ROWS (1u << 22)
struct dataset_labels {
	uint64_t rows, bad_lines; /* of what was read */
	/* bit t: of task t, of rows with a weight above 0 */
	uint64_t positive, negative;
};
weir_status dataset_see_labels(struct dataset *d, struct dataset_labels *out, weir_error *err);

/* The lines behind the rows of dataset_open_scored, in the same order; of Parquet and Arrow files
 * their rows. */
struct dataset_lines;
/* E_INVALID: the data have no lines. */
weir_status dataset_lines_open(struct dataset_lines **out, const struct dataset *d, weir_error *err);
/* Returns the next line's file, whose name the dataset owns, and its number, from 1. E_NOT_FOUND:
 * there are no more lines. */
weir_status dataset_lines_next(struct dataset_lines *l, const char **file, uint64_t *line, weir_error *err);
/* Finds a column of the files by its name. E_INVALID: the data have no named columns, or it is of
 * kind ignore, which only CSV reads; E_NOT_FOUND: no such column; the message has the nearest. */
weir_status dataset_lines_find(const struct dataset_lines *l, const char *name, uint32_t *column, weir_error *err);
/* The cell of a column in the last line, valid until the next call; "" in a row that is broken. */
struct dataset_cell {
	const char *text;
	size_t n;
	bool list; /* of JSON: texts with a zero byte between two of them */
};
struct dataset_cell dataset_lines_cell(struct dataset_lines *l, uint32_t column);
void dataset_lines_close(struct dataset_lines *l); /* NULL is allowed */

/* Reads one unit. `order_seed` shuffles its rows; 0 keeps the order of the file. Blocks: call it
 * from a prefetch thread. */
struct unit_reader;
weir_status unit_open(struct unit_reader **out, struct dataset *d, uint32_t data_unit, uint64_t order_seed, weir_error *err);
uint32_t unit_batches(const struct unit_reader *u);
uint64_t unit_bad_lines(const struct unit_reader *u);
/* Hashes all examples of the unit, independent of their order. Never 0. A shuffled unit of text or
 * tokens has other examples, and so another hash, than an unshuffled one; all shuffles agree. */
weir_status unit_content(const struct unit_reader *u, uint64_t *out, weir_error *err) WEIR_MUST_CHECK;
/* Reads batch i of the unit. Batches may be read in any order, as a re-leased unit starts at its
 * watermark. Reuses b's memory if it is large enough. */
weir_status unit_read(struct unit_reader *u, uint32_t i, struct batch *b, weir_error *err);
void unit_close(struct unit_reader *u);

#endif
