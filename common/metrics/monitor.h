/* What a process shows of itself over HTTP (http_server.h): /metrics for Prometheus, /healthz (it runs), /readyz (it does what it is there for; else 503 and why). */
#ifndef WEIR_MONITOR_H
#define WEIR_MONITOR_H

#include <stdbool.h>
#include <stdio.h>

#include "common/metrics/metrics.h"
#include "common/web/http_server.h"

struct monitor_options {
	const char *address;     /* http_server.h's, */
	struct http_names names; /* as these are */
	struct metrics *metrics; /* borrowed; NULL: none */
	bool device;             /* of the machine's GPUs, too (gpu.h) */
	/* Writes what else there is; an error: nothing is shown of it. May be NULL. */
	weir_status (*series)(void *arg, FILE *out, weir_error *err);
	/* An error: it is not ready. NULL: it always is. */
	weir_status (*ready)(void *arg, weir_error *err);
	/* Makes a page that is none of the three; false: there is no such page. May be NULL. */
	bool (*page)(void *arg, const char *path, struct http_page *out);
	void *arg; /* of these three, which the server's thread alone calls */
};

struct monitor;
weir_status monitor_start(struct monitor **out, const struct monitor_options *options, weir_error *err) WEIR_MUST_CHECK;
const char *monitor_address(const struct monitor *m); /* HOST:PORT */
void monitor_stop(struct monitor *m);                 /* NULL is fine */

#endif
