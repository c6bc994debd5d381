#include "cli/profile/profile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/codec_traits.h"
#include "kernels/backend_traced.h"
#include "proto/rpc/rpc.h"

#define WORKER_PROGRAM "weir-worker"

/* --- One clock */

static void shift(struct trace_process *t, int64_t shift_ns)
{
	t->began_ns += shift_ns;
	t->ended_ns += shift_ns;
	for (uint32_t i = 0; i < t->threads_count; i++)
		for (uint64_t j = 0; j < t->threads[i].count; j++)
			t->threads[i].spans[j].begun_ns += shift_ns;
}

weir_status profile_add(struct profile *p, bool is_server, const uint8_t *dump, size_t bytes, int64_t shift_ns, uint64_t error_ns,
                        weir_error *err)
{
	struct profile_process *more = realloc(p->processes, (p->count + 1u) * sizeof *more);
	if (!more)
		return weir_fail(err, WEIR_E_MEMORY, "no memory for a profile");
	p->processes = more;
	struct profile_process *x = &more[p->count];
	*x = (struct profile_process){.is_server = is_server, .error_ns = error_ns};
	const weir_status status = trace_dump_read(dump, bytes, &x->is, err);
	if (status) {
		trace_process_destroy(&x->is);
		return status;
	}
	p->count++;
	p->servers += is_server;
	p->workers += !is_server;
	if (!is_server)
		x->error_ns += x->is.error_ns;
	shift(&x->is, shift_ns + (is_server ? 0 : x->is.offset_ns));
	return WEIR_OK;
}

void profile_destroy(struct profile *p)
{
	for (uint32_t i = 0; i < p->count; i++)
		trace_process_destroy(&p->processes[i].is);
	free(p->processes);
	*p = (struct profile){0};
}

/* --- The window */

static int by_role_and_name(const void *a, const void *b)
{
	const struct profile_process *x = a, *y = b;
	if (x->is_server != y->is_server)
		return x->is_server ? -1 : 1;
	const size_t n = strlen(x->is.name), m = strlen(y->is.name);
	return n != m ? (n < m ? -1 : 1) : strcmp(x->is.name, y->is.name); /* worker-9 before worker-10 */
}

/* Spans are recorded when they end, so a thread that lost some has all that ended later. */
static int64_t complete_since(const struct trace_thread *t)
{
	return t->lost && t->count ? span_end_ns(&t->spans[0]) : INT64_MIN;
}

static void narrow(struct profile *p, const struct profile_process *x)
{
	int64_t began_ns = x->is.began_ns;
	p->lost += x->is.lost;
	p->error_ns = x->error_ns > p->error_ns ? x->error_ns : p->error_ns;
	for (uint32_t i = 0; i < x->is.threads_count; i++) {
		const struct trace_thread *t = &x->is.threads[i];
		const int64_t since_ns = complete_since(t);
		began_ns = since_ns > began_ns ? since_ns : began_ns;
		p->spans += t->count;
		p->lost += t->lost;
	}
	p->began_ns = began_ns > p->began_ns ? began_ns : p->began_ns;
	p->ended_ns = x->is.ended_ns < p->ended_ns ? x->is.ended_ns : p->ended_ns;
}

weir_status profile_finish(struct profile *p, weir_error *err)
{
	if (p->count)
		qsort(p->processes, p->count, sizeof *p->processes, by_role_and_name);
	p->began_ns = INT64_MIN;
	p->ended_ns = INT64_MAX;
	for (uint32_t i = 0; i < p->count; i++)
		narrow(p, &p->processes[i]);
	if (p->count == 0 || p->ended_ns <= p->began_ns)
		return weir_fail(err, WEIR_E_STATE,
		                 "the processes recorded at no common time: %u of them, %llu spans kept, %llu lost; trace for a shorter "
		                 "time (--seconds)",
		                 p->count, (unsigned long long)p->spans, (unsigned long long)p->lost);
	return WEIR_OK;
}

/* --- All spans */

static int by_begin(const void *a, const void *b)
{
	const struct trace_span *x = ((const struct profile_place *)a)->span, *y = ((const struct profile_place *)b)->span;
	if (x->begun_ns != y->begun_ns)
		return x->begun_ns < y->begun_ns ? -1 : 1;
	return x->duration_ns > y->duration_ns ? -1 : x->duration_ns < y->duration_ns;
}

struct profile_place *profile_places(const struct profile *p)
{
	struct profile_place *all = malloc((p->spans + 1) * sizeof *all);
	uint64_t n = 0;
	for (uint32_t i = 0; all && i < p->count; i++)
		for (uint32_t j = 0; j < p->processes[i].is.threads_count; j++)
			for (uint64_t k = 0; k < p->processes[i].is.threads[j].count; k++)
				all[n++] = (struct profile_place){&p->processes[i].is.threads[j].spans[k], i, j};
	if (all)
		qsort(all, n, sizeof *all, by_begin);
	return all;
}

/* --- Names */

const char *profile_span_name(const struct trace_what *what, char out[PROFILE_NAME_BYTES])
{
	const char *kind = trace_kind_name(what->kind), *op = NULL;
	if (what->kind == TRACE_OPERATION && (op = backend_op_name(what->op)))
		snprintf(out, PROFILE_NAME_BYTES, "%s", op);
	else if (what->kind == TRACE_ENCODE && (op = codec_name((weir_codec)what->op)))
		snprintf(out, PROFILE_NAME_BYTES, "%s %s", kind, op);
	else if (what->kind == TRACE_LEDGER && what->op < RPC_METHODS)
		snprintf(out, PROFILE_NAME_BYTES, "%s %s", kind, rpc_method_name((enum rpc_method)what->op));
	else
		snprintf(out, PROFILE_NAME_BYTES, "%s", kind);
	return out;
}

const char *profile_thread_name(const struct profile *p, uint32_t process, uint32_t thread)
{
	const struct profile_process *x = &p->processes[process];
	const char *name = x->is.threads[thread].name;
	if (!x->is_server && strcmp(name, WORKER_PROGRAM) == 0)
		return "trainer";
	return strcmp(name, x->is.name) == 0 ? "client" : name;
}
