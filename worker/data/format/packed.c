#include "worker/data/format/packed.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "common/base/crc32c.h"
#include "common/base/limits.h"

#define ALIGNMENT    64u
#define COLUMNS      7u
#define FLAG_OFFSETS 1u
#define FLAG_VALUES  2u
#define FLAG_WEIGHTS 4u
#define FLAG_GROUPS  8u

struct header {
	char magic[8];
	uint32_t version, crc;
	uint64_t identity, rows, index_offset;
	uint32_t blocks;
	uint16_t fields, tasks;
	uint32_t dense_dim, index_crc;
	uint64_t bad_lines;
};
_Static_assert(sizeof(struct header) == 64, "the header is 64 bytes in the file");
_Static_assert(WEIR_FIELDS_MAX <= UINT16_MAX && WEIR_TASKS_MAX <= UINT16_MAX, "the header has 16 bits for each");

struct entry {
	uint64_t offset, bytes;
	uint32_t rows, flags, keys, crc;
};
_Static_assert(sizeof(struct entry) == 32, "an index entry is 32 bytes in the file");

static uint32_t header_crc(const struct header *h)
{
	return crc32c(0, (const uint8_t *)h + 16, sizeof *h - 16);
}

static size_t aligned(size_t bytes)
{
	return (bytes + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
}

/* Computes the byte sizes of a block's columns, in order; absent columns have 0. */
static void column_sizes(const struct row_shape *shape, const struct entry *e, size_t out[COLUMNS])
{
	const size_t rows = e->rows, keys = e->keys;
	out[0] = rows * shape->tasks * sizeof(float);
	out[1] = rows * shape->dense_dim * sizeof(float);
	out[2] = keys * sizeof(uint64_t);
	out[3] = e->flags & FLAG_OFFSETS ? (rows * shape->fields + 1) * sizeof(uint32_t) : 0;
	out[4] = e->flags & FLAG_VALUES ? keys * sizeof(float) : 0;
	out[5] = e->flags & FLAG_WEIGHTS ? rows * sizeof(float) : 0;
	out[6] = e->flags & FLAG_GROUPS ? rows * sizeof(uint64_t) : 0;
}

struct packed_writer {
	char *path, *temporary;
	int fd;
	struct header header;
	uint64_t at;
	struct entry *index;
	uint32_t index_capacity;
};

static void writer_destroy(struct packed_writer *w)
{
	if (w->fd >= 0)
		close(w->fd);
	free(w->path);
	free(w->temporary);
	free(w->index);
	free(w);
}

weir_status packed_writer_open(struct packed_writer **out, const char *path, uint64_t identity, struct row_shape shape,
                               weir_error *err)
{
	struct packed_writer *w = calloc(1, sizeof *w);
	if (!w)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory writing %s", path);
	*w = (struct packed_writer){.path = strdup(path),
	                            .fd = -1,
	                            .at = sizeof(struct header),
	                            .header = {.magic = PACKED_MAGIC,
	                                       .version = PACKED_VERSION,
	                                       .identity = identity,
	                                       .fields = (uint16_t)shape.fields,
	                                       .tasks = (uint16_t)shape.tasks,
	                                       .dense_dim = shape.dense_dim}};
	if (!w->path || asprintf(&w->temporary, "%s.tmp", path) < 0) {
		w->temporary = NULL;
		writer_destroy(w);
		return weir_fail(err, WEIR_E_MEMORY, "out of memory writing %s", path);
	}
	w->fd = open(w->temporary, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (w->fd < 0) {
		int e = errno;
		writer_destroy(w);
		return weir_fail(err, WEIR_E_IO, "cannot create the packed cache %s: %s; make the folder writable or set data.cache",
		                 path, strerror(e));
	}
	*out = w;
	return WEIR_OK;
}

static weir_status write_all(struct packed_writer *w, const struct iovec *parts, int count, weir_error *err)
{
	for (int i = 0; i < count; i++) {
		const char *data = parts[i].iov_base;
		for (size_t left = parts[i].iov_len; left > 0;) {
			ssize_t n = pwrite(w->fd, data, left, (off_t)w->at);
			if (n < 0 && errno == EINTR)
				continue;
			if (n <= 0)
				return weir_fail(err, WEIR_E_IO, "cannot write %s: %s; free some space or set data.cache", w->temporary,
				                 strerror(n < 0 ? errno : ENOSPC));
			data += n;
			left -= (size_t)n;
			w->at += (size_t)n;
		}
	}
	return WEIR_OK;
}

static struct entry *index_add(struct packed_writer *w)
{
	if (w->header.blocks == w->index_capacity) {
		uint32_t capacity = w->index_capacity * 2 + 64;
		struct entry *larger = realloc(w->index, capacity * sizeof *larger);
		if (!larger)
			return NULL;
		w->index = larger;
		w->index_capacity = capacity;
	}
	return &w->index[w->header.blocks++];
}

weir_status packed_writer_add(struct packed_writer *w, const struct rows_view *v, weir_error *err)
{
	static const uint8_t zeros[ALIGNMENT];
	const struct row_shape shape = {v->tasks, v->fields, v->dense_dim};
	assert(v->tasks == w->header.tasks && v->fields == w->header.fields && v->dense_dim == w->header.dense_dim);
	if (v->count == 0)
		return WEIR_OK;
	struct entry *e = index_add(w);
	if (!e)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory writing %s", w->path);
	*e = (struct entry){.offset = w->at, .rows = v->count, .keys = (uint32_t)v->keys_count};
	e->flags = (v->offsets ? FLAG_OFFSETS : 0) | (v->values ? FLAG_VALUES : 0) | (v->weights ? FLAG_WEIGHTS : 0) |
	           (v->groups ? FLAG_GROUPS : 0);
	const void *columns[COLUMNS] = {v->labels, v->dense, v->keys, v->offsets, v->values, v->weights, v->groups};
	size_t sizes[COLUMNS];
	struct iovec parts[2 * COLUMNS];
	int count = 0;
	column_sizes(&shape, e, sizes);
	for (unsigned c = 0; c < COLUMNS; c++) {
		size_t padding = aligned(sizes[c]) - sizes[c];
		if (sizes[c] > 0)
			parts[count++] = (struct iovec){(void *)(uintptr_t)columns[c], sizes[c]};
		if (padding > 0)
			parts[count++] = (struct iovec){(void *)(uintptr_t)zeros, padding};
	}
	for (int i = 0; i < count; i++)
		e->crc = crc32c(e->crc, parts[i].iov_base, parts[i].iov_len);
	weir_status status = write_all(w, parts, count, err);
	e->bytes = w->at - e->offset;
	w->header.rows += v->count;
	return status;
}

weir_status packed_writer_commit(struct packed_writer *w, uint64_t bad_lines, weir_error *err)
{
	struct iovec index = {w->index, w->header.blocks * sizeof *w->index};
	struct iovec header = {&w->header, sizeof w->header};
	w->header.index_offset = w->at;
	w->header.index_crc = crc32c(0, w->index, index.iov_len);
	w->header.bad_lines = bad_lines;
	w->header.crc = header_crc(&w->header);
	weir_status status = write_all(w, &index, 1, err);
	w->at = 0;
	if (status == WEIR_OK)
		status = write_all(w, &header, 1, err);
	/* No sync: after a power cut the checksums reveal damage, and the cache is rebuilt. */
	if (status == WEIR_OK && rename(w->temporary, w->path) != 0)
		status = weir_fail(err, WEIR_E_IO, "cannot complete %s: %s", w->path, strerror(errno));
	if (status != WEIR_OK)
		unlink(w->temporary);
	writer_destroy(w);
	return status;
}

void packed_writer_abandon(struct packed_writer *w)
{
	if (!w)
		return;
	unlink(w->temporary);
	writer_destroy(w);
}

struct packed {
	char *path;
	int fd;
	const uint8_t *base; /* of the whole file; for its header and index */
	size_t size;
	struct packed_info info;
	const struct entry *index;
	uint64_t *first_rows; /* (blocks) */
	atomic_bool *checked; /* (blocks) its checksum and offsets are good */
};

static weir_status not_packed(const struct packed *p, weir_error *err)
{
	return weir_fail(err, WEIR_E_CORRUPT, "%s is not a packed file: is data.format right?", p->path);
}

static weir_status map_file(struct packed *p, weir_error *err)
{
	struct stat st;
	p->fd = open(p->path, O_RDONLY | O_CLOEXEC);
	if (p->fd < 0)
		return weir_fail(err, errno == ENOENT ? WEIR_E_NOT_FOUND : WEIR_E_IO, "cannot open %s: %s", p->path, strerror(errno));
	void *base = MAP_FAILED;
	if (fstat(p->fd, &st) == 0 && st.st_size >= (off_t)sizeof(struct header))
		base = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, p->fd, 0);
	else
		errno = EINVAL;
	const int e = errno;
	if (base == MAP_FAILED)
		return e == EINVAL ? not_packed(p, err) : weir_fail(err, WEIR_E_IO, "cannot map %s: %s", p->path, strerror(e));
	p->base = base;
	p->size = (size_t)st.st_size;
	return WEIR_OK;
}

static weir_status corrupt(const struct packed *p, weir_error *err, const char *what)
{
	return weir_fail(err, WEIR_E_CORRUPT, "%s is damaged: %s; if it is a copy in a run's cache, delete it to have it built again",
	                 p->path, what);
}

static weir_status check_index(struct packed *p, const struct header *h, weir_error *err)
{
	const struct row_shape shape = {p->info.tasks, p->info.fields, p->info.dense_dim};
	uint64_t rows = 0;
	for (uint32_t b = 0; b < h->blocks; b++) {
		const struct entry *e = &p->index[b];
		size_t sizes[COLUMNS], bytes = 0;
		column_sizes(&shape, e, sizes);
		for (unsigned c = 0; c < COLUMNS; c++)
			bytes += aligned(sizes[c]);
		if (bytes != e->bytes || e->offset % ALIGNMENT != 0 || e->offset > h->index_offset ||
		    e->bytes > h->index_offset - e->offset)
			return corrupt(p, err, "a block lies outside the file");
		if (!(e->flags & FLAG_OFFSETS) && (uint64_t)e->rows * h->fields != e->keys)
			return corrupt(p, err, "a block's keys do not match its rows");
		p->first_rows[b] = rows;
		rows += e->rows;
		p->info.one_hot &= (e->flags & (FLAG_OFFSETS | FLAG_VALUES)) == 0;
	}
	return rows == h->rows ? WEIR_OK : corrupt(p, err, "its rows do not add up");
}

static weir_status read_header(struct packed *p, weir_error *err)
{
	struct header h;
	memcpy(&h, p->base, sizeof h);
	if (memcmp(h.magic, PACKED_MAGIC, sizeof h.magic) != 0)
		return not_packed(p, err);
	if (h.version == 0 || h.version > PACKED_VERSION)
		return weir_fail(err, WEIR_E_VERSION, "%s is of version %u, this program reads up to %u", p->path, h.version,
		                 PACKED_VERSION);
	if (h.crc != header_crc(&h))
		return corrupt(p, err, "the header's checksum is wrong");
	uint64_t index_bytes = (uint64_t)h.blocks * sizeof(struct entry);
	if (h.index_offset > p->size || index_bytes > p->size - h.index_offset || h.index_offset % ALIGNMENT != 0)
		return corrupt(p, err, "it is cut short");
	if (h.fields > WEIR_FIELDS_MAX || h.dense_dim > WEIR_DENSE_FEATURES_MAX || h.tasks > WEIR_TASKS_MAX)
		return corrupt(p, err, "more fields or labels than the limit");
	p->index = (const struct entry *)(const void *)(p->base + h.index_offset);
	if (h.index_crc != crc32c(0, p->index, index_bytes))
		return corrupt(p, err, "the index's checksum is wrong");
	p->info = (struct packed_info){.identity = h.identity,
	                               .rows = h.rows,
	                               .bad_lines = h.bad_lines,
	                               .blocks = h.blocks,
	                               .tasks = h.tasks > 0 ? h.tasks : 1,
	                               .fields = h.fields,
	                               .dense_dim = h.dense_dim,
	                               .one_hot = true};
	p->first_rows = calloc(h.blocks + 1, sizeof *p->first_rows);
	p->checked = calloc(h.blocks + 1, sizeof *p->checked);
	if (!p->first_rows || !p->checked)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory opening %s", p->path);
	return check_index(p, &h, err);
}

weir_status packed_open(struct packed **out, const char *path, weir_error *err)
{
	struct packed *p = calloc(1, sizeof *p);
	weir_status status;
	if (!p || !(p->path = strdup(path))) {
		free(p);
		return weir_fail(err, WEIR_E_MEMORY, "out of memory opening %s", path);
	}
	p->fd = -1;
	if ((status = map_file(p, err)) != WEIR_OK || (status = read_header(p, err)) != WEIR_OK) {
		packed_close(p);
		return status;
	}
	*out = p;
	return WEIR_OK;
}

const struct packed_info *packed_get_info(const struct packed *p)
{
	return &p->info;
}

uint32_t packed_block_of(const struct packed *p, uint64_t row, uint64_t *first_row)
{
	assert(row < p->info.rows);
	uint32_t low = 0, high = p->info.blocks; /* first_rows[low] <= row < first_rows[high] */
	while (high - low > 1) {
		uint32_t middle = low + (high - low) / 2;
		if (p->first_rows[middle] <= row)
			low = middle;
		else
			high = middle;
	}
	*first_row = p->first_rows[low];
	return low;
}

/* Checks that offsets rise from 0 to keys. A gather would otherwise read beyond the keys. */
static bool offsets_good(const struct rows_view *v)
{
	size_t bags = (size_t)v->count * v->fields;
	if (!v->offsets)
		return true;
	bool good = v->offsets[0] == 0 && v->offsets[bags] == v->keys_count;
	for (size_t i = 0; i < bags; i++)
		good &= v->offsets[i] <= v->offsets[i + 1];
	return good;
}

/* The kernel maps many pages at once, up to 2 MiB of a file that it caches in huge pages, but none
 * beyond the mapping. */
static weir_status map_block(struct packed_block *b, const struct packed *p, const struct entry *e, const uint8_t **at,
                             weir_error *err)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE), before = e->offset % page;
	*b = (struct packed_block){.map_bytes = before + e->bytes};
	if (e->bytes == 0)
		return WEIR_OK;
	void *map = mmap(NULL, b->map_bytes, PROT_READ, MAP_SHARED, p->fd, (off_t)(e->offset - before));
	if (map == MAP_FAILED)
		return weir_fail(err, WEIR_E_MEMORY, "cannot map a block of %s: %s", p->path, strerror(errno));
	b->map = map;
	*at = (const uint8_t *)map + before;
	return WEIR_OK;
}

