/* The meaning of a valid job file: defaults, values of every kind, --set, references to the
 * environment. */
#include "common/job/job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cmocka_check.h"

#define BASE "job: demo\ndata: {train: /data/train.tsv}\n"

static struct job *parse(const char *text, const char *const *sets, uint32_t count)
{
	weir_error err = {0};
	struct job *job = NULL;
	CHECK_OK(job_parse(text, "test.yaml", sets, count, &job, &err), err);
	return job;
}

static void expect_evaluation(const char *data, const char *train, bool waited_for)
{
	char text[512];
	snprintf(text, sizeof text, "job: demo\ndata: {train: /data/train.tsv%s}\n%s", data, train);
	struct job *job = parse(text, NULL, 0);
	assert_int_equal(job_waits_for_evaluation(job), waited_for);
	job_destroy(job);
}

static void an_evaluator_is_waited_for_where_it_decides(void **state)
{
	(void)state;
	static const char split[] = ", split: {by: crc32, train: 8, valid: 1, test: 1}", best[] = "train: {keep_best: true}\n",
	                  any[] = "train: {keep_best: false, early_stop: {patience: 0}}\n";
	expect_evaluation("", best, false);
	expect_evaluation(split, best, true);
	expect_evaluation(split, any, false);
	expect_evaluation(", test: /data/test.tsv", best, false);
	expect_evaluation(", valid: /data/valid.tsv", "train: {keep_best: false, early_stop: {patience: 2}}\n", true);
}

static void a_model_of_text_is_judged_by_its_loss(void **state)
{
	(void)state;
	struct job *job = parse("job: demo\ndata: {format: text, train: a, context: 8}\nmodel: {kind: ngram}\n", NULL, 0);
	assert_true(job_is_language(job));
	assert_int_equal(job->data.format, DATA_TEXT);
	assert_int_equal(job->data.context, 8);
	assert_int_equal(job->train.early_stop.metric, METRIC_LOGLOSS);
	job_destroy(job);
	job = parse(BASE, NULL, 0);
	assert_false(job_is_language(job));
	assert_int_equal(job->data.context, 32);
	assert_int_equal(job->train.early_stop.metric, METRIC_AUC);
	job_destroy(job);
}

static void every_model_has_a_row(void **state)
{
	(void)state;
	static const char *const data[] = {
	    [READS_CLICKS] = "train: a", [READS_TEXT] = "format: text, train: a", [READS_TOKENS] = "format: tokens, train: a"};
	static const char with_history[] = "format: csv, train: a, columns: [{name: item, kind: categorical}, "
	                                   "{name: seen, kind: sequence, share: item}, {name: y, kind: label}]";
	for (enum model_kind kind = 0; kind < MODEL_KINDS; kind++) {
		const struct model_kind_row *row = model_kind_row(kind);
		char text[256], names[MODEL_NAMES_BYTES];
		snprintf(text, sizeof text, "job: demo\ndata: {%s}\nmodel: {kind: %s%s}\n",
		         model_kind_has(kind, PART_ATTENTION) || model_kind_has(kind, PART_RETRIEVAL) ? with_history : data[row->reads],
		         row->name,
		         model_kind_has(kind, PART_INTERACTION) ? ", bottom: [8, 16]"
		         : model_kind_has(kind, PART_RETRIEVAL) ? ", user: [seen], item: [item]"
		                                                : "");
		struct job *job = parse(text, NULL, 0);
		assert_int_equal(job->model.kind, kind);
		assert_int_equal(job_is_language(job), row->reads != READS_CLICKS);
		assert_int_equal(job_is_transformer(job), row->reads == READS_TOKENS);
		job_destroy(job);
		model_names(row->reads, names);
		assert_non_null(strstr(names, row->name));
	}
	char names[MODEL_NAMES_BYTES];
	model_names(READS_TEXT, names);
	assert_string_equal(names, "ngram");
	model_names(READS_TOKENS, names);
	assert_string_equal(names, "gpt2 or llama");
}

