/* The event files that TensorBoard reads: valid checksums, and the scalars of the polled job. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/observe/events.h"
#include "cli/run/run_dir.h"
#include "common/base/crc32c.h"
#include "common/base/little_endian.h"
#include "tensorboard.pb-c.h"
#include "tests/cmocka_check.h"

enum { FILE_BYTES_MAX = 1 << 16, EVENTS_MAX = 16 };

struct fixture {
	char folder[64], path[512];
	struct events events;
	Weir__Tensorboard__Event *read[EVENTS_MAX]; /* (count) without session starts */
	size_t count;
	int64_t starts[EVENTS_MAX]; /* (starts_count) the steps of the session starts */
	size_t starts_count;
};

static void setup(struct fixture *f)
{
	weir_error err = {0};
	*f = (struct fixture){.folder = "/tmp/weir-events-XXXXXX"};
	assert_non_null(mkdtemp(f->folder));
	CHECK_OK(events_open(&f->events, f->folder, 1700000000123, &err), err);
}

static uint32_t unmasked(uint32_t masked)
{
	const uint32_t c = masked - 0xa282ead8u;
	return c >> 17 | c << 15;
}

static void read_events(struct fixture *f, const uint8_t *bytes, size_t n)
{
	for (size_t at = 0; at < n;) {
		const size_t body = (size_t)get64(bytes + at);
		assert_in_range(body, 1, n - at - 16);
		assert_int_equal(unmasked(get32(bytes + at + 8)), crc32c(0, bytes + at, 8));
		assert_int_equal(unmasked(get32(bytes + at + 12 + body)), crc32c(0, bytes + at + 12, body));
		assert_true(f->count < EVENTS_MAX);
		Weir__Tensorboard__Event *e = weir__tensorboard__event__unpack(NULL, body, bytes + at + 12);
		assert_non_null(e);
		if (e->session_log) {
			assert_int_equal(e->session_log->status, WEIR__TENSORBOARD__SESSION_STATUS__START);
			f->starts[f->starts_count++] = e->step;
			weir__tensorboard__event__free_unpacked(e, NULL);
		} else {
			f->read[f->count++] = e;
		}
		at += 12 + body + 4;
	}
}

/* Closes the only event file and reads it. */
static void read_back(struct fixture *f)
{
	static uint8_t bytes[FILE_BYTES_MAX];
	events_close(&f->events);
	DIR *d = opendir(f->folder);
	assert_non_null(d);
	for (const struct dirent *e; (e = readdir(d));)
		if (strncmp(e->d_name, "events.out.tfevents.1700000000.", 31) == 0)
			snprintf(f->path, sizeof f->path, "%s/%s", f->folder, e->d_name);
	closedir(d);
	FILE *in = fopen(f->path, "rb");
	assert_non_null(in);
	const size_t n = fread(bytes, 1, sizeof bytes, in);
	fclose(in);
	read_events(f, bytes, n);
}

static void teardown(struct fixture *f)
{
	weir_error err = {0};
	for (size_t i = 0; i < f->count; i++)
		weir__tensorboard__event__free_unpacked(f->read[i], NULL);
	CHECK_OK(run_dir_remove(f->folder, &err), err);
}

/* NaN if the event lacks the tag. */
static double value_of(const Weir__Tensorboard__Event *e, const char *tag)
{
	for (size_t i = 0; e->summary && i < e->summary->n_value; i++)
		if (strcmp(e->summary->value[i]->tag, tag) == 0)
			return (double)e->summary->value[i]->simple_value;
	return NAN;
}

static void look(struct fixture *f, const struct overview *s, int64_t wall_ms)
{
	weir_error err = {0};
	CHECK_OK(events_look(&f->events, s, wall_ms, &err), err);
}

static void a_file_begins_with_its_version(void **state)
{
	(void)state;
	struct fixture f;
	setup(&f);
	read_back(&f);
	assert_int_equal(f.count, 1);
	assert_string_equal(f.read[0]->file_version, "brain.Event:2");
	assert_true(f.read[0]->wall_time == 1700000000.123);
	teardown(&f);
}

