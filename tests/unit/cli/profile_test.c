/* A profile of two servers and a worker with clocks of their own: one clock, flows in the order of
 * time, the critical path, the report, the trace. */
#include "cli/profile/profile_report.h"
#include "cli/profile/profile_trace.h"
#include "common/web/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/cmocka_check.h"
#include "tests/manual_clock.h"

/* How far the processes' clocks are behind the profile's. The worker reports to server-1, and knows
 * how far its clock is from that server's. */
enum { SERVER_0 = 0, SERVER_1 = 5000, WORKER = 12000, ERROR_SERVER = 50, ERROR_WORKER = 7 };
enum { BEGAN = 20000, DURATION_MS = 1 };

static const struct trace_what batch = {.pass = 0, .unit = 1, .batch = 2, .attempt = 1};

struct recorder {
	struct trace *t;
	int64_t now_ns;
	struct manual_clock clock;
	int64_t behind_ns;
};

static void open_recorder(struct recorder *r, int64_t behind_ns)
{
	r->behind_ns = behind_ns;
	r->now_ns = BEGAN - behind_ns;
	r->clock = manual_clock_ns(&r->now_ns);
	r->t = trace_create(&r->clock.base);
	trace_start(r->t, DURATION_MS);
}

/* A span of the batch, from and until in time since BEGAN on the profile's clock. */
static void span(struct recorder *r, enum trace_kind kind, uint16_t partition, int64_t from_ns, int64_t until_ns)
{
	struct trace_what w = batch;
	w.kind = (uint16_t)kind;
	w.partition = partition;
	if (kind == TRACE_LEASE)
		w.batch = TRACE_NO_BATCH;
	trace_record(r->t, BEGAN + from_ns - r->behind_ns, BEGAN + until_ns - r->behind_ns, &w);
}

static void close_recorder(struct recorder *r, struct profile *p, const char *name, bool is_server, int64_t offset_ns,
                           int64_t shift_ns, uint64_t error_ns)
{
	struct trace_process who = {.offset_ns = offset_ns, .error_ns = is_server ? 0 : ERROR_WORKER};
	uint8_t *dump;
	size_t bytes;
	weir_error err = {0};
	snprintf(who.name, sizeof who.name, "%s", name);
	r->now_ns += (DURATION_MS + 1) * 1000000ll;
	assert_true(trace_has_ended(r->t));
	CHECK_OK(trace_dump(r->t, &who, &dump, &bytes, &err), err);
	CHECK_OK(profile_add(p, is_server, dump, bytes, shift_ns, error_ns, &err), err);
	free(dump);
	trace_destroy(r->t);
}

static void record_worker(struct recorder *r)
{
	span(r, TRACE_LEASE, 0, 100, 200);
	span(r, TRACE_PULL, 0, 300, 900);
	span(r, TRACE_PULL_WAIT, 0, 350, 950);
	span(r, TRACE_COMPUTE, 0, 1000, 2000);
	span(r, TRACE_SEND, 0, 2100, 2400);
	span(r, TRACE_ACKNOWLEDGED, 0, 2600, 2610);
	span(r, TRACE_ACKNOWLEDGED, 1, 3100, 3120);
}

static void record_server(struct recorder *r, uint16_t partition, int64_t answer_ns, int64_t append_ns, bool replicates)
{
	const int64_t apply_ns = append_ns + 20 + (replicates ? 180 : 0);
	span(r, TRACE_ANSWER, partition, answer_ns, answer_ns + 100);
	span(r, TRACE_APPEND, partition, append_ns, append_ns + 20);
	if (replicates)
		span(r, TRACE_REPLICATE, partition, append_ns + 20, apply_ns);
	span(r, TRACE_APPLY, partition, apply_ns, apply_ns + 100);
	span(r, TRACE_ACKNOWLEDGE, partition, apply_ns + 100, apply_ns + 110);
}

static void make_profile(struct profile *p)
{
	struct recorder worker, server_0, server_1;
	weir_error err = {0};
	*p = (struct profile){0};
	open_recorder(&worker, WORKER);
	open_recorder(&server_1, SERVER_1);
	open_recorder(&server_0, SERVER_0);
	record_worker(&worker);
	record_server(&server_0, 0, 400, 2450, false);
	record_server(&server_1, 1, 600, 2700, true);
	close_recorder(&worker, p, "worker-0", false, WORKER - SERVER_1, SERVER_1, ERROR_SERVER);
	close_recorder(&server_1, p, "server-1", true, 0, SERVER_1, ERROR_SERVER);
	close_recorder(&server_0, p, "server-0", true, 0, SERVER_0, 0);
	CHECK_OK(profile_finish(p, &err), err);
}

static void all_spans_are_on_one_clock(void **state)
{
	(void)state;
	struct profile p;
	make_profile(&p);
	assert_int_equal(p.count, 3);
	assert_int_equal(p.servers, 2);
	assert_string_equal(p.processes[0].is.name, "server-0");
	assert_string_equal(p.processes[2].is.name, "worker-0");
	assert_int_equal(p.began_ns, BEGAN);
	assert_int_equal(p.ended_ns, BEGAN + DURATION_MS * 1000000);
	assert_int_equal(p.error_ns, ERROR_SERVER + ERROR_WORKER);
	assert_int_equal(p.processes[2].is.threads[0].spans[0].begun_ns, BEGAN + 100);
	assert_int_equal(p.processes[1].is.threads[0].spans[0].begun_ns, BEGAN + 600);
	profile_destroy(&p);
}

static void check_kinds(const struct profile_flow *f, const enum trace_kind *kinds, uint32_t count)
{
	assert_int_equal(f->count, count);
	for (uint32_t i = 0; i < count; i++) {
		assert_int_equal(f->points[i].span->what.kind, kinds[i]);
		assert_true(i == 0 || f->points[i].span->begun_ns >= f->points[i - 1].span->begun_ns);
	}
}

