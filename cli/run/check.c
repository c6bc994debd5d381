/* weir check: checks a job file and everything that it names on this machine. */
#include "cli/run/check.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/core/options.h"
#include "cli/core/ports.h"
#include "cli/core/progress_line.h"
#include "cli/core/verbs.h"
#include "cli/run/data_check.h"
#include "cli/run/run_dir.h"
#include "common/system/disk.h"
#include "common/system/process.h"
#include "kernels/backend.h"
#include "proto/rpc/rpc_address.h"
#include "worker/data/column_facts.h"
#include "worker/data/dataset.h"
#include "worker/data/format/sources.h"
#include "worker/data/remote/remote.h"
#include "worker/data/tokens/token_file.h"
#include "worker/model/adapter_folder.h"
#include "worker/model/transformer_config.h"
#include "worker/tokenizer/tokenizer.h"
#include "worker/train/job/data_shape.h"
#include "worker/train/job/device.h"
#include "worker/train/score/snapshot.h"

#define ANSWER_MS 200 /* timeout of a server of this machine */

struct check {
	const struct job *job;
	struct logger *logger;
	FILE *out;
	uint32_t wrong;
};

/* --- Lines */

enum verdict { GOOD, NOTE, WRONG };

WEIR_PRINTF(4, 5) static void tell(struct check *c, enum verdict verdict, const char *key, const char *format, ...)
{
	static const char *const words[] = {[GOOD] = "ok   ", [NOTE] = "note ", [WRONG] = "WRONG"};
	va_list args;
	va_start(args, format);
	fprintf(c->out, "%s  %s: ", words[verdict], key);
	vfprintf(c->out, format, args);
	fputc('\n', c->out);
	va_end(args);
	c->wrong += verdict == WRONG;
}

/* --- Data */

/* Parses the first unit and reports on it as a sample of the data. False: the unit has no good
 * row. */
static bool sample(struct check *c, const char *key, struct dataset *data, uint32_t files, uint64_t bytes)
{
	struct unit_reader *unit;
	weir_error err = {0};
	struct batch batch = {0};
	char size[16];
	uint64_t rows = 0;
	format_bytes(size, sizeof size, (double)bytes);
	weir_status status = unit_open(&unit, data, 0, 0, &err);
	if (status != WEIR_OK) {
		tell(c, WRONG, key, "%s", err.text);
		return false;
	}
	for (uint32_t i = 0; i < unit_batches(unit) && status == WEIR_OK; i++) {
		status = unit_read(unit, i, &batch, &err);
		rows += batch.rows;
	}
	const uint64_t bad = unit_bad_lines(unit);
	if (status != WEIR_OK)
		tell(c, WRONG, key, "%s", err.text);
	else if (rows == 0 && bad == 0)
		tell(c, WRONG, key, "there is no row in its first lines, which are blank or comments");
	else if (rows == 0)
		tell(c, WRONG, key, "the first %" PRIu64 " line%s no good row; is data.format right?", bad, bad == 1 ? " has" : "s have");
	else
		tell(c, bad ? NOTE : GOOD, key, "%u file%s, %s; the first %" PRIu64 " %s%s read, %" PRIu64 " bad", files,
		     files == 1 ? "" : "s", size, rows + bad, job_is_language(c->job) ? "example" : "line",
		     rows + bad == 1 ? " is" : "s are", bad);
	batch_destroy(&batch);
	unit_close(unit);
	return status == WEIR_OK && rows > 0;
}

/* Checks the labels as `weir train` does before training, without a word on bad lines, which
 * `sample` has named. */
static void check_labels(struct check *c, const char *key, enum split_part part, const struct job *job)
{
	char warning[DATA_WARNING_BYTES] = "";
	struct dataset *data = NULL;
	struct dataset_labels seen;
	weir_error err = {0};
	weir_status status = dataset_open(&data, job, part, NULL, &err);
	if (status == WEIR_OK)
		status = part == SPLIT_TRAIN ? data_check_labels(job, data, warning, &err) : dataset_see_labels(data, &seen, &err);
	if (data)
		dataset_close(data);
	/* "KEY: " */
	const char *text = strncmp(err.text, key, strlen(key)) == 0 ? err.text + strlen(key) + 2 : err.text;
	if (status != WEIR_OK)
		tell(c, WRONG, key, "%s", text);
	else if (warning[0])
		tell(c, NOTE, key, "%s", warning);
}

