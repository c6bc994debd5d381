#include "status_http.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "http_server.h"
#include "overview_metrics.h"

#define TEXT       "text/plain; charset=utf-8"
#define EXPOSITION "text/plain; version=0.0.4; charset=utf-8"

/* The server's thread has it. */
struct pages {
	const struct status_http_options *options;
	struct watcher *watcher; /* NULL: not open */
};

static weir_status ask(struct pages *p, struct overview *out, weir_error *err)
{
	weir_status status = p->watcher ? WEIR_OK : p->options->open(p->options->arg, &p->watcher, err);
	if (status == WEIR_OK)
		status = watcher_poll(p->watcher, WEIR_CONTROL_TIMEOUT_MS, out, err);
	if (status != WEIR_OK) {
		watcher_close(p->watcher);
		p->watcher = NULL;
	}
	return status;
}

/* In exposition format a line that is no sample is a comment: a scrape that fails says why to whoever looks. */
static char *say(const char *text)
{
	char *out = NULL;
	return asprintf(&out, "# %s\n", text) < 0 ? NULL : out;
}

static void job_page(struct pages *p, bool metrics, struct http_page *out)
{
	struct overview s = {0};
	weir_error err = {0};
	const weir_status status = ask(p, &s, &err);
	out->code = status == WEIR_OK ? HTTP_OK : HTTP_UNAVAILABLE;
	out->type = metrics ? EXPOSITION : TEXT;
	if (status != WEIR_OK)
		out->text = say(err.text);
	else
		out->text = metrics ? overview_metrics(&s) : strdup("ready\n");
	overview_free(&s);
}

static void make_page(void *arg, const char *path, struct http_page *out)
{
	if (strcmp(path, "/metrics") == 0 || strcmp(path, "/readyz") == 0) {
		job_page(arg, path[1] == 'm', out);
		return;
	}
	const bool health = strcmp(path, "/healthz") == 0;
	*out = (struct http_page){.code = health ? HTTP_OK : HTTP_NOT_FOUND,
	                          .type = TEXT,
	                          .text = strdup(health ? "ok\n" : "there are /metrics, /healthz and /readyz\n")};
}

weir_status status_http(const struct status_http_options *options, weir_error *err)
{
	struct pages pages = {.options = options};
	struct http_server *server;
	sigset_t set;
	int got;
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	pthread_sigmask(SIG_BLOCK, &set, NULL); /* threads inherit it */
	weir_status status = http_server_start(&server, options->address, make_page, &pages, err);
	if (status != WEIR_OK)
		return status;
	printf("http://%s/metrics\n", http_server_address(server));
	fflush(stdout);
	sigwait(&set, &got);
	http_server_stop(server);
	watcher_close(pages.watcher);
	return WEIR_OK;
}