static void transformers_read_tokens(void **state)
{
	(void)state;
	struct job *job = parse("job: demo\ndata: {format: tokens, train: a}\nmodel: {kind: gpt2}\n", NULL, 0);
	assert_true(job_is_language(job) && job_is_transformer(job));
	assert_true(job->model.layers == 12 && job->model.heads == 12 && job->model.width == 768 && job->model.kv_heads == 0);
	assert_true(job->model.tied_head && job->model.recompute == RECOMPUTE_OFF && job->model.lora.rank == 0);
	assert_int_equal(job->train.early_stop.metric, METRIC_LOGLOSS);
	assert_string_equal(job->train.warm_start, "");
	job_destroy(job);
	job = parse("job: demo\ndata: {format: tokens, train: a}\nmodel: {kind: llama, from: /m, recompute: layers}\n", NULL, 0);
	/* full training: the start comes from the base model */
	assert_string_equal(job->train.warm_start, "/m");
	assert_int_equal(job->model.recompute, RECOMPUTE_LAYERS);
	job_destroy(job);
	job = parse("job: demo\ndata: {format: tokens, train: a}\nmodel: {kind: llama, from: /m, lora: {rank: 8, targets: [q_proj, "
	            "up_proj]}}\n",
	            NULL, 0);
	assert_string_equal(job->train.warm_start, ""); /* new adapters start as their initialization */
	assert_true(job->model.lora.rank == 8 && job->model.lora.targets_count == 2);
	assert_string_equal(job->model.lora.targets[1], "up_proj");
	job_destroy(job);
	job = parse("job: demo\ndata: {format: tokens, train: a}\nmodel: {kind: llama, from: /m, lora: {from: /a}}\n", NULL, 0);
	assert_string_equal(job->train.warm_start, "/a"); /* or from other adapters */
	job_destroy(job);
}

static void a_short_job_has_the_defaults(void **state)
{
	(void)state;
	struct job *job = parse(BASE, NULL, 0);
	assert_string_equal(job->name, "demo");
	assert_string_equal(job->run_dir, "runs/demo");
	assert_int_equal(job->cluster.partitions, WEIR_PARTITIONS_DEFAULT);
	assert_int_equal(job->cluster.lease_ms, WEIR_LEASE_TERM_MS);
	assert_int_equal(job->cluster.min_isr, 0);
	assert_true(job->cluster.memory_budget_bytes == UINT64_C(4) << 30);
	assert_true(job->cluster.network.rate_bits_per_s == 0);
	assert_int_equal(job->cluster.network.latency_ms, 0);
	assert_int_equal(job->cluster.ack, JOB_ACK_REPLICAS);
	assert_int_equal(job->data.train_count, 1);
	assert_string_equal(job->data.train[0], "/data/train.tsv");
	assert_true(job->data.shuffle);
	assert_int_equal(job->model.hidden_count, 2);
	assert_int_equal(job->model.hidden[1], 400);
	assert_int_equal(job->model.bottom_count, 0);
	assert_int_equal(job->tables.dense.optimizer.kind, WEIR_OPT_ADAM);
	assert_true(job->tables.dense.optimizer.beta2 == 0.999f);
	assert_int_equal(job->tables.embedding.mode.kind, WEIR_ASYNC);
	job_destroy(job);
}

