/* weir bench loader: Criteo text, and the same rows as CSV, to batches (parsed, hashed,
 * normalised), in bytes of text per second, compared with reading the file and with memcpy; and the
 * scan that finds the cells of CSV, on one thread. The text is generated in a temporary folder. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/bench/bench.h"
#include "common/system/disk.h"
#include "common/system/temp_folder.h"
#include "worker/data/columns/generate_clicks.h"
#include "worker/data/dataset.h"
#include "worker/data/format/csv_scan.h"

enum {
	LOADER_ROWS = 400000,
	LOADER_ROWS_QUICK = 5000,
	LOADER_IDS = 1000000,
	LOADER_THREADS = 2,
	LOADER_READ_BYTES = 1 << 20,
	LOADER_CSV_BYTES = 32 << 20,
	LOADER_SCAN_BYTES = 512 << 10
};

struct loader_bench {
	char dir[64], path[96], csv_path[96];
	uint64_t bytes; /* size of the text; that of the CSV differs by its header */
	struct job *job, *csv_job;
	char *buffer; /* (LOADER_READ_BYTES) */
	char *csv;    /* (csv_bytes) the beginning of the CSV */
	size_t csv_bytes;
	uint32_t *ends; /* (csv_bytes + CSV_SCAN_SLACK) */
};

static double run_read(void *arg, weir_error *err)
{
	struct loader_bench *b = arg;
	double start = bench_now_s();
	ssize_t n = -1;
	int fd = open(b->path, O_RDONLY | O_CLOEXEC);
	while (fd >= 0 && (n = read(fd, b->buffer, LOADER_READ_BYTES)) > 0) {
	}
	if (fd >= 0)
		close(fd);
	if (n == 0)
		return (double)b->bytes / (bench_now_s() - start);
	weir_fail(err, WEIR_E_IO, "cannot read %s: %s", b->path, strerror(errno));
	return -1;
}

static weir_status read_unit(struct dataset *d, uint32_t unit, struct batch *batch, uint64_t *rows, weir_error *err)
{
	struct unit_reader *u = NULL;
	weir_status status = unit_open(&u, d, unit, 0, err);
	for (uint32_t i = 0; status == WEIR_OK && i < unit_batches(u); i++) {
		status = unit_read(u, i, batch, err);
		*rows += batch->rows;
	}
	if (u)
		unit_close(u);
	return status;
}

static double load(const struct loader_bench *b, const struct job *job, weir_error *err)
{
	struct dataset *d = NULL;
	struct batch batch = {0};
	uint64_t rows = 0;
	double start = bench_now_s();
	weir_status status = dataset_open(&d, job, SPLIT_TRAIN, NULL, err);
	for (uint32_t u = 0; status == WEIR_OK && u < dataset_get_info(d)->units; u++)
		status = read_unit(d, u, &batch, &rows, err);
	double elapsed = bench_now_s() - start;
	batch_destroy(&batch);
	if (d)
		dataset_close(d);
	return status == WEIR_OK && rows > 0 ? (double)b->bytes / elapsed : -1;
}

static double run_loader(void *arg, weir_error *err)
{
	const struct loader_bench *b = arg;
	return load(b, b->job, err);
}

static double run_csv_loader(void *arg, weir_error *err)
{
	const struct loader_bench *b = arg;
	return load(b, b->csv_job, err);
}

static double run_csv_scan(void *arg, weir_error *err)
{
	struct loader_bench *b = arg;
	struct csv_scan scan = {.marks = {',', '"'}};
	(void)err;
	double start = bench_now_s();
	for (size_t at = 0; at < b->csv_bytes; at += LOADER_SCAN_BYTES) {
		const size_t left = b->csv_bytes - at;
		(void)csv_scan_best()->cells(&scan, b->csv + at, left < LOADER_SCAN_BYTES ? left : LOADER_SCAN_BYTES, b->ends);
	}
	return (double)b->csv_bytes / (bench_now_s() - start);
}

/* Writes the names of the columns, or their descriptions for a job. */
static void write_columns(FILE *out, bool described)
{
	fprintf(out, described ? "{name: clicked, kind: label}" : "clicked");
	for (int i = 1; i <= 13; i++)
		fprintf(out, described ? ", {name: n%d, kind: numeric, transform: log1p}" : ",n%d", i);
	for (int i = 1; i <= 26; i++)
		fprintf(out, described ? ", {name: c%d, kind: categorical}" : ",c%d", i);
}

/* Writes the Criteo text as CSV, and keeps its beginning in memory. */
static weir_status make_csv(struct loader_bench *b, weir_error *err)
{
	FILE *from = fopen(b->path, "re"), *to = fopen(b->csv_path, "we");
	size_t n;
	if (to)
		write_columns(to, false);
	if (to)
		fputc('\n', to);
	while (from && to && (n = fread(b->buffer, 1, LOADER_READ_BYTES, from)) > 0) {
		for (size_t i = 0; i < n; i++)
			b->buffer[i] = b->buffer[i] == '\t' ? ',' : b->buffer[i];
		fwrite(b->buffer, 1, n, to);
	}
	const bool good = from && to && !ferror(from) && !ferror(to);
	if (from)
		fclose(from);
	if (!to || fclose(to) != 0 || !good)
		return weir_fail(err, WEIR_E_IO, "cannot write %s: %s", b->csv_path, strerror(errno));
	b->csv = malloc(LOADER_CSV_BYTES);
	b->ends = malloc((LOADER_SCAN_BYTES + CSV_SCAN_SLACK) * sizeof *b->ends);
	from = b->csv && b->ends ? fopen(b->csv_path, "re") : NULL;
	if (!from)
		return weir_fail(err, WEIR_E_IO, "cannot read %s", b->csv_path);
	b->csv_bytes = fread(b->csv, 1, LOADER_CSV_BYTES, from);
	fclose(from);
	return WEIR_OK;
}

