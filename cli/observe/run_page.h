/* The page of a run after its end: the page of a running job (job_page.html) with the run's data in
 * it, as one HTML file that loads nothing. The data come from the run's folder: the curves from its
 * events, the last state from status.json, the settings from resolved-job.yaml. What an interrupted
 * run lacks, the page leaves out. */
#ifndef WEIR_RUN_PAGE_H
#define WEIR_RUN_PAGE_H

#include "common/job/job_resolved.h"
#include "common/web/json.h"
#include "weir/status.h"

#define RUN_STATUS_FILE   "status.json"
#define RUN_RESOLVED_FILE "resolved-job.yaml"

/* run_dir: of the run; track_dir: of its events; NULL: as resolved-job.yaml says, else run_dir.
 * *out: malloc'ed. E_MEMORY, E_IO. */
weir_status run_page_html(const char *run_dir, const char *track_dir, char **out, weir_error *err) WEIR_MUST_CHECK;
/* Adds the list `settings` of the settings: key, value, whether it is given. */
void run_page_put_settings(struct json *j, const struct job_resolved *settings);

#endif
