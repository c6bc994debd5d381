#include "cli/observe/status_http.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "cli/observe/job_pages.h"
#include "common/base/clock.h"
#include "common/system/stop_signals.h"

#define LOOK_INTERVAL_S 2 /* between two polls */

static void look(const struct status_http_options *o, struct status_poller **w, struct job_pages *pages)
{
	struct overview s = {0};
	weir_error err = {0};
	weir_status status = *w ? WEIR_OK : o->open(o->arg, w, &err);
	if (status == WEIR_OK)
		status = status_poller_poll(*w, WEIR_CONTROL_TIMEOUT_MS, &s, &err);
	if (status == WEIR_OK) {
		job_pages_note(pages, &s, NULL, clock_ms(clock_system()));
	} else {
		job_pages_note_failure(pages, &err);
		status_poller_close(*w); /* the job may have moved */
		*w = NULL;
	}
	overview_destroy(&s);
}

weir_status status_http(const struct status_http_options *options, weir_error *err)
{
	const struct timespec pause = {.tv_sec = LOOK_INTERVAL_S};
	struct status_poller *poller = NULL;
	struct job_pages *pages;
	sigset_t set;
	sigemptyset(&set);
	stop_signals_add(&set);
	pthread_sigmask(SIG_BLOCK, &set, NULL); /* threads inherit it */
	weir_status status = job_pages_start(&pages, &options->pages, err);
	if (status != WEIR_OK)
		return status;
	printf("http://%s/\n", job_pages_address(pages));
	fflush(stdout);
	do
		look(options, &poller, pages);
	while (sigtimedwait(&set, NULL, &pause) < 0);
	job_pages_stop(pages);
	status_poller_close(poller);
	return WEIR_OK;
}
