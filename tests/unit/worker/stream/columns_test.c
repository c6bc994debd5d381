/* Columns of a stream: the rows that a worker reads from files with the same values. The stream's
 * producer is here: batches of constant arrays, which it counts until they are released. */
#include "weir/weir.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cmocka_check.h"
#include "tests/unit/worker/data/fixture.h"
#include "worker/data/format/arrow_abi.h"

enum { ROWS = 3, BATCHES = 2, COLUMNS = 6, NODES = 8 };
#define DESCRIBED                                                                                          \
	"columns: [{name: y, kind: label}, {name: user, kind: categorical}, {name: tags, kind: multi, "        \
	"pooling: mean, separator: '|'}, {name: price, kind: numeric, transform: standard, mean: 2, std: 4}, " \
	"{name: w, kind: weight}, {name: session, kind: group}]"
/* BATCHES times the same rows */
#define CSV_ROWS "1,u1,a|bb,10,1,s\n0,,,,0.5,\n1,u3,a,-3.5,2,t\n"
#define CSV      "y,user,tags,price,w,session\n" CSV_ROWS CSV_ROWS

struct node {
	const char *format, *name;
	int64_t length, buffers, nulls;
	const void *data[3];
	int child; /* of a list; -1: none */
};

struct producer {
	struct node nodes[NODES];
	const char *fails; /* the last batch fails with this */
	int batches;       /* produced */
	int held;          /* the batches and schemas that the consumer has, and the stream */
	struct ArrowSchema schemas[NODES], *schema_children[COLUMNS], *schema_child[NODES];
	struct ArrowArray arrays[NODES], *children[COLUMNS], *child[NODES];
	const void *none[1];
};

static const int64_t labels[] = {1, 0, 1};
static const int32_t users[] = {0, 2, 2, 4}, lists[] = {0, 2, 2, 3}, tags[] = {0, 1, 3, 4}, sessions[] = {0, 1, 1, 2};
static const double prices[] = {10, 0, -3.5};
static const float weights[] = {1, 0.5f, 2};
static const uint8_t without_second[] = {5};

static const struct node nodes[NODES] = {
    {"l", "y", ROWS, 2, 0, {NULL, labels}, -1},       {"u", "user", ROWS, 3, 0, {NULL, users, "u1u3"}, -1},
    {"+l", "tags", ROWS, 2, 0, {NULL, lists}, 6},     {"g", "price", ROWS, 2, 1, {without_second, prices}, -1},
    {"f", "w", ROWS, 2, 0, {NULL, weights}, -1},      {"u", "session", ROWS, 3, 0, {NULL, sessions, "st"}, -1},
    {"u", "item", 3, 3, 0, {NULL, tags, "abba"}, -1},
};

static void release_schema(struct ArrowSchema *s)
{
	((struct producer *)s->private_data)->held--;
	s->release = NULL;
}

static void release_array(struct ArrowArray *a)
{
	((struct producer *)a->private_data)->held--;
	a->release = NULL;
}

static void release_stream(struct ArrowArrayStream *s)
{
	((struct producer *)s->private_data)->held--;
	s->release = NULL;
}

static int get_schema(struct ArrowArrayStream *s, struct ArrowSchema *out)
{
	struct producer *p = s->private_data;
	for (int i = 0; i < NODES; i++) {
		const struct node *n = &p->nodes[i];
		p->schemas[i] = (struct ArrowSchema){.format = n->format, .name = n->name};
		if (n->format && n->child >= 0) {
			p->schema_child[i] = &p->schemas[n->child];
			p->schemas[i].n_children = 1;
			p->schemas[i].children = &p->schema_child[i];
		}
	}
	for (int i = 0; i < COLUMNS; i++)
		p->schema_children[i] = &p->schemas[i];
	*out = (struct ArrowSchema){
	    .format = "+s", .n_children = COLUMNS, .children = p->schema_children, .release = release_schema, .private_data = p};
	p->held++;
	return 0;
}

