/* Tables on the wire: round trips, named differences, and invalid descriptions refused by name. */
#include <math.h>
#include <stdlib.h>

#include "tests/cmocka_check.h"

#include "common/base/limits.h"
#include "proto/wire/wire.h"

static const weir_init_segment segments[] = {
    {70000, WEIR_INIT_NORMAL, 0.01f}, {100, WEIR_INIT_ZERO, 0}, {30, WEIR_INIT_CONSTANT, 2}, {200, WEIR_INIT_UNIFORM, 0.5f}};

/* Every field has a distinct value. */
static weir_table_spec dense_table(void)
{
	return (weir_table_spec){
	    .name = "tower.0-w_1",
	    .kind = WEIR_DENSE,
	    .width = 3,
	    .elements = 70330,
	    .optimizer = {.kind = WEIR_OPT_DELAYED_NESTEROV,
	                  .lr = 0.1f,
	                  .momentum = 0.9f,
	                  .beta1 = 0.8f,
	                  .beta2 = 0.99f,
	                  .eps = 1e-6f,
	                  .initial = 0.1f,
	                  .weight_decay = 0.01f,
	                  .l1 = 0.2f,
	                  .l2 = 0.3f,
	                  .ftrl_beta = 1.5f,
	                  .window = 7,
	                  .schedule = {WEIR_SCHEDULE_WSD, 10, 1ull << 40, 20, 30, 0.25f, 0.75f}},
	    .mode = {WEIR_SYNC, 2},
	    .push = {.codec = WEIR_CODEC_TOPK,
	             .values = WEIR_VALUES_LOG4,
	             .density = 0.01f,
	             .momentum = 0.5f,
	             .warmup = 100,
	             .feedback = true,
	             .lz4 = WEIR_LZ4_AUTO,
	             .clip = 0.5f},
	    .pull = {.codec = WEIR_CODEC_TOPK, .values = WEIR_VALUES_BF16, .book = WEIR_BOOK_LOG, .density = 0.02f, .every = 3},
	    .segments_count = 4,
	    .segments = segments,
	    .seed = 0x0123456789abcdefull,
	};
}

static const weir_init_segment row_segment[] = {{16, WEIR_INIT_NORMAL, 0.01f}};
static weir_table_spec embedding_table(void)
{
	return (weir_table_spec){.name = "e",
	                         .width = 16,
	                         .optimizer = {.kind = WEIR_OPT_ADAM, .lr = 0.1f, .decay = WEIR_DECAY_FULL},
	                         .push = {.codec = WEIR_CODEC_INT8, .rows = 0.25f},
	                         .admission = {.kind = WEIR_ADMIT_COUNT, .count = 3, .probability = 0.25f},
	                         .eviction = {.ttl_s = 60, .min_score = 2, .half_life_s = 30},
	                         .segments_count = 1,
	                         .segments = row_segment};
}

/* Packs, unpacks and reads the table. */
static weir_status travel(const weir_table_spec *in, weir_table_spec *out, uint32_t *id, weir_error *err)
{
	struct wire_table t;
	ProtobufCMessage *m;
	assert_int_equal(wire_table_make(&t, in, 42), WEIR_OK);
	struct message *packed = wire_pack(&t.table.base);
	wire_table_destroy(&t);
	CHECK_OK(wire_unpack(&weir__v1__table__descriptor, packed, &m, err), *err);
	message_release(packed);
	weir_status status = wire_table_read((const Weir__V1__Table *)(void *)m, out, id, err);
	wire_destroy(m);
	return status;
}

static void tables_come_back(void **state)
{
	(void)state;
	const weir_table_spec specs[] = {dense_table(), embedding_table()};
	for (int i = 0; i < 2; i++) {
		weir_table_spec out;
		uint32_t id;
		struct wire_table_difference first;
		weir_error err = {0};
		CHECK_OK(travel(&specs[i], &out, &id, &err), err);
		assert_int_equal(id, 42);
		assert_true(wire_table_equal(&specs[i], &out, &first));
		assert_string_equal(first.field, "");
		free((void *)(uintptr_t)out.segments);
	}
}

