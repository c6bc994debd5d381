#include "tests/unit/worker/data/fixture.h"

#include <lz4frame.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include "common/base/prng.h"
#include "tests/folder.h"

int folder_setup(void **state)
{
	struct folder *f = malloc(sizeof *f);
	const char *base = getenv("TMPDIR");
	snprintf(f->path, sizeof f->path, "%s/weir-data-XXXXXX", base == NULL ? "/tmp" : base);
	assert_non_null(mkdtemp(f->path));
	*state = f;
	return 0;
}

int folder_teardown(void **state)
{
	struct folder *f = *state;
	folder_remove(f->path);
	free(f);
	return 0;
}

char *write_bytes(const struct folder *f, const char *name, const void *data, size_t n, char path_out[256])
{
	snprintf(path_out, 256, "%s/%s", f->path, name);
	FILE *file = fopen(path_out, "wb");
	assert_non_null(file);
	assert_int_equal(fwrite(data, 1, n, file), n);
	assert_int_equal(fclose(file), 0);
	return path_out;
}

char *write_compressed(const struct folder *f, const char *name, enum text_kind kind, const void *data, size_t n,
                       char path_out[256])
{
	if (kind == TEXT_PLAIN)
		return write_bytes(f, name, data, n, path_out);
	if (kind == TEXT_GZIP) {
		snprintf(path_out, 256, "%s/%s", f->path, name);
		gzFile file = gzopen(path_out, "wb1");
		assert_non_null(file);
		assert_int_equal(gzwrite(file, data, (unsigned)n), n);
		assert_int_equal(gzclose(file), Z_OK);
		return path_out;
	}
	const bool zstd = kind == TEXT_ZSTD;
	const size_t bound = zstd ? ZSTD_compressBound(n) : LZ4F_compressFrameBound(n, NULL);
	void *out = malloc(bound);
	const size_t bytes = zstd ? ZSTD_compress(out, bound, data, n, 1) : LZ4F_compressFrame(out, bound, data, n, NULL);
	assert_false(zstd ? ZSTD_isError(bytes) : LZ4F_isError(bytes));
	write_bytes(f, name, out, bytes, path_out);
	free(out);
	return path_out;
}

char *criteo_text(uint32_t lines, uint64_t seed, size_t *bytes)
{
	struct prng r;
	prng_seed(&r, seed);
	char *text = malloc((size_t)lines * 512 + 1), *at = text;
	for (uint32_t i = 0; i < lines; i++) {
		at += sprintf(at, "%u", (unsigned)prng_below(&r, 2));
		for (int j = 0; j < 13; j++)
			at += prng_below(&r, 5) == 0 ? sprintf(at, "\t") : sprintf(at, "\t%d", (int)prng_below(&r, 20000) - 3);
		for (int j = 0; j < 26; j++)
			at += prng_below(&r, 9) == 0 ? sprintf(at, "\t") : sprintf(at, "\t%08x", (unsigned)prng_below(&r, 1000));
		*at++ = '\n';
	}
	*at = 0;
	*bytes = (size_t)(at - text);
	return text;
}

struct job *job_of(const struct folder *f, enum data_format format, const char *pattern)
{
	struct job *job = calloc(1, sizeof *job);
	job->data.format = format;
	job->data.train = malloc(sizeof(char *));
	job->data.train[0] = strdup(pattern);
	job->data.train_count = 1;
	job->data.batch = 8;
	job->data.unit_batches = 4;
	job->data.threads = 2;
	job->data.min_bad_line_reports = 3;
	job->data.positive_above = NAN;
	snprintf(job->run_dir, sizeof job->run_dir, "%s", f->path);
	snprintf(job->data.cache, sizeof job->data.cache, "auto");
	return job;
}

void job_of_free(struct job *job)
{
	free(job->data.train[0]);
	free(job->data.train);
	free(job);
}

static void dump_batch(FILE *out, const struct batch *b)
{
	for (uint32_t r = 0; r < b->rows; r++) {
		for (uint32_t t = 0; t < b->tasks; t++)
			fprintf(out, "%s%g", t > 0 ? "/" : "", (double)b->labels[(size_t)r * b->tasks + t]);
		fprintf(out, "*%g", b->weights == NULL ? 1.0 : (double)b->weights[r]);
		for (uint32_t j = 0; j < b->dense_dim; j++)
			fprintf(out, " %a", (double)b->dense[(size_t)r * b->dense_dim + j]);
		for (uint32_t f = 0; f < b->fields; f++) {
			fprintf(out, " |");
			size_t bag = (size_t)r * b->fields + f;
			for (uint32_t k = b->offsets[bag]; k < b->offsets[bag + 1]; k++)
				fprintf(out, " %llx:%g", (unsigned long long)b->keys[k], b->values == NULL ? 1.0 : (double)b->values[k]);
		}
		fprintf(out, "\n");
	}
}

char *batch_dump(const struct batch *b)
{
	char *text;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	dump_batch(out, b);
	fclose(out);
	return text;
}

struct dataset *open_part(const struct job *job, enum split_part part)
{
	struct dataset *d;
	weir_error err = {0};
	CHECK_OK(dataset_open(&d, job, part, NULL, &err), err);
	return d;
}

char *dataset_dump(struct dataset *d, uint64_t order_seed)
{
	char *text;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	struct batch b = {0};
	weir_error err = {0};
	for (uint32_t u = 0; u < dataset_get_info(d)->units; u++) {
		struct unit_reader *reader;
		CHECK_OK(unit_open(&reader, d, u, order_seed == 0 ? 0 : order_seed + u, &err), err);
		for (uint32_t i = 0; i < unit_batches(reader); i++) {
			CHECK_OK(unit_read(reader, i, &b, &err), err);
			dump_batch(out, &b);
		}
		unit_close(reader);
	}
	batch_destroy(&b);
	fclose(out);
	return text;
}

uint64_t count_rows(const char *dump)
{
	uint64_t rows = 0;
	for (; (dump = strchr(dump, '\n')) != NULL; dump++)
		rows++;
	return rows;
}

unsigned long file_kib(void)
{
	char line[256];
	unsigned long kib = 0;
	FILE *f = fopen("/proc/self/status", "re");
	assert_non_null(f);
	while (fgets(line, sizeof line, f) && sscanf(line, "RssFile: %lu", &kib) != 1) {
	}
	fclose(f);
	return kib;
}
