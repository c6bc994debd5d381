/* The HTTP pages of a process (http_server.h): /metrics for Prometheus, /healthz (the process
 * runs), and /readyz (it is ready to work; otherwise 503 and the reason). */
#ifndef WEIR_MONITOR_H
#define WEIR_MONITOR_H

#include <stdbool.h>
#include <stdio.h>

#include "common/metrics/metrics.h"
#include "common/web/http_server.h"

struct monitor_options {
	const char *address;     /* as for http_server_start */
	struct http_names names; /* as for http_server_start */
	struct metrics *metrics; /* borrowed; NULL: no metrics */
	bool device;             /* whether to show the machine's GPUs too (gpu.h) */
	/* Writes further series. After an error, none of them is shown. May be NULL. */
	weir_status (*series)(void *arg, FILE *out, weir_error *err);
	/* An error: the process is not ready. NULL: it is always ready. */
	weir_status (*ready)(void *arg, weir_error *err);
	/* Makes any other page; false: there is no such page. May be NULL. */
	bool (*page)(void *arg, const char *path, struct http_page *out);
	void *arg; /* for these three functions; only the server's thread calls them */
};

struct monitor;
weir_status monitor_start(struct monitor **out, const struct monitor_options *options, weir_error *err) WEIR_MUST_CHECK;
const char *monitor_address(const struct monitor *m); /* HOST:PORT */
void monitor_stop(struct monitor *m);                 /* NULL is allowed */

#endif
