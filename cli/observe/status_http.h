/* `weir status --http`: what a running job says about itself, over HTTP (job_pages.h). */
#ifndef WEIR_STATUS_HTTP_H
#define WEIR_STATUS_HTTP_H

#include "cli/core/status_poller.h"
#include "cli/observe/job_pages.h"

struct status_http_options {
	struct job_pages_options pages;
	/* Opens a watcher of the job; again after one that could not ask it, as the job may be elsewhere then. */
	weir_status (*open)(void *arg, struct watcher **out, weir_error *err);
	void *arg;
};

/* Looks at it every two seconds until SIGINT or SIGTERM, whether the job runs or not. Says on stdout where. Before any thread is made. */
weir_status status_http(const struct status_http_options *options, weir_error *err) WEIR_MUST_CHECK;

#endif