static void check_files(struct check *c, const char *key, enum split_part part, const struct sources *s, uint64_t bytes)
{
	struct job *job = malloc(sizeof *job);
	struct dataset *data = NULL;
	weir_error err = {0};
	if (!job)
		return;
	memcpy(job, c->job, sizeof *job);
	snprintf(job->data.cache, sizeof job->data.cache, "off"); /* write nothing */
	if (bytes == 0)
		tell(c, WRONG, key, "there is nothing in %s%s", s->items[0].path, s->count > 1 ? " and the other files" : "");
	else if (!data_check_is_plain(job, s))
		tell(c, GOOD, key, "%u file%s; compressed, or texts to tokenize: lines are looked at when training begins", s->count,
		     s->count == 1 ? "" : "s");
	else if (dataset_open(&data, job, part, c->logger, &err) != WEIR_OK)
		tell(c, WRONG, key, "%s", err.text);
	else if (dataset_get_info(data)->units == 0)
		tell(c, WRONG, key, "there is no row in %s%s", s->items[0].path, s->count > 1 ? " and the other files" : "");
	else if (sample(c, key, data, s->count, bytes) && !job_is_language(job))
		check_labels(c, key, part, job);
	if (data)
		dataset_close(data);
	free(job);
}

/* Checks a part and returns the number of bytes in its files. */
static uint64_t check_part(struct check *c, const char *key, enum split_part part, char *const *patterns, uint32_t count)
{
	struct sources sources = {0};
	weir_error err = {0};
	uint64_t bytes = 0;
	for (uint32_t i = 0; i < count; i++)
		if (remote_is(patterns[i])) {
			tell(c, NOTE, key, "%s is copied when training begins: it is not looked at here", patterns[i]);
			return 0;
		}
	if (sources_find(&sources, patterns, count, SOURCES_BY_PATH, NULL, &err) != WEIR_OK) {
		tell(c, WRONG, key, "%s", err.text);
	} else {
		for (uint32_t i = 0; i < sources.count; i++)
			bytes += sources.items[i].size;
		check_files(c, key, part, &sources, bytes);
	}
	sources_destroy(&sources);
	return bytes;
}

static uint64_t check_data(struct check *c)
{
	const struct job *job = c->job;
	uint64_t bytes = 0;
	if (job->data.generate.rows > 0) {
		tell(c, GOOD, "data.generate", "%" PRIu64 " rows are made when training begins", job->data.generate.rows);
		return 0;
	}
	bytes += check_part(c, "data.train", SPLIT_TRAIN, job->data.train, job->data.train_count);
	if (job->data.valid_count > 0)
		bytes += check_part(c, "data.valid", SPLIT_VALID, job->data.valid, job->data.valid_count);
	if (job->data.test_count > 0)
		bytes += check_part(c, "data.test", SPLIT_TEST, job->data.test, job->data.test_count);
	return bytes;
}

/* --- Models and tokenizers */

static void tell_status(struct check *c, const char *key, const char *what, weir_status status, const weir_error *err)
{
	if (status == WEIR_OK)
		tell(c, GOOD, key, "%s", what);
	else
		tell(c, WRONG, key, "%s", err->text);
}

