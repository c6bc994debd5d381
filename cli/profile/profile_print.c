/* The report of a profile, for people and as JSON. */
#include <inttypes.h>

#include "cli/profile/profile_report.h"
#include "common/web/json.h"

#define OPERATIONS_SHOWN 20u

static double per_batch_ms(const struct profile_report *r, int64_t ns)
{
	return r->batches ? (double)ns / 1e6 / (double)r->batches : 0;
}

static double share(const struct profile *p, const struct profile_report *r, int64_t ns)
{
	return (double)ns / (r->seconds * 1e9 * (double)(p->workers ? p->workers : 1));
}

static void print_shares(const struct profile_report *r, FILE *out)
{
	fprintf(out, "\nwhere a worker's time goes\n");
	for (enum profile_share s = 0; s < PROFILE_SHARES; s++)
		if (r->shares[s] >= 0.0005)
			fprintf(out, "  %5.1f %%  %s\n", 100 * r->shares[s], profile_share_name(s));
}

static void print_parties(const struct profile_report *r, FILE *out)
{
	fprintf(out, "\n%-14s %10s %12s %12s %12s\n", "process", "batches", "ms a batch", "ms a pull", "ms a push");
	for (uint32_t i = 0; i < r->parties_count; i++) {
		const struct profile_party *x = &r->parties[i];
		if (x->is_server)
			fprintf(out, "%-14s %10s %12s %12.3f %12.3f\n", x->name, "", "", x->pull_ns / 1e6, x->push_ns / 1e6);
		else
			fprintf(out, "%-14s %10" PRIu64 " %12.3f\n", x->name, x->batches, x->batch_ns / 1e6);
	}
}

static void print_operations(const struct profile *p, const struct profile_report *r, FILE *out)
{
	if (r->operations_count)
		fprintf(out, "\n%-28s %10s %12s %12s %8s\n", "operation of workers", "calls", "total ms", "ms a batch", "share");
	for (uint32_t i = 0; i < r->operations_count && i < OPERATIONS_SHOWN; i++) {
		const struct profile_operation *x = &r->operations[i];
		fprintf(out, "%-28s %10" PRIu64 " %12.2f %12.4f %6.1f %%\n", x->name, x->calls, (double)x->total_ns / 1e6,
		        per_batch_ms(r, x->total_ns), 100 * share(p, r, x->total_ns));
	}
	if (r->operations_count > OPERATIONS_SHOWN)
		fprintf(out, "and %u more (--json lists all)\n", r->operations_count - OPERATIONS_SHOWN);
}

static void print_path(const struct profile_report *r, FILE *out)
{
	if (!r->median_worker) {
		fprintf(out, "\nno batch went its whole way within this time\n");
		return;
	}
	fprintf(out, "\ncritical path of the median of %" PRIu64 " batches (pass %u, unit %u, batch %u, %s): %.3f ms\n", r->whole,
	        r->median.pass, r->median.unit, r->median.batch, r->median_worker, (double)r->median_ns / 1e6);
	for (uint32_t i = 0; i < r->path_count; i++) {
		const struct profile_step *x = &r->path[i];
		fprintf(out, "  %9.3f ms %5.1f %%  %s%s%s\n", (double)x->ns / 1e6, 100 * (double)x->ns / (double)r->median_ns,
		        x->where ? x->where : "", x->where ? " " : "", x->what);
	}
}

void profile_report_print(const struct profile *p, const struct profile_report *r, FILE *out)
{
	fprintf(out, "%.1f s: %u server%s, %u worker%s, %" PRIu64 " batches, %" PRIu64 " spans\n", r->seconds, p->servers,
	        p->servers == 1 ? "" : "s", p->workers, p->workers == 1 ? "" : "s", r->batches, p->spans);
	if (p->error_ns)
		fprintf(out, "clocks      of several machines, brought together within +-%.3f ms\n", (double)p->error_ns / 1e6);
	else
		fprintf(out, "clocks      one: all processes are on one machine\n");
	for (uint32_t i = 0; i < r->findings_count; i++)
		fprintf(out, "%-11s %s\n", i == 0 ? "stands out" : "", r->findings[i]);
	print_shares(r, out);
	print_parties(r, out);
	print_operations(p, r, out);
	print_path(r, out);
}

