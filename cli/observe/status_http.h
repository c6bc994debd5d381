/* `weir status --http`: the status of a running job over HTTP (job_pages.h). */
#ifndef WEIR_STATUS_HTTP_H
#define WEIR_STATUS_HTTP_H

#include "cli/core/status_poller.h"
#include "cli/observe/job_pages.h"

struct status_http_options {
	struct job_pages_options pages;
	/* Opens a poller of the job. Called again after a failed poll, as the job may have moved. */
	weir_status (*open)(void *arg, struct status_poller **out, weir_error *err);
	void *arg;
};

/* Polls the job every two seconds until SIGINT or SIGTERM, whether the job runs or not. Prints the
 * URL on stdout. Call before creating any thread. */
weir_status status_http(const struct status_http_options *options, weir_error *err) WEIR_MUST_CHECK;

#endif