static void replicas_go_with_an_etcd_or_with_none_named(void **state)
{
	(void)state;
	struct job *job = parse(BASE "cluster: {servers: 3, replicas: 3, min_isr: 2, coord: 'etcd://10.0.0.1:2379,[::1]:2379'}\n"
	                             "security: {insecure: true}\n",
	                        NULL, 0);
	assert_int_equal(job->cluster.replicas, 3);
	assert_int_equal(job->cluster.min_isr, 2);
	assert_string_equal(job->cluster.coord, "etcd://10.0.0.1:2379,[::1]:2379");
	assert_int_equal(job_server_patience_ms(job), WEIR_SERVER_PATIENCE_MS);
	job_destroy(job);
	job = parse(BASE "cluster: {servers: 3, replicas: 2, ack: primary}\n"
	                 "read: {from: any, max_staleness_ms: 500, max_staleness_entries: 1000}\n",
	            NULL, 0);
	assert_int_equal(job->cluster.ack, JOB_ACK_PRIMARY);
	assert_int_equal(job->read.from, READ_ANY);
	assert_int_equal(job->read.max_staleness_ms, 500);
	assert_int_equal(job->read.max_staleness_entries, 1000);
	job_destroy(job);
	job = parse(BASE "cluster: {servers: 3, replicas: 2}\n", NULL, 0);
	assert_string_equal(job->cluster.coord, "static");
	job_destroy(job);
}

static void each_role_has_files_of_its_own(void **state)
{
	(void)state;
	struct job_security s;
	struct job *job = parse(BASE "security: {certificate: 'c/{role}.crt', key: 'c/{role}/{role}.key', ca: ca.crt}\n", NULL, 0);
	job_security(job, ROLE_ADMIN, &s);
	assert_string_equal(s.is.certificate, "c/admin.crt");
	assert_string_equal(s.is.key, "c/admin/admin.key");
	assert_string_equal(s.is.ca, "ca.crt");
	assert_string_equal(s.is.job, job->name);
	assert_int_equal(s.is.reload_s, 10);
	assert_false(s.is.insecure);
	job_destroy(job);
	job = parse(BASE "cluster: {servers: 2, replicas: 2, coord: 'etcds://etcd:2379', servers_at: ['a:1', 'b:1']}\n"
	                 "security: {certificate: a, key: b, ca: c}\n",
	            NULL, 0);
	assert_string_equal(job->cluster.coord, "etcds://etcd:2379");
	job_destroy(job);
	job_destroy(parse(BASE "cluster: {listen: '127.0.0.1:0'}\n", NULL, 0));
	job_destroy(parse(BASE "cluster: {listen: '0.0.0.0:7000'}\nsecurity: {insecure: true}\n", NULL, 0));
}

static void values_of_every_kind(void **state)
{
	(void)state;
	struct job *job = parse("job: all-kinds_1.0\n"
	                        "run_dir: '/tmp/x y'\n"
	                        "cluster: {servers: 3, workers: 4, memory_budget: 512 MiB, ack: sent, listen: 'localhost:7000',\n"
	                        "          servers_at: ['a:1', 'b:2', 'unix:/c'], executors: 2,\n"
	                        "          network: {rate: 100Mb/s, latency_ms: 5}}\n"
	                        "security: {certificate: 'c/{role}.crt', key: 'c/{role}/{role}.key', ca: c/ca.crt, reload_s: 5}\n"
	                        "data:\n"
	                        "  format: libsvm\n"
	                        "  train: [one, two*]\n"
	                        "  split: {by: crc32, train: 8, valid: 1, test: 1}\n"
	                        "  seed: 18446744073709551615\n"
	                        "  shuffle: false\n"
	                        "model: {kind: dlrm, dim: 8, bottom: [64, 8], hidden: 32, dropout: 0.25}\n"
	                        "tables:\n"
	                        "  embedding: {optimizer: {kind: row_adagrad, lr: .5, initial: 0.1}, push: {codec: bf16}, mode: "
	                        "{kind: sync, backup: 1}}\n"
	                        "  dense:\n"
	                        "    mode: {kind: sync, backup: 1}\n"
	                        "    optimizer:\n"
	                        "      schedule: {kind: exp_range, period: 10, min: 0.1, gamma: 0.999}\n",
	                        NULL, 0);
	assert_string_equal(job->run_dir, "/tmp/x y");
	assert_true(job->cluster.memory_budget_bytes == UINT64_C(512) << 20);
	assert_int_equal(job->cluster.servers_at_count, 3);
	assert_string_equal(job->cluster.servers_at[2], "unix:/c");
	assert_int_equal(job->cluster.executors, 2);
	assert_true(job->cluster.network.rate_bits_per_s == 100000000);
	assert_int_equal(job->cluster.network.latency_ms, 5);
	assert_int_equal(job->data.format, DATA_LIBSVM);
	assert_int_equal(job->data.train_count, 2);
	assert_string_equal(job->data.train[1], "two*");
	assert_int_equal(job->data.split.by, SPLIT_CRC32);
	assert_true(job->data.seed == UINT64_MAX);
	assert_false(job->data.shuffle);
	assert_int_equal(job->model.kind, MODEL_DLRM);
	assert_int_equal(job->model.hidden_count, 1);
	assert_int_equal(job->model.hidden[0], 32);
	assert_true(job->model.dropout == 0.25f);
	assert_int_equal(job->tables.embedding.optimizer.kind, WEIR_OPT_ROW_ADAGRAD);
	assert_true(job->tables.embedding.optimizer.lr == 0.5f);
	assert_int_equal(job->tables.embedding.push.codec, WEIR_CODEC_BF16);
	assert_int_equal(job->tables.embedding.mode.backup, 1);
	assert_int_equal(job->tables.dense.optimizer.schedule.kind, WEIR_SCHEDULE_EXP_RANGE);
	assert_int_equal(job->tables.dense.optimizer.schedule.period, 10);
	job_destroy(job);
}