/* --- JSON */

static struct json *party_item(const struct profile_party *x)
{
	struct json *item = json_create();
	json_set_text(item, "name", x->name);
	json_set_text(item, "role", x->is_server ? "server" : "worker");
	if (x->is_server) {
		json_set_real(item, "pull_ms", x->pull_ns / 1e6);
		json_set_real(item, "push_ms", x->push_ns / 1e6);
		json_set_real(item, "busy", x->busy);
		return item;
	}
	json_set_count(item, "batches", x->batches);
	json_set_real(item, "batch_ms", x->batch_ns / 1e6);
	return item;
}

static struct json *operation_item(const struct profile *p, const struct profile_report *r, const struct profile_operation *x)
{
	struct json *item = json_create();
	json_set_text(item, "name", x->name);
	json_set_count(item, "calls", x->calls);
	json_set_real(item, "total_ms", (double)x->total_ns / 1e6);
	json_set_real(item, "batch_ms", per_batch_ms(r, x->total_ns));
	json_set_real(item, "share", share(p, r, x->total_ns));
	return item;
}

static struct json *share_item(const struct profile_report *r, enum profile_share s)
{
	struct json *item = json_create();
	json_set_text(item, "what", profile_share_name(s));
	json_set_real(item, "share", r->shares[s]);
	return item;
}

static struct json *path_object(const struct profile_report *r)
{
	struct json *path = json_create();
	json_set_text(path, "worker", r->median_worker);
	json_set_count(path, "pass", r->median.pass);
	json_set_count(path, "unit", r->median.unit);
	json_set_count(path, "batch", r->median.batch);
	json_set_count(path, "attempt", r->median.attempt);
	json_set_real(path, "ms", (double)r->median_ns / 1e6);
	json_set_empty_list(path, "steps");
	for (uint32_t i = 0; i < r->path_count; i++) {
		struct json *item = json_create();
		json_set_text(item, "what", r->path[i].what);
		json_set_text(item, "where", r->path[i].where ? r->path[i].where : "");
		json_set_real(item, "ms", (double)r->path[i].ns / 1e6);
		json_append(path, "steps", item);
	}
	return path;
}

weir_status profile_report_json(const struct profile *p, const struct profile_report *r, FILE *out, weir_error *err)
{
	struct json *j = json_create();
	if (!j)
		return weir_fail(err, WEIR_E_MEMORY, "no memory for the report of a profile");
	json_set_real(j, "seconds", r->seconds);
	json_set_count(j, "batches", r->batches);
	json_set_count(j, "whole_batches", r->whole);
	json_set_count(j, "spans", p->spans);
	json_set_count(j, "spans_lost", p->lost);
	json_set_real(j, "clock_error_ms", (double)p->error_ns / 1e6);
	json_set_empty_list(j, "findings");
	for (uint32_t i = 0; i < r->findings_count; i++)
		json_append_text(j, "findings", r->findings[i]);
	for (enum profile_share s = 0; s < PROFILE_SHARES; s++)
		json_append(j, "time", share_item(r, s));
	json_set_empty_list(j, "processes");
	for (uint32_t i = 0; i < r->parties_count; i++)
		json_append(j, "processes", party_item(&r->parties[i]));
	json_set_empty_list(j, "operations");
	for (uint32_t i = 0; i < r->operations_count; i++)
		json_append(j, "operations", operation_item(p, r, &r->operations[i]));
	if (r->median_worker)
		json_set_object(j, "critical_path", path_object(r));
	const weir_status status = json_print(j, out, err);
	json_destroy(j);
	return status;
}