static int get_next(struct ArrowArrayStream *s, struct ArrowArray *out)
{
	struct producer *p = s->private_data;
	*out = (struct ArrowArray){0};
	if (p->batches == BATCHES)
		return 0;
	if (++p->batches == BATCHES && p->fails)
		return EIO;
	for (int i = 0; i < NODES; i++) {
		struct node *n = &p->nodes[i];
		p->arrays[i] =
		    (struct ArrowArray){.length = n->length, .null_count = n->nulls, .n_buffers = n->buffers, .buffers = n->data};
		if (n->format && n->child >= 0) {
			p->child[i] = &p->arrays[n->child];
			p->arrays[i].n_children = 1;
			p->arrays[i].children = &p->child[i];
		}
	}
	for (int i = 0; i < COLUMNS; i++)
		p->children[i] = &p->arrays[i];
	*out = (struct ArrowArray){.length = ROWS,
	                           .n_buffers = 1,
	                           .buffers = p->none,
	                           .n_children = COLUMNS,
	                           .children = p->children,
	                           .release = release_array,
	                           .private_data = p};
	p->held++;
	return 0;
}

static const char *get_last_error(struct ArrowArrayStream *s)
{
	return ((struct producer *)s->private_data)->fails;
}

static struct ArrowArrayStream stream_of(struct producer *p)
{
	*p = (struct producer){.held = 1};
	memcpy(p->nodes, nodes, sizeof nodes);
	return (struct ArrowArrayStream){.get_schema = get_schema,
	                                 .get_next = get_next,
	                                 .get_last_error = get_last_error,
	                                 .release = release_stream,
	                                 .private_data = p};
}

/* The worker's batch of the same rows as CSV. */
static void read_csv(const struct folder *f, struct batch *out)
{
	char path[256], text[1024];
	struct job *job;
	struct dataset *d;
	struct unit_reader *u;
	weir_error err = {0};
	snprintf(text, sizeof text,
	         "job: t\nmodel: {kind: mmoe}\ndata: {format: csv, train: '%s', cache: off, batch: 64, " DESCRIBED "}\n",
	         write_bytes(f, "rows.csv", CSV, strlen(CSV), path));
	CHECK_OK(job_parse(text, "t", NULL, 0, &job, &err), err);
	CHECK_OK(dataset_open(&d, job, SPLIT_TRAIN, NULL, &err), err);
	CHECK_OK(unit_open(&u, d, 0, 0, &err), err);
	CHECK_OK(unit_read(u, 0, out, &err), err);
	unit_close(u);
	dataset_close(d);
	job_destroy(job);
	assert_int_equal(out->rows, ROWS * BATCHES);
}

/* Rows [first, first + ROWS) of the worker's batch. */
static void check_same(const weir_columns_rows *r, const struct batch *b, uint32_t first)
{
	const uint32_t bags = ROWS * b->fields, from = b->offsets[first * b->fields];
	assert_int_equal(r->rows, ROWS);
	assert_int_equal(r->fields, b->fields);
	assert_int_equal(r->dense_dim, b->dense_dim);
	assert_int_equal(r->tasks, b->tasks);
	for (uint32_t i = 0; i <= bags; i++)
		assert_int_equal(r->offsets[i], b->offsets[first * b->fields + i] - from);
	assert_int_equal(r->keys_count, r->offsets[bags]);
	assert_memory_equal(r->keys, b->keys + from, r->keys_count * sizeof *r->keys);
	assert_memory_equal(r->values, b->values + from, r->keys_count * sizeof *r->values);
	assert_memory_equal(r->dense, b->dense + first, ROWS * sizeof *r->dense);
	assert_memory_equal(r->labels, b->labels + first, ROWS * sizeof *r->labels);
	assert_memory_equal(r->weights, b->weights + first, ROWS * sizeof *r->weights);
	assert_memory_equal(r->groups, b->groups + first, ROWS * sizeof *r->groups);
}

static void a_stream_has_the_rows_that_a_worker_reads(void **state)
{
	struct producer p;
	struct ArrowArrayStream stream = stream_of(&p);
	struct batch expected = {0};
	weir_columns *c;
	weir_columns_rows rows = {0};
	weir_error err = {0};
	read_csv(*state, &expected);
	CHECK_OK(weir_columns_open(&c, "{" DESCRIBED "}", &stream, &err), err);
	assert_null(stream.release);
	for (uint32_t i = 0; i < BATCHES; i++) {
		CHECK_OK(weir_columns_next(c, &rows, &err), err);
		check_same(&rows, &expected, i * ROWS);
	}
	for (int i = 0; i < 2; i++) { /* the end stays */
		CHECK_OK(weir_columns_next(c, &rows, &err), err);
		assert_int_equal(rows.rows, 0);
	}
	assert_int_equal(rows.bad_rows, 0);
	assert_string_equal(rows.first_bad, "");
	weir_columns_close(c);
	assert_int_equal(p.held, 0);
	batch_destroy(&expected);
}