/* --- Differences */

/* X(member over weir_table_spec) */
/* clang-format off */
#define MEMBER_MAP(X) \
	X(kind) X(width) X(elements) X(optimizer.kind) X(optimizer.lr) X(optimizer.momentum) X(optimizer.beta1) X(optimizer.beta2) X(optimizer.eps) \
	X(optimizer.initial) X(optimizer.weight_decay) X(optimizer.l1) X(optimizer.l2) X(optimizer.ftrl_beta) X(optimizer.window) X(optimizer.decay) \
	X(optimizer.schedule.kind) X(optimizer.schedule.warmup) X(optimizer.schedule.total) X(optimizer.schedule.decay) X(optimizer.schedule.period) \
	X(optimizer.schedule.min) X(optimizer.schedule.gamma) X(mode.kind) X(mode.backup) X(mode.bound) X(mode.local_steps) X(mode.fragments) X(mode.local_speed) X(mode.staleness_rate) X(pull.codec) X(admission.kind) \
	X(admission.count) X(admission.probability) X(eviction.ttl_s) X(eviction.min_score) X(eviction.half_life_s) X(segments_count) X(seed) \
	X(push.codec) X(push.values) X(push.book) X(push.density) X(push.momentum) X(push.warmup) X(push.feedback) \
	X(pull.values) X(pull.book) X(pull.density) X(pull.every) X(push.lz4) X(push.clip) X(push.rows)
/* clang-format on */

static void differ(const weir_table_spec *a, const weir_table_spec *b, const char *expected)
{
	struct wire_table_difference first, turned;
	assert_false(wire_table_equal(a, b, &first));
	assert_string_equal(first.field, expected);
	assert_false(wire_table_equal(b, a, &turned));
	assert_string_equal(turned.field, expected);
	assert_true(first.a == turned.b && first.b == turned.a);
}

