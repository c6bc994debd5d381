/* Curves read back from event files, and the settings in them. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/observe/event_read.h"
#include "cli/observe/hparams.h"
#include "common/base/little_endian.h"
#include "common/system/disk.h"
#include "tensorboard.pb-c.h"
#include "tests/folder.h"

#define T0 1700000000000

static void open_file(struct events *e, const char *folder, int64_t wall_ms)
{
	weir_error err = {0};
	CHECK_OK(events_open(e, folder, wall_ms, &err), err);
}

static void look(struct events *e, uint64_t batches, double loss, int64_t wall_ms)
{
	weir_error err = {0};
	struct overview s = {.batches = batches, .rows = 100 * batches, .loss_rows = e->loss_rows + 100, .workers_live = 2};
	s.loss_sum = e->loss_sum + 100 * loss;
	CHECK_OK(events_look(e, &s, wall_ms, &err), err);
}

static void curves_go_over_all_files(void **state)
{
	(void)state;
	char folder[FOLDER_BYTES];
	weir_error err = {0};
	struct event_curves c;
	struct events e;
	folder_create(folder);
	open_file(&e, folder, T0);
	look(&e, 10, 0.5, T0 + 2000);
	look(&e, 20, 0.25, T0 + 4000);
	look(&e, 30, 0.125, T0 + 6000);
	events_close(&e);
	open_file(&e, folder, T0 + 10000); /* goes on from batch 20 */
	look(&e, 20, 0, T0 + 12000);
	look(&e, 40, 0.75, T0 + 14000);
	events_close(&e);
	CHECK_OK(event_curves_read(folder, &c, &err), err);
	const struct event_series *loss = event_curves_find(&c, "train/loss"), *workers = event_curves_find(&c, "workers/live");
	assert_non_null(loss);
	assert_int_equal(workers->count, 3);
	assert_int_equal(loss->points[0].step, 10);
	assert_true(loss->points[0].value == 0.5 && loss->points[0].wall_s == 1700000002);
	assert_true(event_series_at(loss, 10) == 0.5 && isnan(event_series_at(loss, 9)) && isnan(event_series_at(loss, 41)));
	assert_true(event_series_at(workers, 30) == 2);
	assert_null(event_curves_find(&c, "valid/auc"));
	event_curves_destroy(&c);
	folder_remove(folder);
}

static void what_is_half_written_is_left_out(void **state)
{
	(void)state;
	char folder[FOLDER_BYTES], path[128];
	weir_error err = {0};
	struct event_curves c;
	struct events e;
	folder_create(folder);
	open_file(&e, folder, T0);
	look(&e, 10, 0.5, T0 + 2000);
	fputs("\x20\0\0\0\0\0\0\0 cut", e.out);
	events_close(&e);
	CHECK_OK(event_curves_read(folder, &c, &err), err);
	assert_int_equal(event_curves_find(&c, "train/loss")->count, 1);
	event_curves_destroy(&c);
	snprintf(path, sizeof path, "%s/none", folder);
	CHECK_OK(event_curves_read(path, &c, &err), err);
	assert_int_equal(c.count, 0);
	folder_remove(folder);
}

/* Returns the n-th data of the plugin in the only file. */
static Weir__Tensorboard__HparamsData *read_data(const char *folder, unsigned n)
{
	char path[256], *bytes = NULL;
	size_t size = 0;
	weir_error err = {0};
	Weir__Tensorboard__HparamsData *found = NULL;
	snprintf(path, sizeof path, "cat %s/events.out* > %s/all", folder, folder);
	assert_int_equal(system(path), 0);
	snprintf(path, sizeof path, "%s/all", folder);
	CHECK_OK(disk_read_file(disk_system(), path, 1 << 20, &bytes, &size, &err), err);
	for (size_t at = 0; at < size && !found;) {
		const size_t body = (size_t)get64((const uint8_t *)bytes + at);
		Weir__Tensorboard__Event *e = weir__tensorboard__event__unpack(NULL, body, (const uint8_t *)bytes + at + 12);
		const Weir__Tensorboard__Value *v = e->summary ? e->summary->value[0] : NULL;
		if (v && v->metadata && n-- == 0) {
			assert_string_equal(v->metadata->plugin_data->plugin_name, "hparams");
			found = weir__tensorboard__hparams_data__unpack(NULL, v->metadata->plugin_data->content.len,
			                                                v->metadata->plugin_data->content.data);
		}
		weir__tensorboard__event__free_unpacked(e, NULL);
		at += 12 + body + 4;
	}
	free(bytes);
	assert_non_null(found);
	return found;
}

