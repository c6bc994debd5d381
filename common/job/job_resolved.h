/* A job as a person's file, --set and the defaults give it: each key of the schema with its value.
 * A run keeps it as a job file (RUN_DIR/resolved-job.yaml), trackers show it, and two runs are
 * compared by it.
 *
 * A text with ${NAME} stays as it is written, so no secret of the environment leaves it. */
#ifndef WEIR_JOB_RESOLVED_H
#define WEIR_JOB_RESOLVED_H

#include <stdbool.h>
#include <stdint.h>

#include "common/job/job_schema.h"
#include "weir/status.h"

struct job_setting {
	const char *path; /* "tables.dense.optimizer.lr" */
	char *text;       /* in the canonical form of job_key_text: "0.001", "[400, 400]" */
	char *yaml;       /* the same as a value of a job file */
	bool given;       /* by the file or by --set; otherwise it is the default */
	enum key_class of;
};

struct job_resolved {
	struct job_setting *items; /* (count), in the order of the schema */
	uint32_t count;
};

/* Reads a job file's text as job_parse does. */
weir_status job_resolve(const char *text, const char *name, const char *const *sets, uint32_t sets_count,
                        struct job_resolved *out, weir_error *err) WEIR_MUST_CHECK;
/* The same for a file. */
weir_status job_resolve_file(const char *path, struct job_resolved *out, weir_error *err) WEIR_MUST_CHECK;
void job_resolved_destroy(struct job_resolved *r);
const struct job_setting *job_resolved_find(const struct job_resolved *r, const char *path);
/* Writes a job file that gives the same job again: the given keys as YAML, the others as comments.
 * In malloc'ed memory; NULL: out of memory. */
char *job_resolved_yaml(const struct job_resolved *r);

#endif
