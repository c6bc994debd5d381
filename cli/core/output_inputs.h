/* Checks that an output (--out, --report) is not a file that the same command reads or that the run
 * keeps. A typing error could otherwise replace data with the scores computed from them.
 *
 * Files are compared by identity, not by name, so that links and other paths to them count. An
 * output that does not exist yet, a device, a pipe and stdout are never an input. */
#ifndef WEIR_OUTPUT_INPUTS_H
#define WEIR_OUTPUT_INPUTS_H

#include "common/job/job.h"
#include "weir/status.h"
#include "worker/data/format/sources.h"

/* what: the name of the input in the error, such as "the job file". E_INVALID: `out` is the file or
 * folder at `input`. */
weir_status output_spares(const char *out, const char *input, const char *what, weir_error *err) WEIR_MUST_CHECK;
/* The same check for each source. */
weir_status output_spares_sources(const char *out, const struct sources *sources, const char *what,
                                  weir_error *err) WEIR_MUST_CHECK;
/* The same check for a job: its file (NULL: none), its data, the weights that it starts from, and
 * the weights and state in run_dir. */
weir_status output_spares_job(const char *out, const struct job *job, const char *job_path, weir_error *err) WEIR_MUST_CHECK;

#endif
