/* weir bench loader: Criteo text to batches (parsed, hashed, normalised), in bytes of text per
 * second, compared with reading the file and with memcpy. The text is generated in a temporary
 * folder. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/bench/bench.h"
#include "worker/data/columns/generate_clicks.h"
#include "worker/data/dataset.h"

enum { LOADER_ROWS = 400000, LOADER_ROWS_QUICK = 5000, LOADER_IDS = 1000000, LOADER_THREADS = 2, LOADER_READ_BYTES = 1 << 20 };

struct loader_bench {
	char dir[64], path[96];
	uint64_t bytes; /* size of the text */
	struct job *job;
	char *buffer; /* (LOADER_READ_BYTES) */
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

static double run_loader(void *arg, weir_error *err)
{
	struct loader_bench *b = arg;
	struct dataset *d = NULL;
	struct batch batch = {0};
	uint64_t rows = 0;
	double start = bench_now_s();
	weir_status status = dataset_open(&d, b->job, SPLIT_TRAIN, NULL, err);
	for (uint32_t u = 0; status == WEIR_OK && u < dataset_get_info(d)->units; u++)
		status = read_unit(d, u, &batch, &rows, err);
	double elapsed = bench_now_s() - start;
	batch_free(&batch);
	if (d)
		dataset_close(d);
	return status == WEIR_OK && rows > 0 ? (double)b->bytes / elapsed : -1;
}

static weir_status prepare(struct loader_bench *b, uint64_t rows, uint64_t threads, weir_error *err)
{
	char text[512];
	struct ground_truth truth = {0};
	struct stat st;
	strcpy(b->dir, "/tmp/weir-bench-XXXXXX");
	b->buffer = malloc(LOADER_READ_BYTES);
	if (!b->buffer || !mkdtemp(b->dir)) {
		b->dir[0] = '\0';
		return weir_fail(err, WEIR_E_IO, "cannot make a folder in /tmp: %s", strerror(errno));
	}
	snprintf(b->path, sizeof b->path, "%s/click.tsv", b->dir);
	weir_status status =
	    generate_criteo(&(struct generate_options){.path = b->path, .rows = rows, .ids = LOADER_IDS, .seed = 1}, &truth, err);
	if (status != WEIR_OK)
		return status;
	if (stat(b->path, &st) != 0)
		return weir_fail(err, WEIR_E_IO, "cannot find %s: %s", b->path, strerror(errno));
	b->bytes = (uint64_t)st.st_size;
	snprintf(text, sizeof text,
	         "job: bench\nrun_dir: %s\ndata: {format: criteo, train: '%s', batch: 1024, unit_batches: 16, shuffle: false, "
	         "threads: %" PRIu64 ", cache: 'off'}\nmodel: {kind: lr}\n",
	         b->dir, b->path, threads);
	return job_parse(text, "bench", NULL, 0, &b->job, err);
}

static void release(struct loader_bench *b)
{
	char truth[128];
	job_free(b->job);
	free(b->buffer);
	if (!b->dir[0])
		return;
	snprintf(truth, sizeof truth, "%s.truth.json", b->path);
	unlink(b->path);
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
		status = bench_run(bench, 5, err);
	}
	raw_memcpy_free(&copy);
	release(&b);
	return status;
}
