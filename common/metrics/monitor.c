#include "common/metrics/monitor.h"

#include <stdlib.h>
#include <string.h>

#include "common/system/gpu.h"
#include "common/system/process.h"

#define TEXT       "text/plain; charset=utf-8"
#define EXPOSITION "text/plain; version=0.0.4; charset=utf-8"

struct monitor {
	struct monitor_options options;
	struct gpu *gpu; /* NULL: no GPU, or none requested */
	struct http_server *server;
};

static weir_status write_series(const struct monitor *m, FILE *out, weir_error *err)
{
	const struct monitor_options *o = &m->options;
	process_series(out);
	gpu_series(m->gpu, out);
	if (o->metrics)
		metrics_series(out, o->metrics);
	return o->series ? o->series(o->arg, out, err) : WEIR_OK;
}

static weir_status series(const struct monitor *m, char **text, weir_error *err)
{
	size_t bytes = 0;
	FILE *out = open_memstream(text, &bytes);
	weir_status status = out ? write_series(m, out, err) : WEIR_OK;
	if (out && fclose(out) == 0)
		return status;
	free(*text);
	*text = NULL;
	return weir_fail(err, WEIR_E_MEMORY, "out of memory");
}

/* In the exposition format, a line that is not a sample is a comment: the page of a failed scrape
 * gives the reason to its reader. */
static char *comment(const char *text)
{
	char *out = NULL;
	return asprintf(&out, "# %s\n", text) < 0 ? NULL : out;
}

static void series_page(const struct monitor *m, struct http_page *out)
{
	weir_error err = {0};
	*out = (struct http_page){.code = HTTP_OK, .type = EXPOSITION};
	if (series(m, &out->text, &err) == WEIR_OK)
		return;
	free(out->text);
	out->code = HTTP_UNAVAILABLE;
	out->text = comment(err.text);
}

static void ready_page(const struct monitor *m, struct http_page *out)
{
	weir_error err = {0};
	const weir_status status = m->options.ready ? m->options.ready(m->options.arg, &err) : WEIR_OK;
	*out = (struct http_page){
	    .code = status ? HTTP_UNAVAILABLE : HTTP_OK, .type = TEXT, .text = status ? comment(err.text) : strdup("ready\n")};
}

static void make_page(void *arg, const char *path, struct http_page *out)
{
	const struct monitor *m = arg;
	if (strcmp(path, "/metrics") == 0) {
		series_page(m, out);
		return;
	}
	if (strcmp(path, "/readyz") == 0) {
		ready_page(m, out);
		return;
	}
	if (m->options.page && m->options.page(m->options.arg, path, out))
		return;
	const bool health = strcmp(path, "/healthz") == 0;
	*out = (struct http_page){.code = health ? HTTP_OK : HTTP_NOT_FOUND,
	                          .type = TEXT,
	                          .text = strdup(health ? "ok\n" : "there are /metrics, /healthz and /readyz\n")};
}

weir_status monitor_start(struct monitor **out, const struct monitor_options *options, weir_error *err)
{
	struct monitor *m = calloc(1, sizeof *m);
	*out = NULL;
	if (!m)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory");
	m->options = *options;
	m->gpu = options->device ? gpu_open(GPU_LIBRARY) : NULL;
	const weir_status status = http_server_start(&m->server, options->address, options->names, make_page, m, err);
	if (status) {
		monitor_stop(m);
		return status;
	}
	*out = m;
	return WEIR_OK;
}

const char *monitor_address(const struct monitor *m)
{
	return http_server_address(m->server);
}

void monitor_stop(struct monitor *m)
{
	if (!m)
		return;
	http_server_stop(m->server);
	gpu_close(m->gpu);
	free(m);
}
