#include "tests/unit/server/store/row_file_fixture.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/limits.h"

#define FILE_BYTES_MAX (64u << 20)

int row_file_folder_make(struct row_file_folder *f)
{
	snprintf(f->path, sizeof f->path, "/tmp/weir-rows-XXXXXX");
	if (!mkdtemp(f->path))
		return -1;
	return blob_open(&f->store, &(struct blob_options){.place = f->path}, NULL);
}

void row_file_folder_remove(struct row_file_folder *f)
{
	blob_close(f->store);
	int status = rmdir(f->path);
	assert(status == 0); /* all files are removed */
}

weir_status row_file_read(void *arg, uint64_t offset, void *out, size_t bytes, size_t *got, weir_error *err)
{
	const struct row_file *f = arg;
	(void)err;
	size_t left = offset < f->bytes ? f->bytes - (size_t)offset : 0;
	*got = bytes < left ? bytes : left;
	if (*got)
		memcpy(out, f->data + offset, *got);
	return WEIR_OK;
}

void row_set_make(struct row_set *s, struct prng *random, uint32_t table, uint32_t elements, uint32_t slots, uint32_t count)
{
	size_t floats = (size_t)count * elements * (1 + slots);
	uint64_t *keys = malloc(count * sizeof *keys);
	struct row_meta *metas = calloc(count, sizeof *metas);
	float *rows = malloc((floats + 1) * sizeof *rows);
	assert(keys && metas && rows);
	for (uint32_t i = 0; i < count; i++) {
		keys[i] = prng_u64(random) >> prng_below(random, 64);
		metas[i] = (struct row_meta){.version = 1 + prng_below(random, 100000),
		                             .state = {.steps = (uint32_t)prng_below(random, 300)},
		                             .last_push_s = 1800000000u + (uint32_t)prng_below(random, 4000),
		                             .count = (uint32_t)prng_below(random, 300)};
	}
	for (size_t i = 0; i < floats; i++)
		rows[i] = prng_normal(random);
	s->rows = (struct checkpoint_rows){
	    .table = table, .elements = elements, .slots = slots, .count = count, .keys = keys, .metas = metas, .rows = rows};
}

void row_set_random(struct row_set *s, struct prng *random)
{
	static const uint32_t widths[] = {0, 1, 3, 16, 257, 65536};
	uint32_t elements = widths[prng_below(random, 6)], slots = elements ? (uint32_t)prng_below(random, 3) : 0;
	uint32_t count = 1 + (uint32_t)prng_below(random, elements > 1000 ? 3 : 20000);
	row_set_make(s, random, 1 + (uint32_t)prng_below(random, WEIR_TABLES_MAX), elements, slots, count);
}

void row_set_free(struct row_set *s)
{
	free((void *)(uintptr_t)s->rows.keys);
	free((void *)(uintptr_t)s->rows.metas);
	free((void *)(uintptr_t)s->rows.rows);
}

static double largest(const float *row, uint32_t n)
{
	double most = 0;
	for (uint32_t i = 0; i < n; i++)
		most = fmax(most, fabs((double)row[i]));
	return most;
}

void row_set_check(const struct row_set *s, uint32_t first, const struct checkpoint_rows *got, double off)
{
	const struct checkpoint_rows *want = &s->rows;
	size_t stride = (size_t)want->elements * (1 + want->slots);
	const float *rows = want->rows + first * stride;
	assert(got->table == want->table && got->elements == want->elements && got->slots == want->slots);
	assert(got->count <= want->count - first);
	assert(memcmp(got->keys, want->keys + first, got->count * sizeof *got->keys) == 0);
	assert(memcmp(got->metas, want->metas + first, got->count * sizeof *got->metas) == 0);
	if (off == 0 && stride > 0) /* rows without values have no address */
		assert(memcmp(got->rows, rows, got->count * stride * sizeof *rows) == 0);
	for (uint32_t i = 0; off > 0 && i < got->count; i++) {
		double most = largest(rows + i * stride, want->elements);
		for (uint32_t e = 0; e < want->elements; e++)
			assert(fabs((double)got->rows[i * stride + e] - (double)rows[i * stride + e]) <= off * most);
	}
}

void row_file_write(struct row_file_folder *folder, const struct checkpoint_file_header *h, const struct row_set *sets,
                    uint32_t count, struct row_file *out, struct checkpoint_file_info *info)
{
	struct checkpoint_file_writer *w;
	weir_error err = {0};
	char *data = NULL;
	weir_status status = checkpoint_file_create(&w, folder->store, "rows", h, &err);
	for (uint32_t i = 0; i < count && !status; i++)
		status = checkpoint_file_add(w, &sets[i].rows, &err);
	if (!status)
		status = checkpoint_file_commit(w, info, &err);
	if (!status)
		status = blob_get(folder->store, "rows", FILE_BYTES_MAX, &data, &out->bytes, &err);
	if (!status)
		status = blob_remove(folder->store, "rows", &err);
	if (status)
		fprintf(stderr, "%s\n", err.text);
	assert(!status);
	out->data = (uint8_t *)data;
}

void row_file_golden(struct row_file_folder *folder, struct row_file *out, struct checkpoint_file_info *info)
{
	static const struct checkpoint_file_header header = {
	    .partition = 7, .values = ROWS_BF16, .slots = ROWS_FP32, .generation = 2, .index = 500, .base = 300};
	static const uint64_t keys[3] = {5, 0x1122334455667788, 70000};
	static const struct row_meta metas[3] = {
	    {.version = 301, .state = {.steps = 4, .accumulator = 0.5f}, .last_push_s = 1700000000, .count = 4},
	    {.version = 499, .state = {.steps = 1000}, .last_push_s = 1700000300, .count = 1000},
	    {.version = 500, .state = {.steps = 1}, .last_push_s = 1700000301, .count = 1}};
	static const float rows[3 * 4] = {1, -2, 0.25f, 0.125f, 0.5f, 3, 8, 16, -0.0f, 100, 0.75f, 1e-3f};
	struct row_set sets[2] = {
	    {.rows = {.table = 1, .elements = 2, .slots = 1, .count = 3, .keys = keys, .metas = metas, .rows = rows}},
	    {.rows = {.table = 4, .count = 2, .keys = keys, .metas = metas, .rows = rows}}}; /* stubs */
	row_file_write(folder, &header, sets, 2, out, info);
}