static void settings_are_those_that_matter(void **state)
{
	(void)state;
	char folder[FOLDER_BYTES];
	weir_error err = {0};
	struct events e;
	struct job_resolved settings;
	folder_create(folder);
	CHECK_OK(job_resolve("job: a\ndata: {train: a.tsv, shuffle: false}\nmodel: {kind: fm, dim: 8}\ncluster: {workers: 2}\n"
	                     "metrics: {port: 4000}\n",
	                     "job", NULL, 0, &settings, &err),
	         err);
	open_file(&e, folder, T0);
	CHECK_OK(hparams_begin(&e, &settings, T0, &err), err);
	CHECK_OK(hparams_end(&e, true, T0 + 5000, &err), err);
	events_close(&e);
	job_resolved_destroy(&settings);
	Weir__Tensorboard__HparamsData *start = read_data(folder, 0), *last = read_data(folder, 1);
	static const char *const keys[] = {"cluster.workers", "data.train", "data.shuffle", "model.kind", "model.dim"};
	assert_int_equal(start->data_case, WEIR__TENSORBOARD__HPARAMS_DATA__DATA_START);
	assert_int_equal(start->start->n_hparams, 5);
	for (size_t i = 0; i < 5; i++)
		assert_string_equal(start->start->hparams[i]->key, keys[i]);
	assert_true(start->start->hparams[4]->value->number_value == 8);
	assert_string_equal(start->start->hparams[3]->value->string_value, "fm");
	assert_int_equal(start->start->hparams[2]->value->kind_case, WEIR__TENSORBOARD__ANY__KIND_BOOL_VALUE);
	assert_int_equal(last->end->status, WEIR__TENSORBOARD__HPARAMS_STATUS__STATUS_SUCCESS);
	weir__tensorboard__hparams_data__free_unpacked(start, NULL);
	weir__tensorboard__hparams_data__free_unpacked(last, NULL);
	folder_remove(folder);
}

static void an_experiment_has_domains(void **state)
{
	(void)state;
	char folder[FOLDER_BYTES];
	weir_error err = {0};
	struct events e;
	const char *const choices[] = {"4", "8"}, *const values[] = {"valid/auc"};
	const struct hparam_domain domains[] = {{.key = "model.dim", .choices = choices, .choices_count = 2},
	                                        {.key = "lr", .low = 0.5, .high = 2}};
	folder_create(folder);
	open_file(&e, folder, T0);
	CHECK_OK(hparams_experiment(&e, domains, 2, values, 1, T0, &err), err);
	events_close(&e);
	Weir__Tensorboard__HparamsData *data = read_data(folder, 0);
	const Weir__Tensorboard__HparamsExperiment *x = data->experiment;
	assert_int_equal(x->n_hparam_infos, 2);
	assert_true(x->hparam_infos[0]->domain_discrete->values[1]->number_value == 8);
	assert_true(x->hparam_infos[1]->domain_interval->max_value == 2);
	assert_string_equal(x->metric_infos[0]->name->tag, "valid/auc");
	weir__tensorboard__hparams_data__free_unpacked(data, NULL);
	folder_remove(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(curves_go_over_all_files),
	    cmocka_unit_test(what_is_half_written_is_left_out),
	    cmocka_unit_test(settings_are_those_that_matter),
	    cmocka_unit_test(an_experiment_has_domains),
	};
	return cmocka_run_group_tests_name("cli_event_read", tests, NULL, NULL);
}