static void bad_rows_are_counted_and_left_out(void **state)
{
	(void)state;
	static const int64_t others[] = {1, 7, 0};
	struct producer p;
	struct ArrowArrayStream stream = stream_of(&p);
	weir_columns *c;
	weir_columns_rows rows = {0};
	weir_error err = {0};
	p.nodes[0].data[1] = others;
	CHECK_OK(weir_columns_open(&c, "{" DESCRIBED "}", &stream, &err), err);
	CHECK_OK(weir_columns_next(c, &rows, &err), err);
	assert_int_equal(rows.rows, 2);
	CHECK_OK(weir_columns_next(c, &rows, &err), err);
	assert_int_equal(rows.bad_rows, 2);
	CHECK_CONTAINS(rows.first_bad, "row 2: column 'y': the label is 7");
	weir_columns_close(c);
	assert_int_equal(p.held, 0);
}

static void a_stream_that_fails_says_why(void **state)
{
	(void)state;
	struct producer p;
	struct ArrowArrayStream stream = stream_of(&p);
	weir_columns *c;
	weir_columns_rows rows = {0};
	weir_error err = {0};
	p.fails = "the disk is gone";
	CHECK_OK(weir_columns_open(&c, "{" DESCRIBED "}", &stream, &err), err);
	CHECK_OK(weir_columns_next(c, &rows, &err), err);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(weir_columns_next(c, &rows, &err), WEIR_E_IO);
		CHECK_CONTAINS(err.text, "the disk is gone");
	}
	weir_columns_close(c);
	assert_int_equal(p.held, 0);
}

static void what_does_not_fit_is_refused_by_name(void **state)
{
	(void)state;
	static const struct {
		const char *data;
		weir_status status;
		const char *part;
	} cases[] = {
	    {"{columns: [{name: y, kind: label}, {name: usr, kind: categorical}]}", WEIR_E_INVALID,
	     "the stream has no column 'usr', which data.columns names; the nearest is 'user'"},
	    {"{" DESCRIBED ", hash_bucket: 7}", WEIR_E_INVALID, "hash_buckets"},
	    {"{columns: [{name: y, kind: labels}]}", WEIR_E_INVALID, "labels"},
	    {"{columns: ['${HOME}']}", WEIR_E_INVALID, "has ${...}"},
	    {"{" DESCRIBED ", split: {by: crc32}}", WEIR_E_INVALID, "has a split"},
	    {"{}", WEIR_E_INVALID, "columns"},
	    {"{columns: [", WEIR_E_PARSE, "not valid YAML"},
	};
	struct producer p;
	weir_columns *c;
	weir_error err = {0};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct ArrowArrayStream stream = stream_of(&p);
		const weir_status status = weir_columns_open(&c, cases[i].data, &stream, &err);
		CHECK_CONTAINS(err.text, cases[i].part);
		assert_int_equal(status, cases[i].status);
		assert_non_null(stream.release); /* it is still the caller's */
		stream.release(&stream);
		assert_int_equal(p.held, 0);
	}
}

static void a_type_that_a_kind_does_not_take_is_refused(void **state)
{
	(void)state;
	struct producer p;
	struct ArrowArrayStream stream = stream_of(&p);
	weir_columns *c;
	weir_columns_rows rows = {0};
	weir_error err = {0};
	p.nodes[1] = (struct node){"g", "user", ROWS, 2, 0, {NULL, prices}, -1};
	CHECK_OK(weir_columns_open(&c, "{" DESCRIBED "}", &stream, &err), err);
	assert_int_equal(weir_columns_next(c, &rows, &err), WEIR_E_INVALID);
	CHECK_CONTAINS(err.text, "column 'user' is of kind categorical and of another type; expected texts, integers or booleans");
	weir_columns_close(c);
	assert_int_equal(p.held, 0);
	assert_int_equal(weir_columns_open(&c, "{}", &stream, &err), WEIR_E_INVALID);
	CHECK_CONTAINS(err.text, "a stream is read once");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(a_stream_has_the_rows_that_a_worker_reads, folder_setup, folder_teardown),
	    cmocka_unit_test(bad_rows_are_counted_and_left_out),
	    cmocka_unit_test(a_stream_that_fails_says_why),
	    cmocka_unit_test(what_does_not_fit_is_refused_by_name),
	    cmocka_unit_test(a_type_that_a_kind_does_not_take_is_refused),
	};
	return cmocka_run_group_tests_name("stream_columns", tests, NULL, NULL);
}
