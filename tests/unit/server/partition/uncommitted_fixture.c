#include "tests/unit/server/partition/uncommitted_fixture.h"

static void on_appended(void *arg, uint64_t index)
{
	struct world *w = arg;
	w->appended = index;
	if (!w->holds)
		partition_commit_to(w->f.p, index);
}

static weir_status keep_table(void *arg, uint32_t id, const weir_table_spec *spec, weir_error *err)
{
	const struct world *w = arg;
	return w->full ? weir_fail(err, WEIR_E_NO_SPACE, "table %u, %s: the disk is full", id, spec->name) : WEIR_OK;
}

static void add_table(struct world *w, uint32_t id, weir_table_kind kind, const char *name)
{
	const uint64_t elements = kind == WEIR_DENSE ? WEIR_CHUNK + LAST_CHUNK : ROW_WIDTH;
	const weir_init_segment zero = {.elements = elements, .kind = WEIR_INIT_ZERO};
	weir_table_spec spec = {.kind = kind,
	                        .width = kind == WEIR_EMBEDDING ? ROW_WIDTH : 0,
	                        .elements = kind == WEIR_DENSE ? elements : 0,
	                        .optimizer = {.kind = WEIR_OPT_SGD, .lr = 1},
	                        .segments_count = 1,
	                        .segments = &zero};
	spec.optimizer.schedule = (weir_schedule){.kind = WEIR_SCHEDULE_STEP, .period = 1, .gamma = 0.5f};
	if (id == SHORT_ROWS)
		spec.eviction = (weir_eviction){.ttl_s = TTL_S};
	strcpy(spec.name, name);
	assert_int_equal(partition_add_table(w->f.p, id, &spec, NULL), WEIR_OK);
}

void open_world(struct world *w, bool holds)
{
	static const struct partition_host_ops host = {.failed = fixture_failed, .appended = on_appended, .keep_table = keep_table};
	*w =
	    (struct world){.clock = manual_clock_ns(&w->now_ns), .now_ns = 1000000000000, .log = log_memory_create(), .holds = holds};
	const struct partition_options o = {.partitions = 1,
	                                    .generation = RECORDS_GENERATION,
	                                    .log = w->log,
	                                    .host = {&host, w},
	                                    .replicated = true,
	                                    .clock = &w->clock.base};
	w->f.p = partition_create(&o, NULL);
	assert_non_null(w->f.p);
	fixture_add_tables(&w->f, &(struct fixture_options){.optimizer = WEIR_OPT_SGD});
	add_table(w, TIMED_ROWS, WEIR_EMBEDDING, "timed_rows");
	add_table(w, TIMED_DENSE, WEIR_DENSE, "timed_dense");
	add_table(w, SHORT_ROWS, WEIR_EMBEDDING, "short_rows");
	partition_recovered(w->f.p);
}

void close_world(struct world *w)
{
	fixture_close(&w->f);
}

static void on_reply(void *arg, const struct partition_reply *reply)
{
	struct asked *a = arg;
	assert_int_equal(a->answer, 0);
	a->answer = ++a->w->answers;
	a->status = reply->status;
	a->applied = reply->applied;
	a->stable = reply->stable;
	a->epoch = reply->epoch;
	a->staleness = reply->staleness;
	a->bitmap_bits = reply->bitmap_bits;
	if (reply->bitmap_bits)
		memcpy(&a->parts, reply->bitmap, sizeof a->parts);
}

void submit(struct world *w, struct asked *a, struct built built)
{
	*a = (struct asked){.w = w, .built = built};
	partition_submit(w->f.p, &a->built.record, &a->built.body, built.frame, on_reply, a);
}

void ask(struct world *w, struct asked *a, struct record r, const struct rows *rows)
{
	submit(w, a, records_build(&r, rows, rows ? 1 : 0));
}

void push(struct world *w, struct asked *a, uint32_t unit, uint32_t attempt, uint32_t part)
{
	struct one_row x;
	const struct rows rows = one_row(&x, ASYNC_ROWS, KEY, 1);
	ask(w, a, push_record(unit, attempt, 0, part, 0), &rows);
}

void seal(struct world *w, struct asked *a, uint32_t unit, uint32_t attempt)
{
	ask(w, a, (struct record){.kind = RECORD_SEAL, .pass = 1, .unit = unit, .attempt = attempt}, NULL);
}

void assert_entry(const struct asked *a, uint64_t index)
{
	assert_int_equal(a->answer, 0);
	assert_int_equal(a->w->appended, index);
}

void begin(struct world *w, uint64_t epoch)
{
	partition_begin(w->f.p, epoch);
	partition_commit_to(w->f.p, w->appended);
	assert_int_equal(partition_epoch(w->f.p), epoch);
}

void assert_waits(const struct asked *a, uint64_t appended)
{
	assert_entry(a, appended);
}

void assert_told(struct asked *a, weir_status status)
{
	if (!a->answer || a->status != status)
		fail_msg("answer %u: %s, expected %s", a->answer, weir_status_name(a->status), weir_status_name(status));
	records_free(&a->built);
}

float row(struct world *w)
{
	return fixture_row(&w->f, ASYNC_ROWS, KEY);
}

struct record push_at(uint32_t place, uint32_t batch, uint32_t part)
{
	struct record r = push_record(1, 1, batch, part, 0);
	r.status = place;
	return r;
}

void push_timed(struct world *w, struct asked *a, uint32_t place, uint32_t part, float v)
{
	struct one_row x;
	const struct rows rows = one_row(&x, TIMED_ROWS, KEY, v);
	ask(w, a, push_at(place, 2, part), &rows);
}