static void losses_are_means_since_the_look_before(void **state)
{
	(void)state;
	struct fixture f;
	setup(&f);
	struct overview s = {.rows = 1000,
	                     .batches = 10,
	                     .loss_rows = 1000,
	                     .loss_sum = 700,
	                     .workers_live = 2,
	                     .bytes_pushed = 5e6,
	                     .energy_sent = 1};
	look(&f, &s, 1700000001000);
	s.rows = s.loss_rows = 1500;
	s.loss_sum = 1000;
	look(&f, &s, 1700000001500); /* too soon */
	s.rows = s.loss_rows = 3000;
	s.batches = 30;
	s.loss_sum = 1700;
	look(&f, &s, 1700000003000);
	read_back(&f);
	assert_int_equal(f.count, 3);
	assert_true(value_of(f.read[1], "train/loss") == (double)0.7f);
	/* no earlier poll to compute the speed from */
	assert_true(isnan(value_of(f.read[1], "train/samples_per_s")));
	assert_true(value_of(f.read[1], "workers/live") == 2 && value_of(f.read[1], "bytes/pushed") == 5e6);
	assert_true(value_of(f.read[2], "train/loss") == 0.5);
	assert_true(value_of(f.read[2], "train/samples_per_s") == 1000);
	assert_int_equal(f.read[2]->step, 30);
	assert_true(isnan(value_of(f.read[2], "valid/auc")));
	teardown(&f);
}

static void the_end_is_written_at_once(void **state)
{
	(void)state;
	struct fixture f;
	setup(&f);
	struct overview s = {.rows = 1000, .batches = 10, .loss_rows = 1000, .loss_sum = 700};
	look(&f, &s, 1700000001000);
	s.rows = s.loss_rows = 2000;
	s.batches = 20;
	s.loss_sum = 1200;
	s.state = JOB_FINISHED;
	look(&f, &s, 1700000001500);
	look(&f, &s, 1700000001750); /* nothing more to tell */
	read_back(&f);
	assert_int_equal(f.count, 3);
	assert_true(value_of(f.read[2], "train/loss") == 0.5 && value_of(f.read[2], "train/samples_per_s") == 2000);
	teardown(&f);
}

static void an_evaluation_is_written_once_and_at_once(void **state)
{
	(void)state;
	struct fixture f;
	setup(&f);
	struct overview s = {.rows = 1000, .batches = 10, .loss_rows = 1000, .loss_sum = 700};
	look(&f, &s, 1700000001000);
	s.evaluated_batches = 8; /* the trainers went on during the evaluation */
	s.auc = 0.75;
	s.logloss = 0.5;
	s.figures = (struct figures){.count = 2, .items = {{"gauc", 0.625}, {"ndcg@10", 0.25}}};
	look(&f, &s, 1700000001001);
	look(&f, &s, 1700000001002);
	s.language = true;
	s.evaluated_batches = 16;
	s.auc = NAN;
	s.logloss = 2;
	look(&f, &s, 1700000001003);
	look(&f, &s, 1700000001004);
	s.language = false;
	s.evaluated_batches = 24;
	s.auc = s.logloss = NAN; /* NaN scores give no point */
	s.figures.count = 0;
	look(&f, &s, 1700000001005);
	read_back(&f);
	assert_int_equal(f.count, 4);
	assert_int_equal(f.read[2]->step, 8);
	assert_int_equal(f.read[3]->step, 16);
	assert_true(value_of(f.read[2], "valid/auc") == 0.75 && value_of(f.read[2], "valid/logloss") == 0.5);
	assert_true(value_of(f.read[2], "valid/gauc") == 0.625 && value_of(f.read[2], "valid/ndcg@10") == 0.25);
	assert_true(value_of(f.read[3], "valid/loss") == 2 && value_of(f.read[3], "valid/perplexity") == (double)(float)exp(2));
	assert_true(isnan(value_of(f.read[3], "valid/auc")));
	teardown(&f);
}

static void a_language_model_has_curves_of_its_own(void **state)
{
	(void)state;
	struct fixture f;
	setup(&f);
	struct overview_table dense = {.name = "dense", .learning_rate = 0.25};
	struct overview s = {.rows = 1000, .workers_live = 2, .tables = &dense, .tables_count = 1};
	look(&f, &s, 1700000001000);
	s.rows = 1500;
	s.row_tokens = 64;
	s.row_least_s = 0.001;
	s.gradient_norm = 0.5;
	look(&f, &s, 1700000002000);
	read_back(&f);
	assert_int_equal(f.count, 3);
	assert_true(isnan(value_of(f.read[1], "train/tokens_per_s")) && isnan(value_of(f.read[1], "train/gradient_norm")));
	assert_true(value_of(f.read[2], "train/tokens_per_s") == 500 * 64 && value_of(f.read[2], "train/mfu") == 0.25);
	assert_true(value_of(f.read[2], "train/gradient_norm") == 0.5 && value_of(f.read[2], "train/learning_rate") == 0.25);
	teardown(&f);
}

