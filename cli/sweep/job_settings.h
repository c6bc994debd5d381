/* Writes settings into the text of a job file. */
#ifndef WEIR_JOB_SETTINGS_H
#define WEIR_JOB_SETTINGS_H

#include <stdint.h>

#include "weir/status.h"

/* Returns the job file with these settings ("A.B=VALUE", values as YAML) in place of its own, in
 * malloc'ed memory; comments are lost. path: the file's name in messages. The text must have been
 * read as a job with these settings before. */
weir_status job_settings_write(const char *text, const char *path, const char *const *sets, uint32_t count, char **out,
                               weir_error *err) WEIR_MUST_CHECK;

#endif
