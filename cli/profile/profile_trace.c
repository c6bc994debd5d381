#include "cli/profile/profile_trace.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TRACKS_MAX  64u   /* of one kind in one process; then spans share the last one */
#define TRACKS_FROM 1000u /* tid of the first track of the first kind */

/* An event of a flow, at the span that it is bound to. */
struct binding {
	const struct trace_span *span;
	uint64_t flow;
	char phase; /* 's', 't' or 'f': the flow starts, goes on, ends */
};

/* The tracks of one kind in one process: when the last span of each ends. */
struct tracks {
	int64_t ends_ns[TRACKS_MAX];
	uint32_t count;
};

struct writer {
	FILE *out;
	const struct profile *profile;
	int64_t zero_ns;          /* time 0 of the trace */
	struct binding *bindings; /* (bindings_count) sorted by span */
	uint64_t bindings_count;
	struct tracks *tracks; /* (processes, TRACE_KINDS) */
	bool begun;            /* an event is written */
};

static struct tracks *tracks_of(const struct writer *w, uint32_t process, uint32_t kind)
{
	return &w->tracks[process * TRACE_KINDS + kind];
}

/* --- Pieces of events */

static void begin_event(struct writer *w)
{
	fputs(w->begun ? ",\n" : "\n", w->out);
	w->begun = true;
}

/* Microseconds, with the nanoseconds behind the point. */
static void put_time(const struct writer *w, const char *key, int64_t ns)
{
	const bool negative = ns < 0;
	const uint64_t n = negative ? -(uint64_t)ns : (uint64_t)ns;
	fprintf(w->out, ",\"%s\":%s%" PRIu64 ".%03u", key, negative ? "-" : "", n / 1000, (unsigned)(n % 1000));
}

static void put_text(FILE *out, const char *text)
{
	fputc('"', out);
	for (const unsigned char *c = (const unsigned char *)text; *c; c++)
		if (*c == '"' || *c == '\\' || *c < 0x20 || *c >= 0x7f)
			fprintf(out, "\\u%04x", *c);
		else
			fputc(*c, out);
	fputc('"', out);
}

static void put_name(struct writer *w, const char *what, uint32_t pid, uint32_t tid, const char *name)
{
	begin_event(w);
	fprintf(w->out, "{\"ph\":\"M\",\"name\":\"%s\",\"pid\":%u,\"tid\":%u,\"args\":{\"name\":", what, pid, tid);
	put_text(w->out, name);
	fputs("}}", w->out);
}

static bool names_part(uint32_t kind)
{
	return (kind >= TRACE_APPEND && kind <= TRACE_ACKNOWLEDGED) || kind == TRACE_SERVE || kind == TRACE_APPLY_COPY;
}

static bool names_partition(uint32_t kind)
{
	return names_part(kind) || kind == TRACE_ANSWER || kind == TRACE_DECODE;
}

static void put_arguments(FILE *out, const struct trace_what *w)
{
	if (w->attempt == 0)
		return;
	fprintf(out, ",\"args\":{\"pass\":%u,\"unit\":%u,\"attempt\":%u", w->pass, w->unit, w->attempt);
	if (w->batch != TRACE_NO_BATCH)
		fprintf(out, ",\"batch\":%u", w->batch);
	if (names_partition(w->kind))
		fprintf(out, ",\"partition\":%u", w->partition);
	if (names_part(w->kind))
		fprintf(out, ",\"part\":%u", w->part);
	fputc('}', out);
}

/* --- Spans */

static uint32_t find_track(const struct writer *w, const struct profile_place *x)
{
	struct tracks *t = tracks_of(w, x->process, x->span->what.kind);
	uint32_t i = 0;
	while (i < t->count && t->ends_ns[i] > x->span->begun_ns)
		i++;
	i = i < TRACKS_MAX ? i : TRACKS_MAX - 1;
	t->count = i < t->count ? t->count : i + 1;
	t->ends_ns[i] = span_end_ns(x->span);
	return TRACKS_FROM + x->span->what.kind * TRACKS_MAX + i;
}

