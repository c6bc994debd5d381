/* weir show: the page of a run after its end, as one HTML file, or served over HTTP. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/core/options.h"
#include "cli/core/verbs.h"
#include "cli/observe/run_page.h"
#include "cli/verbs/runs_place.h"
#include "common/system/disk.h"
#include "common/system/output.h"
#include "common/system/stop_signals.h"
#include "common/web/http_server.h"

#define PAGE_NAME "run.html"

static weir_status write_page(const char *html, const char *path, weir_error *err)
{
	struct output output;
	weir_status status = output_begin(&output, path, err);
	if (status == WEIR_OK)
		status = output_end(&output, disk_write_file(disk_system(), output.path, html, strlen(html), err), err);
	if (status == WEIR_OK && strcmp(path, "-") != 0)
		printf("%s\n", path);
	return status;
}

static void make_page(void *arg, const char *path, struct http_page *out)
{
	if (strcmp(path, "/") == 0)
		*out = (struct http_page){.code = HTTP_OK, .type = "text/html; charset=utf-8", .text = strdup(arg)};
	else
		*out = (struct http_page){.code = HTTP_NOT_FOUND, .type = "text/plain; charset=utf-8", .text = strdup("no such page\n")};
}

/* Serves the page until SIGINT or SIGTERM. */
static weir_status serve(char *html, const char *address, const struct option_list *names, weir_error *err)
{
	struct http_server *server;
	sigset_t set;
	sigemptyset(&set);
	stop_signals_add(&set);
	pthread_sigmask(SIG_BLOCK, &set, NULL); /* the server's thread inherits it */
	const weir_status status =
	    http_server_start(&server, address, (struct http_names){names->items, names->count}, make_page, html, err);
	if (status != WEIR_OK)
		return status;
	printf("http://%s/\n", http_server_address(server));
	fflush(stdout);
	(void)sigwaitinfo(&set, NULL);
	http_server_stop(server);
	return WEIR_OK;
}

int verb_show(int count, char **args)
{
	char run[RUNS_PATH_BYTES], path[RUNS_PATH_BYTES], *html = NULL;
	const char *name = NULL, *out = NULL, *http = NULL;
	struct option_list names = {0};
	weir_error err = {0};
	const struct option options[] = {
	    {"--out", OPTION_TEXT, &out, "FILE.html", "write the page there; - is stdout"},
	    {"--http", OPTION_TEXT, &http, "[HOST:]PORT", "serve the page until Ctrl-C; on loopback unless HOST is given"},
	    {"--http-name", OPTION_LIST, &names, "HOST",
	     "another name that the page may be asked for by; may be given again and again"}};
	weir_status status = options_parse(count, args, options, sizeof options / sizeof *options, &name, 1, &err);
	if (status == WEIR_OK && !name)
		status = weir_fail(&err, WEIR_E_INVALID, "needs a run: its folder, or its name in " RUNS_FOLDER);
	if (status == WEIR_OK && out && http)
		status = weir_fail(&err, WEIR_E_INVALID, "--out writes the page, --http serves it: give one of them");
	if (status != WEIR_OK)
		return verb_usage("show", &err);
	status = runs_find(name, run, &err);
	if (status == WEIR_OK)
		status = run_page_html(run, NULL, &html, &err);
	snprintf(path, sizeof path, "%.4300s/" PAGE_NAME, run);
	if (status == WEIR_OK)
		status = http ? serve(html, http, &names, &err) : write_page(html, out ? out : path, &err);
	free(html);
	return status == WEIR_OK ? EXIT_SUCCESS : verb_fail("show", &err);
}