static void sets_override_in_order(void **state)
{
	(void)state;
	const char *sets[] = {
	    "model.dim=32", "model.dim=64", "model.hidden=[7, 8, 9]", "data.train=*.tsv", "model.l2={embedding: 0.5, dense: 0.25}",
	    "run_dir=a=b",
	};
	struct job *job = parse(BASE "model: {dim: 8, l2: {linear: 1}}\n", sets, 6);
	assert_int_equal(job->model.dim, 64);
	assert_int_equal(job->model.hidden_count, 3);
	assert_int_equal(job->model.hidden[2], 9);
	assert_string_equal(job->data.train[0], "*.tsv");
	assert_true(job->model.l2.embedding == 0.5f);
	assert_true(job->model.l2.dense == 0.25f);
	assert_true(job->model.l2.linear == 1.0f);
	assert_string_equal(job->run_dir, "a=b");
	job_destroy(job);
}

static void sets_take_quotes_lists_and_maps(void **state)
{
	(void)state;
	const char *sets[] = {"cluster.listen='[::1]:0'", "data.train=[\"a b.tsv\", 'c.tsv']",
	                      "model={kind: lr, dim: 4}", "model.hidden=[]",
	                      "train.passes = 3",         "run_dir=\"runs/#1\"",
	                      "data.valid=a: b.tsv",      "cluster.network.rate='100Mb/s'",
	                      "data.test={c}.tsv"};
	weir_error err = {0};
	struct job *job = parse(BASE "model: {dim: 8, init_std: 0.5}\n", sets, 8);
	assert_string_equal(job->cluster.listen, "[::1]:0");
	assert_int_equal(job->data.train_count, 2);
	assert_string_equal(job->data.train[0], "a b.tsv");
	assert_string_equal(job->data.train[1], "c.tsv");
	assert_int_equal(job->model.kind, MODEL_LR);
	assert_int_equal(job->model.dim, 4);
	assert_float_equal(job->model.init_std, 0.5f, 0); /* a map sets only its own keys */
	assert_int_equal(job->model.hidden_count, 0);
	assert_int_equal(job->train.passes, 3);
	assert_string_equal(job->run_dir, "runs/#1");
	assert_string_equal(job->data.valid[0], "a: b.tsv");
	assert_int_equal(job->cluster.network.rate_bits_per_s, 100000000);
	job_destroy(job);

	const char *plain[] = {"cluster.listen=[::1]:0", "data.train={a,b}.tsv", "data.valid=[ab].tsv"};
	job = parse(BASE, plain, 3);
	assert_string_equal(job->cluster.listen, "[::1]:0");
	assert_string_equal(job->data.train[0], "{a,b}.tsv");
	assert_string_equal(job->data.valid[0], "[ab].tsv");
	job_destroy(job);

	const struct {
		const char *set, *tells;
	} bad[] = {{"cluster.listen='[::1]:0", "--set cluster.listen='[::1]:0: not valid YAML"},
	           {"model=lr", "--set model=lr: model: is 'lr'; expected a map"},
	           {"model=", "--set model=: model: is empty"},
	           {"model.hidden=[1, x]", "--set model.hidden=[1, x]: model.hidden: is 'x'"},
	           {"model={dim: 4, knid: lr}", "--set model={dim: 4, knid: lr}: model.knid: unknown key"},
	           {"=4", "--set =4: expected KEY=VALUE"},
	           {"train.passes", "--set train.passes: expected KEY=VALUE"},
	           {"cluster.replicas=2", "--set cluster.replicas=2: cluster.replicas: is 2; expected at most one for each"}};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		assert_int_not_equal(job_parse(BASE, "test.yaml", &bad[i].set, 1, &job, &err), WEIR_OK);
		CHECK_CONTAINS(err.text, bad[i].tells);
	}
}

