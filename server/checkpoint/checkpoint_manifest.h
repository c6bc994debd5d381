/* The manifest of a checkpoint: a JSON object that names every file of the checkpoint, with sizes
 * and checksums. It is written last: a checkpoint without a manifest does not exist, and one with a
 * manifest is complete.
 *
 *   PLACE/NAME.json                    the manifest: {"weir_checkpoint": version, "body": {...},
 *                                      "body_xxh3_128": hash of the body's compact, sorted form}
 *   PLACE/files-UUID/NAME.ledger       the ledger's state
 *   PLACE/files-UUID/NAME.p0007.header of a partition: dedup table, steps, counters
 *   PLACE/files-UUID/NAME.p0007.rows   of a partition: rows; a checkpoint may name row files of
 *                                      earlier ones
 *
 * NAME is ck-YYYYMMDDThhmmss.mmmZ-XXXXXXXX: the time it began (UTC), and the first 4 bytes of the
 * job's uuid. Names sort by time. */
#ifndef WEIR_CHECKPOINT_MANIFEST_H
#define WEIR_CHECKPOINT_MANIFEST_H

#include <stdint.h>

#include "server/checkpoint/checkpoint_file.h"
#include "weir/table.h"

#define CHECKPOINT_MANIFEST_VERSION 1u

struct checkpoint_object { /* a file of the checkpoint */
	char name[WEIR_BLOB_NAME_BYTES_MAX];
	struct checkpoint_file_info info; /* rows is 0 for a file without rows */
	uint64_t index;                   /* of a row file: the rows contain every entry up to it */
};

struct checkpoint_partition {
	uint64_t index; /* contains every entry up to this one, none behind it */
	struct checkpoint_object header;
	uint32_t rows_count;
	/* A full file, then files of later changes, oldest first. */
	struct checkpoint_object rows[WEIR_CHECKPOINT_CHAIN_MAX];
};

struct checkpoint_table {
	uint32_t id;
	weir_table_spec spec; /* segments malloc'ed */
};

struct checkpoint_manifest {
	char name[WEIR_CHECKPOINT_NAME_BYTES_MAX];
	char job[WEIR_NAME_BYTES_MAX];
	uint8_t uuid[16];
	uint64_t generation;
	int64_t created_ms; /* since 1970-01-01 UTC */
	uint64_t step;      /* of the job, when the checkpoint began */
	enum row_precision values, slots;
	/* Of the job (fingerprint.h), malloc'ed. NULL: an earlier release wrote the checkpoint, or the
	 * fingerprint was not known. */
	char *fingerprint;
	struct checkpoint_object ledger;
	uint32_t tables_count, partitions_count;
	struct checkpoint_table *tables;         /* (tables_count) malloc'ed */
	struct checkpoint_partition *partitions; /* (partitions_count) malloc'ed */
};

const char *row_precision_name(enum row_precision p); /* "fp32" */
/* Frees its contents; may be all zero. */
void checkpoint_manifest_destroy(struct checkpoint_manifest *m);
void checkpoint_name(char out[WEIR_CHECKPOINT_NAME_BYTES_MAX], const uint8_t uuid[16], int64_t created_ms);
/* The name of a file. suffix: "ledger", "p0007.rows". */
void checkpoint_object_name(char out[WEIR_BLOB_NAME_BYTES_MAX], const uint8_t uuid[16], const char *checkpoint,
                            const char *suffix);

/* Writes NAME.json, which publishes the checkpoint. */
weir_status checkpoint_manifest_write(struct blob_store *s, const struct checkpoint_manifest *m, weir_error *err);
/* E_NOT_FOUND (lists the existing checkpoints), E_CORRUPT, E_VERSION. *out is filled only on
 * success. */
weir_status checkpoint_manifest_read(struct blob_store *s, const char *name, struct checkpoint_manifest *out, weir_error *err);
/* Returns the last checkpoint of a job (by job name) in (generation, step, time) order.
 * E_NOT_FOUND. */
weir_status checkpoint_latest(struct blob_store *s, const char *job, char out[WEIR_CHECKPOINT_NAME_BYTES_MAX], weir_error *err);
/* Returns the last checkpoint of a run, of its generations up to this one, in the same order. *out
 * is filled only on success. E_NOT_FOUND. */
weir_status checkpoint_last_of_run(struct blob_store *s, const uint8_t uuid[16], uint64_t generation,
                                   struct checkpoint_manifest *out, weir_error *err);
/* Reads the rows of a partition, file by file. If a row occurs in several files, the one in the
 * newest file counts. Every block is checked before it is visited: its bytes, and that its rows
 * belong to this partition and fit their table. An error of visit ends the read. */
enum checkpoint_order { CHECKPOINT_OLDEST_FIRST, CHECKPOINT_NEWEST_FIRST };
typedef weir_status (*checkpoint_rows_fn)(void *arg, const struct checkpoint_rows *rows, weir_error *err);
weir_status checkpoint_read_rows(struct blob_store *s, const struct checkpoint_manifest *m, uint32_t partition,
                                 enum checkpoint_order order, checkpoint_rows_fn visit, void *arg, weir_error *err);
/* Reads every byte of every file that the manifest names. *bytes: the number read. */
weir_status checkpoint_verify(struct blob_store *s, const struct checkpoint_manifest *m, uint64_t *bytes, weir_error *err);
/* checkpoint_object_read reads a small file (header, ledger), checked against the manifest; *out is
 * malloc'ed. */
weir_status checkpoint_object_read(struct blob_store *s, const struct checkpoint_object *o, size_t bytes_max, uint8_t **out,
                                   size_t *bytes, weir_error *err);
weir_status checkpoint_object_write(struct blob_store *s, const char *name, const void *data, size_t bytes,
                                    struct checkpoint_object *out, weir_error *err);
/* Returns the begin time for the name of the next checkpoint: now_ms, or later, so that its name
 * sorts behind those of all existing files of this job. */
weir_status checkpoint_next_ms(struct blob_store *s, const uint8_t uuid[16], int64_t now_ms, int64_t *out, weir_error *err);
/* Removes the job's manifests beyond the `keep` latest, except `base` (may be NULL). Then removes
 * every file of this job that no manifest names, except files of checkpoints whose names sort
 * behind `newest`, which may still be in progress. newest NULL: none is in progress. */
weir_status checkpoint_retain(struct blob_store *s, const uint8_t uuid[16], uint32_t keep, const char *base, const char *newest,
                              weir_error *err);

#endif