/* After a rewind the row count falls. This is no loss of rows; TensorBoard must forget the steps
 * beyond the checkpoint. */
static void a_job_that_goes_back_begins_a_session(void **state)
{
	(void)state;
	struct fixture f;
	setup(&f);
	struct overview s = {.rows = 1000, .batches = 10, .loss_rows = 1000, .loss_sum = 700, .generation = 1};
	s.evaluated_batches = 5;
	s.auc = 0.75;
	look(&f, &s, 1700000001000);
	look(&f, &s, 1700000002000);
	s.rows = s.loss_rows = 500;
	s.batches = 5;
	s.loss_sum = 400;
	s.generation = 2;
	look(&f, &s, 1700000004000);
	read_back(&f);
	assert_int_equal(f.starts_count, 2);
	assert_int_equal(f.starts[0], 10); /* earlier runs may have trained before */
	assert_int_equal(f.starts[1], 5);
	const Weir__Tensorboard__Event *again = f.read[f.count - 2], *last = f.read[f.count - 1];
	assert_true(value_of(again, "valid/auc") == 0.75); /* written again after the rewind */
	assert_int_equal(again->step, 5);
	assert_true(isnan(value_of(last, "train/loss")));
	assert_int_equal(last->step, 5);
	teardown(&f);
}

/* A resumed run polls the last evaluation again. An evaluation before the START is in an earlier
 * file. */
static void an_evaluation_of_an_earlier_file_is_not_written_again(void **state)
{
	(void)state;
	struct fixture f;
	char earlier[128];
	setup(&f);
	events_close(&f.events);
	assert_true(snprintf(earlier, sizeof earlier, "%s/events.out.tfevents.1600000000.a.1", f.folder) < (int)sizeof earlier);
	FILE *out = fopen(earlier, "w");
	assert_non_null(out);
	assert_int_equal(fclose(out), 0);
	weir_error err = {0};
	CHECK_OK(events_open(&f.events, f.folder, 1700000000123, &err), err);
	struct overview s = {.rows = 1000, .batches = 63, .evaluated_batches = 50, .auc = 0.75, .logloss = 0.5};
	look(&f, &s, 1700000001000);
	s.batches = 101;
	s.evaluated_batches = 100;
	look(&f, &s, 1700000001001);
	s.generation = 2; /* back to batch 100; its evaluation is forgotten */
	s.batches = 100;
	look(&f, &s, 1700000001002);
	s.generation = 3; /* back to batch 105; the evaluation at 100 stands */
	s.batches = 105;
	look(&f, &s, 1700000001003);
	read_back(&f);
	size_t points[2] = {0};
	for (size_t i = 0; i < f.count; i++)
		if (!isnan(value_of(f.read[i], "valid/auc")))
			points[f.read[i]->step == 100]++;
	assert_int_equal(points[0], 0);
	assert_int_equal(points[1], 2);
	teardown(&f);
}

static void a_failed_write_is_reported_once(void **state)
{
	(void)state;
	struct fixture f;
	weir_error err = {0};
	setup(&f);
	fclose(f.events.out);
	f.events.out = fopen("/dev/full", "wb");
	assert_non_null(f.events.out);
	const struct overview s = {.rows = 1000, .batches = 10, .loss_rows = 1000, .loss_sum = 700};
	assert_int_equal(events_look(&f.events, &s, 1700000001000, &err), WEIR_E_IO);
	assert_non_null(strstr(err.text, "No space left"));
	CHECK_OK(events_look(&f.events, &s, 1700000009000, &err), err);
	read_back(&f);
	assert_int_equal(f.count, 1);
	teardown(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_file_begins_with_its_version),
	    cmocka_unit_test(losses_are_means_since_the_look_before),
	    cmocka_unit_test(the_end_is_written_at_once),
	    cmocka_unit_test(an_evaluation_is_written_once_and_at_once),
	    cmocka_unit_test(a_language_model_has_curves_of_its_own),
	    cmocka_unit_test(a_job_that_goes_back_begins_a_session),
	    cmocka_unit_test(an_evaluation_of_an_earlier_file_is_not_written_again),
	    cmocka_unit_test(a_failed_write_is_reported_once),
	};
	return cmocka_run_group_tests_name("cli_events", tests, NULL, NULL);
}