static uint64_t first_binding(const struct writer *w, const struct trace_span *span)
{
	uint64_t low = 0, high = w->bindings_count;
	while (low < high) {
		const uint64_t middle = low + (high - low) / 2;
		if ((uintptr_t)w->bindings[middle].span < (uintptr_t)span)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static void write_span(struct writer *w, const struct profile_place *x)
{
	char name[PROFILE_NAME_BYTES];
	const struct trace_span *s = x->span;
	const uint32_t pid = x->process + 1, tid = trace_kind_overlaps(s->what.kind) ? find_track(w, x) : x->thread + 1;
	begin_event(w);
	fputs("{\"ph\":\"X\",\"name\":", w->out);
	put_text(w->out, profile_span_name(&s->what, name));
	fprintf(w->out, ",\"pid\":%u,\"tid\":%u", pid, tid);
	put_time(w, "ts", s->begun_ns - w->zero_ns);
	put_time(w, "dur", (int64_t)s->duration_ns);
	put_arguments(w->out, &s->what);
	fputc('}', w->out);
	for (uint64_t i = first_binding(w, s); i < w->bindings_count && w->bindings[i].span == s; i++) {
		begin_event(w);
		fprintf(w->out, "{\"ph\":\"%c\"%s,\"name\":\"part\",\"cat\":\"flow\",\"id\":%" PRIu64 ",\"pid\":%u,\"tid\":%u",
		        w->bindings[i].phase, w->bindings[i].phase == 'f' ? ",\"bp\":\"e\"" : "", w->bindings[i].flow, pid, tid);
		put_time(w, "ts", s->begun_ns - w->zero_ns);
		fputc('}', w->out);
	}
}

/* --- Flows */

static int by_span(const void *a, const void *b)
{
	const struct binding *x = a, *y = b;
	if (x->span != y->span)
		return (uintptr_t)x->span < (uintptr_t)y->span ? -1 : 1;
	return x->flow < y->flow ? -1 : x->flow > y->flow;
}

static bool bind_flows(struct writer *w, const struct profile_flows *flows)
{
	uint64_t points = 0;
	for (uint64_t i = 0; i < flows->count; i++)
		points += flows->items[i].count;
	w->bindings = malloc((points + 1) * sizeof *w->bindings);
	for (uint64_t i = 0; w->bindings && i < flows->count; i++) {
		const struct profile_flow *f = &flows->items[i];
		for (uint32_t j = 0; j < f->count && f->count > 1; j++)
			w->bindings[w->bindings_count++] = (struct binding){.span = f->points[j].span,
			                                                    .flow = i + 1,
			                                                    .phase = j == 0             ? 's'
			                                                             : j + 1 < f->count ? 't'
			                                                                                : 'f'};
	}
	if (w->bindings)
		qsort(w->bindings, w->bindings_count, sizeof *w->bindings, by_span);
	return w->bindings != NULL;
}

/* --- The file */

static void name_tracks(struct writer *w, uint32_t process, uint32_t kind)
{
	const struct tracks *t = tracks_of(w, process, kind);
	for (uint32_t i = 0; i < t->count; i++) {
		char name[PROFILE_NAME_BYTES];
		snprintf(name, sizeof name, i > 0 ? "%s %u" : "%s", trace_kind_name(kind), i + 1);
		put_name(w, "thread_name", process + 1, TRACKS_FROM + kind * TRACKS_MAX + i, name);
	}
}

static void write_names(struct writer *w)
{
	const struct profile *p = w->profile;
	for (uint32_t i = 0; i < p->count; i++) {
		put_name(w, "process_name", i + 1, 0, p->processes[i].is.name);
		for (uint32_t j = 0; j < p->processes[i].is.threads_count; j++)
			put_name(w, "thread_name", i + 1, j + 1, profile_thread_name(p, i, j));
		for (uint32_t kind = 0; kind < TRACE_KINDS; kind++)
			name_tracks(w, i, kind);
	}
}

static void write_all(struct writer *w, const struct profile_place *places)
{
	const struct profile *p = w->profile;
	fputs("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[", w->out);
	for (uint64_t i = 0; i < p->spans; i++)
		write_span(w, &places[i]);
	write_names(w); /* behind the spans: their tracks are known now */
	fprintf(w->out, "\n],\"otherData\":{\"window_began_us\":\"%.3f\",\"window_ended_us\":\"%.3f\",\"clock_error_us\":\"%.3f\",",
	        (double)(p->began_ns - w->zero_ns) / 1e3, (double)(p->ended_ns - w->zero_ns) / 1e3, (double)p->error_ns / 1e3);
	fprintf(w->out, "\"spans_lost\":\"%" PRIu64 "\"}}\n", p->lost);
}

weir_status profile_trace_write(const struct profile *p, const struct profile_place *places, const struct profile_flows *flows,
                                const char *path, weir_error *err)
{
	struct writer w = {.profile = p, .zero_ns = p->spans ? places[0].span->begun_ns : p->began_ns};
	weir_status status = WEIR_OK;
	w.tracks = calloc((size_t)p->count * TRACE_KINDS + 1, sizeof *w.tracks);
	if (!w.tracks || !bind_flows(&w, flows))
		status = weir_fail(err, WEIR_E_MEMORY, "no memory for a trace");
	if (!status && !(w.out = fopen(path, "we")))
		status = weir_fail(err, WEIR_E_IO, "%s: %s", path, strerror(errno));
	if (!status)
		write_all(&w, places);
	if (w.out) {
		const bool failed = ferror(w.out) != 0;
		if (fclose(w.out) != 0 || failed)
			status = weir_fail(err, WEIR_E_IO, "%s: %s", path, strerror(errno));
	}
	free(w.bindings);
	free(w.tracks);
	return status;
}