static void references_are_replaced_from_the_environment(void **state)
{
	(void)state;
	setenv("WEIR_TEST_FOLDER", "/data", 1);
	setenv("WEIR_TEST_EMPTY", "", 1);
	unsetenv("WEIR_TEST_UNSET");
	const char *text = "job: x\n"
	                   "data: {train: ['${WEIR_TEST_FOLDER}/a-${WEIR_TEST_UNSET:-b}.tsv', '$$5 ${WEIR_TEST_EMPTY:-none}', "
	                   "'${WEIR_TEST_UNSET:-}c']}\n"
	                   "model: {dim: '${WEIR_TEST_UNSET:-12}'}\n";
	struct job *job = parse(text, NULL, 0);
	assert_string_equal(job->data.train[0], "/data/a-b.tsv");
	assert_string_equal(job->data.train[1], "$5 none");
	assert_string_equal(job->data.train[2], "c");
	assert_int_equal(job->model.dim, 12);
	job_destroy(job);
	/* An overridden value needs no environment. */
	const char *sets[] = {"data.train=x"};
	job = parse("job: x\ndata: {train: '${WEIR_TEST_UNSET}/y'}\n", sets, 1);
	assert_string_equal(job->data.train[0], "x");
	job_destroy(job);
}

static void anchors_share_settings(void **state)
{
	(void)state;
	struct job *job = parse(BASE "tables: {embedding: &t {optimizer: {lr: 0.5}}, dense: *t}\n", NULL, 0);
	assert_true(job->tables.embedding.optimizer.lr == 0.5f);
	assert_true(job->tables.dense.optimizer.lr == 0.5f);
	job_destroy(job);
}

static void generated_data_is_a_file_of_the_run_split_by_line(void **state)
{
	(void)state;
	struct job *job = parse("job: x\ndata: {generate: {rows: 1000}}\n", NULL, 0);
	assert_int_equal(job->data.generate.rows, 1000);
	assert_int_equal(job->data.train_count, 1);
	assert_string_equal(job->data.train[0], "runs/x/generated.tsv");
	assert_int_equal(job->data.split.by, SPLIT_CRC32);
	job_destroy(job);
	job_destroy(NULL);
}

static void each_table_has_its_own_mode(void **state)
{
	(void)state;
	struct job *job = parse(BASE "cluster: {workers: 3}\ntables: {dense: {mode: {kind: sync, backup: 1}}}\n", NULL, 0);
	assert_int_equal(job->tables.embedding.mode.kind, WEIR_ASYNC);
	assert_int_equal(job->tables.dense.mode.kind, WEIR_SYNC);
	job_destroy(job);
}