static void check_models(struct check *c)
{
	const struct job *job = c->job;
	char path[WEIR_PATH_BYTES_MAX + 16];
	weir_error err = {0};
	if (job->model.from[0]) {
		struct transformer_config config;
		snprintf(path, sizeof path, "%s/config.json", job->model.from);
		tell_status(c, "model.from", job->model.from, transformer_config_read(path, &config, &err), &err);
	}
	if (job->model.lora.from[0]) {
		struct lora_options lora = {0};
		tell_status(c, "model.lora.from", job->model.lora.from, adapter_folder_read(job->model.lora.from, &lora, &err), &err);
	}
	if (job->data.tokenizer[0]) {
		struct tokenizer *t = NULL;
		tell_status(c, "data.tokenizer", job->data.tokenizer, tokenizer_open(&t, job->data.tokenizer, &err), &err);
		tokenizer_close(t);
	}
	const bool same = strcmp(job->train.warm_start, job->model.from) == 0;
	if (job->train.warm_start[0] && !same) {
		struct stat st;
		if (stat(job->train.warm_start, &st) != 0)
			tell(c, WRONG, "train.warm_start", "cannot open %s", job->train.warm_start);
		else
			tell(c, GOOD, "train.warm_start", "%s; that its weights fit is looked at when training begins",
			     job->train.warm_start);
	}
}

/* --- The machine */

static void check_device(struct check *c)
{
	weir_error err = {0};
	const struct backend_options where = device_options(c->job, 0, 1, true);
	tell_status(c, "device", c->job->device, backend_check(&where, &err), &err);
}

static void check_memory(struct check *c)
{
	const struct job *job = c->job;
	char budget[16], has[16];
	const uint64_t memory = process_machine_memory(), all = job->cluster.memory_budget_bytes * job->cluster.servers;
	if (job->cluster.servers_at_count > 0 || memory == 0)
		return;
	format_bytes(budget, sizeof budget, (double)all);
	format_bytes(has, sizeof has, (double)memory);
	if (all > memory)
		tell(c, NOTE, "cluster.memory_budget",
		     "%u server%s may come to take %s, and this machine has %s: a model of that size would not fit; lower it",
		     job->cluster.servers, job->cluster.servers == 1 ? "" : "s", budget, has);
	else
		tell(c, GOOD, "cluster.memory_budget", "%s of servers, of %s that this machine has", budget, has);
}

/* Finds the nearest existing folder at or above the run directory. */
static void existing_folder(const char *path, char out[WEIR_PATH_BYTES_MAX])
{
	snprintf(out, WEIR_PATH_BYTES_MAX, "%s", path);
	while (access(out, F_OK) != 0) {
		char *slash = strrchr(out, '/');
		if (!slash) {
			snprintf(out, WEIR_PATH_BYTES_MAX, ".");
			return;
		}
		slash[slash == out] = '\0';
	}
}

static void check_run_dir(struct check *c, uint64_t data_bytes)
{
	const struct job *job = c->job;
	char folder[WEIR_PATH_BYTES_MAX], needs[16], has[16];
	weir_error err = {0};
	uint64_t space = 0;
	existing_folder(job->run_dir, folder);
	if (access(folder, W_OK | X_OK) != 0) {
		tell(c, WRONG, "run_dir", "cannot write in %s: give its owner the right, or set run_dir", folder);
		return;
	}
	if (run_dir_is_used(job))
		tell(c, WRONG, "run_dir", "a `weir train`, `up` or `launch` runs in %s", job->run_dir);
	else if (run_dir_has_data(job))
		tell(c, NOTE, "run_dir", "%s holds an earlier run: `weir %s --resume` goes on with it, --fresh deletes it", job->run_dir,
		     run_dir_verb(job));
	else
		tell(c, GOOD, "run_dir", "%s", job->run_dir);
	if (disk_system()->ops->free_space(disk_system(), folder, &space, &err) != WEIR_OK)
		return;
	format_bytes(has, sizeof has, (double)space);
	format_bytes(needs, sizeof needs, (double)data_bytes);
	if (space < data_bytes && strcmp(job->data.cache, "off") != 0)
		tell(c, WRONG, "disk", "%s are free at %s, and parsed copies of the data may take %s", has, folder, needs);
	else
		tell(c, GOOD, "disk", "%s are free at %s", has, folder);
}

static void check_address(struct check *c, const char *key, const char *address)
{
	weir_error err = {0};
	if (rpc_address_check(address, &err) != WEIR_OK)
		tell(c, WRONG, key, "%s", err.text);
	else
		tell(c, GOOD, key, "%s is free", address);
}

