#include "cli/observe/job_pages.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/core/history.h"
#include "cli/observe/run_page.h"
#include "cli/observe/status_json.h"
#include "common/base/exposition.h"
#include "common/metrics/monitor.h"
#include "overview/overview_metrics.h"

/* The content of job_page.html, unchanged, and a NUL. */
__asm__(".pushsection .rodata\n"
        ".global job_page_html\n"
        "job_page_html: .incbin \"" JOB_PAGE_HTML "\"\n"
        ".byte 0\n"
        ".popsection\n");

struct job_pages {
	struct monitor *monitor;
	const char *name;
	char *settings;                                           /* the page /settings.json; may be NULL */
	const char *names[OPTION_LIST_MAX + WEIR_HTTP_NAMES_MAX]; /* host names of the pages */
	/* used only by the thread that notes polls */
	struct history history;
	pthread_mutex_t lock; /* guards the following fields */
	/* of the last poll; NULL: none, and `why` gives the reason */
	char *json, *series;
	weir_error why;
};

static weir_status show_series(void *arg, FILE *out, weir_error *err)
{
	struct job_pages *p = arg;
	pthread_mutex_lock(&p->lock);
	const weir_status status = p->series ? WEIR_OK : weir_fail(err, p->why.status, "%s", p->why.text);
	if (p->series)
		fputs(p->series, out);
	pthread_mutex_unlock(&p->lock);
	return status;
}

static weir_status is_ready(void *arg, weir_error *err)
{
	struct job_pages *p = arg;
	pthread_mutex_lock(&p->lock);
	const weir_status status = p->series ? WEIR_OK : weir_fail(err, p->why.status, "%s", p->why.text);
	pthread_mutex_unlock(&p->lock);
	return status;
}

static bool make_page(void *arg, const char *path, struct http_page *out)
{
	struct job_pages *p = arg;
	if (strcmp(path, "/") == 0) {
		*out = (struct http_page){.code = HTTP_OK, .type = "text/html; charset=utf-8", .text = strdup(job_page_html)};
		return true;
	}
	if (strcmp(path, "/settings.json") == 0 && p->settings) {
		*out = (struct http_page){.code = HTTP_OK, .type = "application/json", .text = strdup(p->settings)};
		return true;
	}
	if (strcmp(path, "/status.json") != 0)
		return false;
	pthread_mutex_lock(&p->lock);
	if (p->json)
		*out = (struct http_page){.code = HTTP_OK, .type = "application/json", .text = strdup(p->json)};
	else
		*out = (struct http_page){.code = HTTP_UNAVAILABLE, .type = "text/plain; charset=utf-8", .text = strdup(p->why.text)};
	pthread_mutex_unlock(&p->lock);
	return true;
}

static struct http_names all_names(struct job_pages *p, const struct job_pages_options *o)
{
	uint32_t count = 0;
	for (uint32_t i = 0; i < o->names->count; i++)
		p->names[count++] = o->names->items[i];
	for (uint32_t i = 0; o->job && i < o->job->metrics.names_count; i++)
		p->names[count++] = o->job->metrics.names[i];
	return (struct http_names){p->names, count};
}

static char *settings_text(const struct job_resolved *settings)
{
	struct json *j = settings ? json_create() : NULL;
	if (!j)
		return NULL;
	run_page_put_settings(j, settings);
	char *text = json_text(j);
	json_destroy(j);
	return text;
}

weir_status job_pages_start(struct job_pages **out, const struct job_pages_options *o, weir_error *err)
{
	struct job_pages *p = calloc(1, sizeof *p);
	*out = NULL;
	if (!p)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory");
	p->name = o->name;
	p->settings = settings_text(o->settings);
	pthread_mutex_init(&p->lock, NULL);
	weir_fail(&p->why, WEIR_E_UNAVAILABLE, "%s has not been asked yet", o->name);
	const weir_status status = monitor_start(&p->monitor,
	                                         &(struct monitor_options){.address = o->address,
	                                                                   .names = all_names(p, o),
	                                                                   .series = show_series,
	                                                                   .ready = is_ready,
	                                                                   .page = make_page,
	                                                                   .arg = p},
	                                         err);
	if (status) {
		job_pages_stop(p);
		return status;
	}
	*out = p;
	return WEIR_OK;
}

const char *job_pages_address(const struct job_pages *p)
{
	return monitor_address(p->monitor);
}

static void replace(struct job_pages *p, char *json, char *series, const weir_error *why)
{
	pthread_mutex_lock(&p->lock);
	free(p->json);
	free(p->series);
	p->json = json;
	p->series = series;
	p->why = *why;
	pthread_mutex_unlock(&p->lock);
}

static char *json_of(const struct job_pages *p, const struct overview *s, const struct run_energy *energy)
{
	struct json *j = status_json(s);
	if (!j)
		return NULL;
	json_set_text(j, "job", p->name);
	if (energy)
		report_put_energy(j, energy);
	history_put(j, &p->history);
	char *text = json_text(j);
	json_destroy(j);
	return text;
}

/* Writes the energy that is known, by what used it. */
static void put_energy(FILE *out, const struct energy_used *e)
{
	static const char name[] = "weir_energy_joules_total";
	exposition_header(out, name, "counter", "Energy that the machine of weir train used since it began to train.");
	if (e->of_cpu) {
		fputs(name, out);
		exposition_label(out, "source", "cpu");
		fputs("}", out);
		exposition_value(out, e->cpu);
	}
	if (e->of_gpu) {
		fputs(name, out);
		exposition_label(out, "source", "gpu");
		fputs("}", out);
		exposition_value(out, e->gpu);
	}
}

static char *series_of(const struct overview *s, const struct run_energy *energy)
{
	char *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);
	if (!out)
		return NULL;
	overview_series(out, s);
	if (energy && (energy->used.of_cpu || energy->used.of_gpu))
		put_energy(out, &energy->used);
	if (fclose(out) == 0)
		return text;
	free(text);
	return NULL;
}

void job_pages_note(struct job_pages *p, const struct overview *s, const struct run_energy *energy, int64_t now_ms)
{
	weir_error why = {0};
	if (!p)
		return;
	history_note(&p->history, s, now_ms);
	weir_fail(&why, WEIR_E_MEMORY, "out of memory");
	replace(p, json_of(p, s, energy), series_of(s, energy), &why);
}

void job_pages_note_failure(struct job_pages *p, const weir_error *why)
{
	if (p)
		replace(p, NULL, NULL, why);
}

void job_pages_stop(struct job_pages *p)
{
	if (!p)
		return;
	monitor_stop(p->monitor);
	free(p->json);
	free(p->series);
	free(p->settings);
	pthread_mutex_destroy(&p->lock);
	free(p);
}