static weir_status check_block(const struct packed *p, uint32_t block, const uint8_t *bytes, const struct rows_view *rows,
                               weir_error *err)
{
	const struct entry *e = &p->index[block];
	if (atomic_load_explicit(&p->checked[block], memory_order_acquire))
		return WEIR_OK;
	if (crc32c(0, bytes, e->bytes) != e->crc)
		return corrupt(p, err, "a block's checksum is wrong");
	if (!offsets_good(rows))
		return corrupt(p, err, "a block's offsets are not in order");
	atomic_store_explicit(&p->checked[block], true, memory_order_release);
	return WEIR_OK;
}

weir_status packed_block_open(struct packed_block *out, struct packed *p, uint32_t block, weir_error *err)
{
	assert(block < p->info.blocks);
	const struct entry *e = &p->index[block];
	const uint8_t *bytes = NULL;
	const void *columns[COLUMNS];
	size_t sizes[COLUMNS], at = 0;
	weir_status status = map_block(out, p, e, &bytes, err);
	if (status != WEIR_OK)
		return status;
	column_sizes(&(struct row_shape){p->info.tasks, p->info.fields, p->info.dense_dim}, e, sizes);
	for (unsigned c = 0; c < COLUMNS; c++) {
		columns[c] = sizes[c] > 0 ? bytes + at : NULL;
		at += aligned(sizes[c]);
	}
	out->rows = (struct rows_view){.count = e->rows,
	                               .tasks = p->info.tasks,
	                               .fields = p->info.fields,
	                               .dense_dim = p->info.dense_dim,
	                               .labels = columns[0],
	                               .dense = columns[1],
	                               .keys = columns[2],
	                               .offsets = columns[3],
	                               .values = columns[4],
	                               .weights = columns[5],
	                               .groups = columns[6],
	                               .keys_count = e->keys};
	status = check_block(p, block, bytes, &out->rows, err);
	if (status != WEIR_OK)
		packed_block_close(out);
	return status;
}

void packed_block_close(struct packed_block *b)
{
	if (b->map)
		munmap(b->map, b->map_bytes);
	b->map = NULL;
}

void packed_close(struct packed *p)
{
	if (!p)
		return;
	if (p->base)
		munmap((void *)(uintptr_t)p->base, p->size);
	if (p->fd >= 0)
		close(p->fd);
	free(p->first_rows);
	free((void *)p->checked);
	free(p->path);
	free(p);
}