static weir_status make_job(const struct loader_bench *b, bool csv, uint64_t threads, struct job **out, weir_error *err)
{
	char *text = NULL;
	size_t bytes;
	FILE *f = open_memstream(&text, &bytes);
	if (!f)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory for a job");
	fprintf(f,
	        "job: bench\nrun_dir: %s\ndata: {format: %s, train: '%s', batch: 1024, unit_batches: 16, shuffle: false, "
	        "threads: %" PRIu64 ", cache: 'off', columns: [",
	        b->dir, csv ? "csv" : "criteo", csv ? b->csv_path : b->path, threads);
	if (csv)
		write_columns(f, true);
	fprintf(f, "]}\nmodel: {kind: lr}\n");
	const weir_status status =
	    fclose(f) == 0 ? job_parse(text, "bench", NULL, 0, out, err) : weir_fail(err, WEIR_E_MEMORY, "out of memory for a job");
	free(text);
	return status;
}

static weir_status prepare(struct loader_bench *b, uint64_t rows, uint64_t threads, weir_error *err)
{
	struct ground_truth truth = {0};
	struct stat st;
	weir_status status = temp_folder_make("weir-bench", b->dir, sizeof b->dir, err);
	if (status == WEIR_OK && !(b->buffer = malloc(LOADER_READ_BYTES)))
		status = weir_fail(err, WEIR_E_MEMORY, "no memory to read the data");
	if (status != WEIR_OK)
		return status;
	snprintf(b->path, sizeof b->path, "%s/click.tsv", b->dir);
	snprintf(b->csv_path, sizeof b->csv_path, "%s/click.csv", b->dir);
	status =
	    generate_criteo(&(struct generate_options){.path = b->path, .rows = rows, .ids = LOADER_IDS, .seed = 1}, &truth, err);
	if (status != WEIR_OK)
		return status;
	if (stat(b->path, &st) != 0)
		return weir_fail(err, WEIR_E_IO, "cannot find %s: %s", b->path, strerror(errno));
	b->bytes = (uint64_t)st.st_size;
	status = make_csv(b, err);
	if (status == WEIR_OK)
		status = make_job(b, false, threads, &b->job, err);
	return status == WEIR_OK ? make_job(b, true, threads, &b->csv_job, err) : status;
}

/* Removes a file of the cache folder, which has the index of the CSV. */
static weir_status remove_cached(void *arg, const char *name)
{
	const struct loader_bench *b = arg;
	char path[512];
	snprintf(path, sizeof path, "%s/cache/%.255s", b->dir, name);
	return unlink(path) == 0 ? WEIR_OK : WEIR_E_IO;
}

static void release(struct loader_bench *b)
{
	char truth[128], cache[80];
	job_destroy(b->job);
	job_destroy(b->csv_job);
	free(b->csv);
	free(b->ends);
	free(b->buffer);
	if (!b->dir[0])
		return;
	snprintf(truth, sizeof truth, "%s.truth.json", b->path);
	snprintf(cache, sizeof cache, "%s/cache", b->dir);
	(void)disk_system()->ops->list(disk_system(), cache, remove_cached, b, NULL);
	rmdir(cache);
	unlink(b->path);
	unlink(b->csv_path);
	unlink(truth);
	rmdir(b->dir);
}

weir_status bench_loader(struct bench *bench, weir_error *err)
{
	struct loader_bench b = {0};
	struct raw_memcpy copy = {0};
	uint64_t threads = bench->threads ? bench->threads : LOADER_THREADS;
	weir_status status = prepare(&b, bench->quick ? LOADER_ROWS_QUICK : LOADER_ROWS, threads, err);
	if (status == WEIR_OK)
		status = raw_memcpy_init(&copy, 64 << 20, err);
	if (status == WEIR_OK) {
		bench_note(bench, "%.1f MB of Criteo text, %" PRIu64 " threads, no cache", (double)b.bytes / 1e6, threads);
		uint32_t memory = bench_add(bench, "B/s", raw_memcpy_run, &copy, BENCH_NO_LIMIT, 0, "memcpy of 64 MiB");
		uint32_t read = bench_add(bench, "B/s", run_read, &b, memory, 0, "read(2) of the file, one thread");
		bench_add(bench, "B/s", run_loader, &b, read, 0, "loader");
		bench_add(bench, "B/s", run_csv_loader, &b, read, 0, "loader, CSV");
		bench_add(bench, "B/s", run_csv_scan, &b, memory, 0, "scan of CSV, one thread");
		status = bench_run(bench, 5, err);
	}
	raw_memcpy_destroy(&copy);
	release(&b);
	return status;
}
