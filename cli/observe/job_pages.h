/* A running job over HTTP, for `weir train` and `weir status`. The page / draws /status.json, which
 * holds the output of `weir status --json` and its history, and /settings.json, which holds the
 * job's settings. For Prometheus, it serves the pages of common/metrics/monitor.h. All pages show
 * the last poll that was noted. */
#ifndef WEIR_JOB_PAGES_H
#define WEIR_JOB_PAGES_H

#include <stdint.h>

#include "cli/core/options.h"
#include "cli/observe/report.h"
#include "common/job/job_resolved.h"
#include "overview/overview.h"
#include "weir/status.h"

/* The page / as a text: job_page.html. */
extern const char job_page_html[];

struct job_pages;
struct job_pages_options {
	const char *address; /* as in http_server.h */
	/* --http-name: additional host names that requests may use, besides metrics.names of `job` */
	const struct option_list *names;
	const struct job *job;               /* NULL: only an address is known */
	const char *name;                    /* of the job, or its address */
	const struct job_resolved *settings; /* borrowed; NULL: not known */
};
#define HTTP_NAME_OPTION(list)                                                             \
	{                                                                                      \
		"--http-name", OPTION_LIST, &(list), "HOST",                                       \
		    "another name that the page may be asked for by; may be given again and again" \
	}
weir_status job_pages_start(struct job_pages **out, const struct job_pages_options *options, weir_error *err) WEIR_MUST_CHECK;
const char *job_pages_address(const struct job_pages *p); /* HOST:PORT */
/* Records a poll of the job. energy: of this machine since training began; NULL: not known.
 * now_ms: of any monotonic clock. Call from one thread at a time. p NULL: does nothing. */
void job_pages_note(struct job_pages *p, const struct overview *s, const struct run_energy *energy, int64_t now_ms);
/* Records a failed poll: until the next poll there is nothing to show. */
void job_pages_note_failure(struct job_pages *p, const weir_error *why);
void job_pages_stop(struct job_pages *p); /* NULL is allowed */

#endif
