/* Operations in flight of the push and pull benchmarks. */
#include <sys/resource.h>

#include "cli/bench/bench_net.h"

double bench_own_cpu_s(void)
{
	struct rusage own;
	getrusage(RUSAGE_SELF, &own);
	return (double)(own.ru_utime.tv_sec + own.ru_stime.tv_sec) + (double)(own.ru_utime.tv_usec + own.ru_stime.tv_usec) / 1e6;
}

double bench_cpu_s(const struct scratch_server *s)
{
	return scratch_server_cpu_s(s) + bench_own_cpu_s();
}

void bench_flight_init(struct bench_flight *f, uint32_t window)
{
	*f = (struct bench_flight){.window = window};
	pthread_mutex_init(&f->lock, NULL);
	pthread_cond_init(&f->change, NULL);
}

void bench_flight_destroy(struct bench_flight *f)
{
	pthread_cond_destroy(&f->change);
	pthread_mutex_destroy(&f->lock);
}

/* Waits until fewer than `room` operations are in flight. Under lock. */
static weir_status wait_below(struct bench_flight *f, uint32_t room, weir_error *err)
{
	while (f->in_flight >= room)
		pthread_cond_wait(&f->change, &f->lock);
	if (f->failure.status != WEIR_OK)
		*err = f->failure;
	return f->failure.status;
}

weir_status bench_flight_take(struct bench_flight *f, weir_error *err)
{
	pthread_mutex_lock(&f->lock);
	weir_status status = wait_below(f, f->window, err);
	if (status == WEIR_OK)
		f->in_flight++;
	pthread_mutex_unlock(&f->lock);
	return status;
}

weir_status bench_flight_drain(struct bench_flight *f, weir_error *err)
{
	pthread_mutex_lock(&f->lock);
	weir_status status = wait_below(f, 1, err);
	pthread_mutex_unlock(&f->lock);
	return status;
}

void bench_flight_give(struct bench_flight *f)
{
	pthread_mutex_lock(&f->lock);
	f->in_flight--;
	pthread_cond_signal(&f->change);
	pthread_mutex_unlock(&f->lock);
}

void bench_flight_done(void *arg, weir_ticket ticket, weir_status status, const char *text)
{
	(void)ticket;
	struct bench_flight *f = arg;
	pthread_mutex_lock(&f->lock);
	f->in_flight--;
	if (status != WEIR_OK && f->failure.status == WEIR_OK)
		weir_fail(&f->failure, status, "%s", text ? text : weir_status_text(status));
	pthread_cond_signal(&f->change);
	pthread_mutex_unlock(&f->lock);
}
