/* A running job over HTTP, for `weir train` and `weir status`: / for people, a page that draws what /status.json says (`weir status --json`, and how it came to that), and
 * what common/metrics/monitor.h has, for Prometheus. All show the last look that was noted. */
#ifndef WEIR_JOB_PAGES_H
#define WEIR_JOB_PAGES_H

#include <stdint.h>

#include "cli/core/options.h"
#include "overview/overview.h"
#include "weir/status.h"

struct job_pages;
struct job_pages_options {
	const char *address;             /* http_server.h's */
	const struct option_list *names; /* --http-name: host names that may be asked for, beside metrics.names of `job` */
	const struct job *job;           /* NULL: only an address is known */
	const char *name;                /* of the job, or where it is */
};
#define HTTP_NAME_OPTION(list)                                                             \
	{                                                                                      \
		"--http-name", OPTION_LIST, &(list), "HOST",                                       \
		    "another name that the page may be asked for by; may be given again and again" \
	}
weir_status job_pages_start(struct job_pages **out, const struct job_pages_options *options, weir_error *err) WEIR_MUST_CHECK;
const char *job_pages_address(const struct job_pages *p); /* HOST:PORT */
/* A look at the job; now_ms: of any clock that does not go back. From one thread at a time. p NULL: nobody looks. */
void job_pages_note(struct job_pages *p, const struct overview *s, int64_t now_ms);
/* It could not be asked: until the next look there is nothing to see. */
void job_pages_note_failure(struct job_pages *p, const weir_error *why);
void job_pages_stop(struct job_pages *p); /* NULL is fine */

#endif