static void a_flow_is_the_way_of_a_part(void **state)
{
	(void)state;
	static const enum trace_kind plain[] = {TRACE_LEASE,  TRACE_PULL,  TRACE_ANSWER,      TRACE_COMPUTE,     TRACE_SEND,
	                                        TRACE_APPEND, TRACE_APPLY, TRACE_ACKNOWLEDGE, TRACE_ACKNOWLEDGED};
	static const enum trace_kind replicated[] = {TRACE_LEASE,       TRACE_PULL,        TRACE_ANSWER,    TRACE_COMPUTE,
	                                             TRACE_SEND,        TRACE_APPEND,      TRACE_REPLICATE, TRACE_APPLY,
	                                             TRACE_ACKNOWLEDGE, TRACE_ACKNOWLEDGED};
	struct profile p;
	struct profile_flows flows;
	weir_error err = {0};
	make_profile(&p);
	struct profile_place *places = profile_places(&p);
	CHECK_OK(profile_flows_find(&p, places, &flows, &err), err);
	assert_int_equal(flows.count, 2);
	check_kinds(&flows.items[0], plain, sizeof plain / sizeof *plain);
	check_kinds(&flows.items[1], replicated, sizeof replicated / sizeof *replicated);
	assert_int_equal(profile_flow_point(&flows.items[1], TRACE_ANSWER)->process, 1);
	profile_flows_destroy(&flows);
	free(places);
	profile_destroy(&p);
}

static int64_t step_ns(const struct profile_report *r, const char *what)
{
	for (uint32_t i = 0; i < r->path_count; i++)
		if (strstr(r->path[i].what, what))
			return r->path[i].ns;
	return 0;
}

static void the_report_adds_up(void **state)
{
	(void)state;
	struct profile p;
	struct profile_flows flows;
	struct profile_report r;
	weir_error err = {0};
	make_profile(&p);
	struct profile_place *places = profile_places(&p);
	CHECK_OK(profile_flows_find(&p, places, &flows, &err), err);
	CHECK_OK(profile_report_make(&p, &flows, &r, &err), err);
	assert_int_equal(r.batches, 1);
	assert_int_equal(r.whole, 1);
	assert_string_equal(r.median_worker, "worker-0");
	assert_int_equal(r.median_ns, 3120 - 300);
	int64_t sum_ns = 0;
	for (uint32_t i = 0; i < r.path_count; i++)
		sum_ns += r.path[i].ns;
	assert_int_equal(sum_ns, r.median_ns);
	assert_int_equal(step_ns(&r, "answers the pull"), 100); /* server-1's, which is the last */
	assert_int_equal(step_ns(&r, "answer on its way"), 900 - 700);
	assert_int_equal(step_ns(&r, "its turn to compute"), 100);
	assert_int_equal(step_ns(&r, "computes"), 1000);
	assert_int_equal(step_ns(&r, "other replicas"), 180);
	assert_int_equal(step_ns(&r, "applies"), 100);
	double share = 0;
	for (enum profile_share s = 0; s < PROFILE_SHARES; s++)
		share += r.shares[s];
	assert_true(share > 0.999 && share < 1.001);
	assert_true(r.shares[SHARE_COMPUTE] > 0.000999 && r.shares[SHARE_COMPUTE] < 0.001001);
	assert_true(r.parties[1].pull_ns == 700 - 300);
	assert_true(r.parties[0].push_ns == 2600 - 2400);
	profile_report_destroy(&r);
	profile_flows_destroy(&flows);
	free(places);
	profile_destroy(&p);
}

static void the_trace_has_each_span_and_each_step_of_flows(void **state)
{
	(void)state;
	char folder[] = "/tmp/weir-profile-XXXXXX", path[64];
	struct profile p;
	struct profile_flows flows;
	struct json *j = NULL;
	weir_error err = {0};
	make_profile(&p);
	struct profile_place *places = profile_places(&p);
	CHECK_OK(profile_flows_find(&p, places, &flows, &err), err);
	assert_non_null(mkdtemp(folder));
	snprintf(path, sizeof path, "%s/trace.json", folder);
	CHECK_OK(profile_trace_write(&p, places, &flows, path, &err), err);
	CHECK_OK(json_read_file(path, &j, &err), err);
	uint32_t spans = 0, steps = 0;
	for (size_t i = 0; i < json_list_length(j, "traceEvents"); i++) {
		struct json *event = json_list_get(j, "traceEvents", i);
		const char phase = *json_get_text(event, "ph");
		spans += phase == 'X';
		steps += phase == 's' || phase == 't' || phase == 'f';
		json_destroy(event);
	}
	assert_int_equal(spans, p.spans);
	assert_int_equal(steps, flows.items[0].count + flows.items[1].count);
	json_destroy(j);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(rmdir(folder), 0);
	profile_flows_destroy(&flows);
	free(places);
	profile_destroy(&p);
}

static void without_a_common_time_there_is_no_profile(void **state)
{
	(void)state;
	struct profile p = {0};
	weir_error err = {0};
	assert_int_equal(profile_finish(&p, &err), WEIR_E_STATE);
	CHECK_CONTAINS(err.text, "no common time");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(all_spans_are_on_one_clock),
	    cmocka_unit_test(a_flow_is_the_way_of_a_part),
	    cmocka_unit_test(the_report_adds_up),
	    cmocka_unit_test(the_trace_has_each_span_and_each_step_of_flows),
	    cmocka_unit_test(without_a_common_time_there_is_no_profile),
	};
	return cmocka_run_group_tests_name("profile", tests, NULL, NULL);
}