static void each_difference_is_named(void **state)
{
	(void)state;
	const weir_table_spec base = dense_table();
	weir_table_spec other;
#define MEMBER_DIFFERS(member)              \
	other = dense_table();                  \
	*(uint8_t *)(void *)&other.member ^= 1; \
	differ(&base, &other, #member);
	MEMBER_MAP(MEMBER_DIFFERS)
#undef MEMBER_DIFFERS
	other = dense_table();
	other.name[3] = 'x';
	differ(&base, &other, "name");
	for (int i = 0; i < 3; i++) {
		weir_init_segment changed[4];
		memcpy(changed, segments, sizeof changed);
		if (i == 0)
			changed[3].elements++;
		else if (i == 1)
			changed[3].kind = WEIR_INIT_NORMAL;
		else
			changed[3].a = -0.5f;
		other = dense_table();
		other.segments = changed;
		differ(&base, &other, i == 0 ? "segments.elements" : i == 1 ? "segments.kind" : "segments.a");
	}
}

/* --- Invalid descriptions */

static void refused(const weir_table_spec *spec, weir_status status, const char *part)
{
	weir_error err = {0};
	assert_int_equal(wire_table_check(spec, &err), status);
	CHECK_CONTAINS(err.text, part);
}

/* A copy of `base` with one assignment. */
#define REFUSED(base, assignment, status, part) \
	do {                                        \
		weir_table_spec t = (base);             \
		t.assignment;                           \
		refused(&t, status, part);              \
	} while (0)

static void hostile_values_are_refused_by_name(void **state)
{
	(void)state;
	const weir_table_spec d = dense_table(), e = embedding_table();
	weir_error err = {0};
	CHECK_OK(wire_table_check(&d, &err), err);
	CHECK_OK(wire_table_check(&e, &err), err);
	REFUSED(d, name[0] = 0, WEIR_E_INVALID, "table name ''");
	REFUSED(d, name[0] = 'A', WEIR_E_INVALID, "table name 'Aower.0-w_1'");
	REFUSED(d, name[5] = '/', WEIR_E_INVALID, "[a-z0-9_.-]");
	REFUSED(d, kind = (weir_table_kind)2, WEIR_E_INVALID, "kind 2");
	REFUSED(d, elements = 0, WEIR_E_LIMIT, "0 elements");
	REFUSED(d, elements = WEIR_TABLE_ELEMENTS_MAX + 1, WEIR_E_LIMIT, "1099511627777 elements");
	REFUSED(d, elements = 70331, WEIR_E_INVALID, "cover 70330 of 70331");
	REFUSED(d, elements = 70329, WEIR_E_INVALID, "segment 3 goes beyond the table's 70329");
	REFUSED(d, segments_count = 0, WEIR_E_INVALID, "cover 0 of 70330");
	REFUSED(d, segments_count = WEIR_TABLE_SEGMENTS_MAX + 1, WEIR_E_LIMIT, "2049 segments");
	REFUSED(e, width = 0, WEIR_E_LIMIT, "width 0");
	REFUSED(e, width = WEIR_ROW_WIDTH_MAX + 1, WEIR_E_LIMIT, "width 65537");
	REFUSED(e, width = 17, WEIR_E_INVALID, "cover 16 of 17");
	REFUSED(d, optimizer.kind = (weir_optimizer_kind)99, WEIR_E_INVALID, "optimizer 99");
	REFUSED(d, optimizer.schedule.kind = (weir_schedule_kind)8, WEIR_E_INVALID, "schedule 8");
	REFUSED(d, optimizer.lr = NAN, WEIR_E_INVALID, "lr is nan");
	REFUSED(d, optimizer.lr = INFINITY, WEIR_E_INVALID, "lr is inf");
	REFUSED(d, optimizer.lr = -1, WEIR_E_INVALID, "lr is -1");
	REFUSED(d, optimizer.momentum = 1, WEIR_E_INVALID, "momentum is 1");
	REFUSED(d, optimizer.beta1 = 1, WEIR_E_INVALID, "beta1 is 1");
	REFUSED(d, optimizer.beta2 = 1.5f, WEIR_E_INVALID, "beta2 is 1.5");
	REFUSED(d, optimizer.eps = -1, WEIR_E_INVALID, "eps is -1");
	REFUSED(d, optimizer.initial = NAN, WEIR_E_INVALID, "initial is nan");
	REFUSED(d, optimizer.weight_decay = INFINITY, WEIR_E_INVALID, "weight_decay is inf");
	REFUSED(d, optimizer.l1 = -1, WEIR_E_INVALID, "l1 is -1");
	REFUSED(d, optimizer.l2 = -1, WEIR_E_INVALID, "l2 is -1");
	REFUSED(d, optimizer.decay = (weir_decay)2, WEIR_E_INVALID, "decay 2");
	REFUSED(d, optimizer.decay = WEIR_DECAY_FULL, WEIR_E_INVALID, "full decay is for adam and adamw");
	REFUSED(d, optimizer.ftrl_beta = -1, WEIR_E_INVALID, "ftrl_beta is -1");
	REFUSED(d, optimizer.schedule.min = NAN, WEIR_E_INVALID, "schedule.min is nan");
	REFUSED(d, optimizer.schedule.gamma = -1, WEIR_E_INVALID, "schedule.gamma is -1");
	REFUSED(d, optimizer.window = 0, WEIR_E_INVALID, "window");
	REFUSED(d, mode.kind = (weir_mode_kind)3, WEIR_E_INVALID, "mode 3");
	REFUSED(d, mode.bound = 1, WEIR_E_INVALID, "mode 1 with bound 1");
	REFUSED(d, mode = ((weir_mode){.kind = WEIR_SSP, .bound = WEIR_SSP_BOUND_MAX + 1}), WEIR_E_INVALID,
	        "mode 2 with bound 1000001");
	REFUSED(d, mode.staleness_rate = true, WEIR_E_INVALID, "no staleness to set its rate by");
	REFUSED(d, mode.local_steps = WEIR_LOCAL_STEPS_MAX + 1, WEIR_E_LIMIT, "rounds of 4097 batches");
	REFUSED(d, mode.fragments = 2, WEIR_E_INVALID, "need local steps");
	REFUSED(d, mode = ((weir_mode){.local_steps = 3, .fragments = 4}), WEIR_E_INVALID, "4 fragments in rounds of 3 batches");
	REFUSED(e, mode = ((weir_mode){.local_steps = 3}), WEIR_E_INVALID, "local steps are for dense tables");
	REFUSED(d, mode.backup = WEIR_WORKERS_MAX, WEIR_E_INVALID, "4096 backup workers");
	REFUSED(d, push.codec = (weir_codec)10, WEIR_E_INVALID, "push codec 10");
	REFUSED(d, push.values = (weir_values)5, WEIR_E_INVALID, "push values 5");
	REFUSED(d, push.density = 0, WEIR_E_INVALID, "push density 0");
	REFUSED(d, push.density = NAN, WEIR_E_INVALID, "push density nan");
	REFUSED(d, push.momentum = 1, WEIR_E_INVALID, "push momentum 1");
	REFUSED(d, push = ((weir_compression){.codec = WEIR_CODEC_INT4, .book = (weir_book)3}), WEIR_E_INVALID, "code book 3");
	REFUSED(d, push = ((weir_compression){.codec = WEIR_CODEC_SIGN}), WEIR_E_INVALID, "push codec 5 needs error feedback");
	REFUSED(d, push.clip = INFINITY, WEIR_E_INVALID, "push clip inf");
	REFUSED(d, push.clip = -1, WEIR_E_INVALID, "push clip -1");
	REFUSED(d, push.rows = 0.5f, WEIR_E_INVALID, "push rows 0.5, expected 0 (all), or of an embedding table a share below 1");
	REFUSED(e, push.rows = 1, WEIR_E_INVALID, "push rows 1");
	REFUSED(e, push.rows = NAN, WEIR_E_INVALID, "push rows nan");
	REFUSED(d, push.lz4 = (weir_lz4)2, WEIR_E_INVALID, "push lz4 2");
	REFUSED(d, push.feedback = false, WEIR_E_INVALID, "push codec 8 needs error feedback");
	REFUSED(e, push.codec = WEIR_CODEC_SIGN, WEIR_E_INVALID, "push codec 5 is for dense tables");
	REFUSED(d, pull.codec = (weir_codec)-1, WEIR_E_INVALID, "pull codec 4294967295");
	REFUSED(d, pull.codec = WEIR_CODEC_SIGN, WEIR_E_INVALID, "pull codec 5 is not for dense tables");
	REFUSED(d, pull.codec = WEIR_CODEC_INT2, WEIR_E_INVALID, "pull codec 9 is not for dense tables");
	REFUSED(d, pull.values = WEIR_VALUES_INT2, WEIR_E_INVALID, "pull values 4");
	REFUSED(d, pull.values = (weir_values)5, WEIR_E_INVALID, "pull values 5");
	REFUSED(d, pull.density = 0, WEIR_E_INVALID, "pull density 0");
	REFUSED(d, pull.density = 0.3f, WEIR_E_INVALID, "pull density 0.3");
	REFUSED(d, pull = ((weir_pull_coding){.codec = WEIR_CODEC_INT4, .book = (weir_book)3}), WEIR_E_INVALID, "code book 3");
	REFUSED(e, pull.codec = WEIR_CODEC_INT4, WEIR_E_INVALID, "pull codec 4 is not for embedding tables");
	REFUSED(e, pull.codec = WEIR_CODEC_TOPK, WEIR_E_INVALID, "pull codec 8 is not for embedding tables");
	REFUSED(e, admission.kind = (weir_admission_kind)3, WEIR_E_INVALID, "admission 3");
	REFUSED(e, admission.count = 0, WEIR_E_INVALID, "admission by count 0");
	REFUSED(e, admission = ((weir_admission){WEIR_ADMIT_PROBABILITY, 0, 0}), WEIR_E_INVALID, "admission with probability 0");
	REFUSED(e, admission = ((weir_admission){WEIR_ADMIT_PROBABILITY, 0, 1.5f}), WEIR_E_INVALID, "admission with probability 1.5");
	REFUSED(e, admission = ((weir_admission){WEIR_ADMIT_PROBABILITY, 0, NAN}), WEIR_E_INVALID, "admission with probability nan");
	REFUSED(e, eviction.half_life_s = 0, WEIR_E_INVALID, "score 2 needs a half-life");
	REFUSED(d, admission = ((weir_admission){WEIR_ADMIT_COUNT, 2, 0}), WEIR_E_INVALID, "are for embedding tables");
	REFUSED(d, eviction.ttl_s = 1, WEIR_E_INVALID, "are for embedding tables");
	weir_table_spec t = embedding_table();
	const weir_init_segment bad[][2] = {{{16, (weir_init_kind)4, 0}},
	                                    {{16, WEIR_INIT_NORMAL, NAN}},
	                                    {{8, WEIR_INIT_ZERO, 0}, {UINT64_MAX - 4, WEIR_INIT_ZERO, 0}}};
	t.segments = bad[0];
	refused(&t, WEIR_E_INVALID, "segment 0 has kind 4");
	t.segments = bad[1];
	refused(&t, WEIR_E_INVALID, "a nan");
	t.segments = bad[2];
	t.segments_count = 2;
	refused(&t, WEIR_E_INVALID, "segment 1 goes beyond"); /* the sum does not wrap */
	memset(t.name, 'a', sizeof t.name);
	refused(&t, WEIR_E_INVALID, "1 to 63 of");
}

/* Values that only the wire can carry. */
static void hostile_messages_are_refused(void **state)
{
	(void)state;
	const weir_table_spec spec = dense_table();
	struct wire_table t;
	weir_table_spec out;
	uint32_t id;
	char name[65];
	weir_error err = {0};
	memset(name, 'a', 64);
	name[64] = 0;
	assert_int_equal(wire_table_make(&t, &spec, WEIR_TABLES_MAX), WEIR_OK);
	assert_int_equal(wire_table_read(&t.table, &out, &id, &err), WEIR_E_LIMIT);
	CHECK_CONTAINS(err.text, "id 1024, below 1024");
	t.table.id = 0;
	t.table.name = name;
	assert_int_equal(wire_table_read(&t.table, &out, &id, &err), WEIR_E_LIMIT);
	CHECK_CONTAINS(err.text, "64 bytes, below 64");
	name[63] = 0;
	CHECK_OK(wire_table_read(&t.table, &out, &id, &err), err);
	free((void *)(uintptr_t)out.segments);
	t.table.optimizer = NULL;
	assert_int_equal(wire_table_read(&t.table, &out, &id, &err), WEIR_E_INVALID);
	CHECK_CONTAINS(err.text, "no optimizer");
	t.table.optimizer = &t.optimizer;
	t.optimizer.schedule = NULL; /* a constant rate */
	CHECK_OK(wire_table_read(&t.table, &out, &id, &err), err);
	assert_int_equal(out.optimizer.schedule.kind, WEIR_SCHEDULE_CONSTANT);
	free((void *)(uintptr_t)out.segments);
	t.table.n_segments = WEIR_TABLE_SEGMENTS_MAX + 1;
	assert_int_equal(wire_table_read(&t.table, &out, &id, &err), WEIR_E_LIMIT);
	CHECK_CONTAINS(err.text, "2049 segments");
	t.table.n_segments = 4;
	t.table.kind = 77; /* wire_table_check refused it: nothing to free */
	assert_int_equal(wire_table_read(&t.table, &out, &id, &err), WEIR_E_INVALID);
	assert_null(out.segments);
	wire_table_destroy(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(tables_come_back),
	    cmocka_unit_test(each_difference_is_named),
	    cmocka_unit_test(hostile_values_are_refused_by_name),
	    cmocka_unit_test(hostile_messages_are_refused),
	};
	return cmocka_run_group_tests_name("wire_table", tests, NULL, NULL);
}
