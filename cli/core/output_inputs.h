/* That an output (--out, --report) is not a file which the same command reads, or which the run keeps. A slip of the pen would
 * put scores in place of the data that they are of.
 *
 * Files are compared by what they are, not by name, so that links and other paths to them count. An output that is not there
 * yet, a device, a pipe and stdout are never an input. */
#ifndef WEIR_OUTPUT_INPUTS_H
#define WEIR_OUTPUT_INPUTS_H

#include "common/job/job.h"
#include "weir/status.h"
#include "worker/data/format/sources.h"

/* what: how the error calls the input, "the job file". E_INVALID: `out` is the file or folder at `input`. */
weir_status output_spares(const char *out, const char *input, const char *what, weir_error *err) WEIR_MUST_CHECK;
/* The same of each of them. */
weir_status output_spares_sources(const char *out, const struct sources *sources, const char *what,
                                  weir_error *err) WEIR_MUST_CHECK;
/* The same of a job: its file (NULL: none), its data, what it begins with, and the weights and state in run_dir. */
weir_status output_spares_job(const char *out, const struct job *job, const char *job_path, weir_error *err) WEIR_MUST_CHECK;

#endif