/* `off` wins over the other keys of the section. */
static void a_cache_of_rows_can_be_turned_off(void **state)
{
	(void)state;
	const char *text = BASE "tables: {embedding: {pull: {cache: {memory: 3MiB, max_age: 5, max_uses: 2}}}}\n",
	           *off[] = {"tables.embedding.pull.cache.memory=off"};
	struct job *job = parse(text, NULL, 0);
	assert_int_equal(job->tables.embedding.cache.memory_bytes, 3 << 20);
	assert_int_equal(job->tables.embedding.cache.max_age, 5);
	assert_int_equal(job->tables.embedding.cache.max_uses, 2);
	job_destroy(job);
	job = parse(text, off, 1);
	assert_int_equal(job->tables.embedding.cache.memory_bytes, 0);
	assert_int_equal(job->tables.embedding.cache.max_age, 0);
	assert_int_equal(job->tables.embedding.cache.max_uses, 0);
	job_destroy(job);
}

static void the_nearest_word(void **state)
{
	(void)state;
	const char *words[] = {"embedding", "dense", "linear"};
	assert_string_equal(job_nearest("embeding", words, 3), "embedding");
	assert_string_equal(job_nearest("desne", words, 3), "dense");
	assert_null(job_nearest("rows", words, 3));
	assert_null(job_nearest("x", words, 0));
}

/* Neither data nor a model: trainers of other programs bring both. */
static void a_job_of_foreign_trainers_has_neither_data_nor_model(void **state)
{
	(void)state;
	weir_error err = {0};
	struct job *job = parse("job: own\ncluster: {servers: 2}\ndata: {seed: 7, shuffle: false}\n", NULL, 0);
	assert_true(job->foreign);
	assert_int_equal(job->train.passes, 0);
	assert_int_equal(job->data.seed, 7);
	assert_int_equal(job_check_own(job, &err), WEIR_E_INVALID);
	CHECK_CONTAINS(err.text, "data.train: missing");
	CHECK_CONTAINS(err.text, "`weir up`");
	job_destroy(job);
	job = parse("job: own\ntrain: {passes: 3}\n", NULL, 0);
	assert_true(job->foreign);
	assert_int_equal(job->train.passes, 3);
	job_destroy(job);
	job = parse(BASE, NULL, 0);
	assert_false(job->foreign);
	assert_int_equal(job->train.passes, 1);
	CHECK_OK(job_check_own(job, &err), err);
	job_destroy(job);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_model_has_a_row),
	    cmocka_unit_test(transformers_read_tokens),
	    cmocka_unit_test(a_short_job_has_the_defaults),
	    cmocka_unit_test(a_model_of_text_is_judged_by_its_loss),
	    cmocka_unit_test(an_evaluator_is_waited_for_where_it_decides),
	    cmocka_unit_test(replicas_go_with_an_etcd_or_with_none_named),
	    cmocka_unit_test(each_role_has_files_of_its_own),
	    cmocka_unit_test(values_of_every_kind),
	    cmocka_unit_test(sets_override_in_order),
	    cmocka_unit_test(sets_take_quotes_lists_and_maps),
	    cmocka_unit_test(references_are_replaced_from_the_environment),
	    cmocka_unit_test(anchors_share_settings),
	    cmocka_unit_test(generated_data_is_a_file_of_the_run_split_by_line),
	    cmocka_unit_test(each_table_has_its_own_mode),
	    cmocka_unit_test(a_cache_of_rows_can_be_turned_off),
	    cmocka_unit_test(the_nearest_word),
	    cmocka_unit_test(a_job_of_foreign_trainers_has_neither_data_nor_model),
	};
	return cmocka_run_group_tests_name("job", tests, NULL, NULL);
}