static void check_addresses(struct check *c)
{
	const struct job *job = c->job;
	char address[WEIR_ADDRESS_BYTES_MAX];
	const char *listen = job->cluster.listen, *colon = strrchr(listen, ':');
	for (uint32_t i = 0; i < job->cluster.servers_at_count; i++) {
		const bool answers = ports_answer(job->cluster.servers_at[i], ANSWER_MS);
		tell(c, answers ? GOOD : NOTE, "cluster.servers_at", "%s %s", job->cluster.servers_at[i],
		     answers ? "answers" : "does not answer: start its server before the workers");
	}
	const unsigned long port = colon && job->cluster.servers_at_count == 0 ? strtoul(colon + 1, NULL, 10) : 0;
	for (uint32_t i = 0; i < job->cluster.servers && port > 0; i++) {
		snprintf(address, sizeof address, "%.*s:%lu", (int)(colon - listen), listen, port + i);
		check_address(c, "cluster.listen", address);
	}
	const uint32_t pages = job->cluster.servers + job->cluster.workers + 1; /* plus the evaluator */
	for (uint32_t i = 0; i < pages && job->metrics.port > 0 && job_monitor_address(job, i, address); i++)
		check_address(c, "metrics.port", address);
}

/* --- */

uint32_t check_job(const struct job *job, struct logger *logger, FILE *out)
{
	struct check c = {.job = job, .logger = logger, .out = out};
	uint64_t bytes = 0;
	if (!job->foreign) {
		check_device(&c);
		bytes = check_data(&c);
		check_models(&c);
	}
	check_run_dir(&c, bytes);
	check_addresses(&c);
	check_memory(&c);
	return c.wrong;
}

void check_print_plan(const struct job *job, bool resume, bool fresh, FILE *out)
{
	const char *run = resume  ? "goes on with the run in"
	                  : fresh ? "deletes servers' data of the earlier run, and begins one, in"
	                          : "begins a run in";
	fprintf(out, "`weir train` %s %s: %s, %u pass%s of batches of %u\n", run, job->run_dir, model_kind_name(job->model.kind),
	        job->train.passes, job->train.passes == 1 ? "" : "es", job->data.batch);
	if (job->cluster.servers_at_count > 0)
		fprintf(out, "  with %u servers that run already", job->cluster.servers);
	else
		fprintf(out, "  starts %u server%s (%s)", job->cluster.servers, job->cluster.servers == 1 ? "" : "s",
		        job->cluster.listen);
	fprintf(out, ", starts %u worker%s and an evaluator\n", job->cluster.workers, job->cluster.workers == 1 ? "" : "s");
	fprintf(out, "  writes %s/report.json, best.safetensors, evaluation.json\n", job->run_dir);
}

int verb_check(int count, char **args)
{
	struct job_options o = {.plans = true}; /* what says auto is checked with its default */
	struct job *job = NULL;
	struct logger *logger = NULL;
	const char *word = NULL;
	weir_error err = {0};
	const struct option options[] = {JOB_OPTIONS(&o)};
	weir_status status = options_parse(count, args, options, sizeof options / sizeof *options, &word, 1, &err);
	if (status == WEIR_OK)
		status = job_options_take(&o, word, &err);
	if (status == WEIR_OK)
		status = job_options_logger(&o, "weir", LOG_WARN, &logger, &err);
	if (status != WEIR_OK)
		return verb_usage("check", &err);
	status = job_options_load(&o, &job, &err);
	if (status == WEIR_OK)
		status = column_facts_assume(job, &err);
	const uint32_t wrong = status == WEIR_OK ? check_job(job, logger, stdout) : 0;
	fflush(stdout);
	if (wrong)
		status = weir_fail(&err, WEIR_E_INVALID, "%u thing%s wrong: see above; `weir %s` would not begin", wrong,
		                   wrong == 1 ? " is" : "s are", run_dir_verb(job));
	job_destroy(job);
	logger_destroy(logger);
	return status == WEIR_OK ? EXIT_SUCCESS : verb_fail("check", &err);
}
