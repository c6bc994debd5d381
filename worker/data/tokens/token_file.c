/* Reads token files. See token_file.h. */
#include "worker/data/tokens/token_file.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/limits.h"
#include "common/base/little_endian.h"
#include "worker/data/tokens/token_file_format.h"

struct token_file {
	char *path;
	const uint8_t *base; /* (size) */
	size_t size;
	struct token_file_header header;
	struct token_file_info info;
	atomic_bool *checked; /* (header.checksums) the block's checksum was right */
};

bool token_file_begins(const char *path)
{
	char magic[sizeof TOKEN_FILE_MAGIC - 1] = {0};
	const int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	const ssize_t got = pread(fd, magic, sizeof magic, 0);
	close(fd);
	return got == (ssize_t)sizeof magic && memcmp(magic, TOKEN_FILE_MAGIC, sizeof magic) == 0;
}

static weir_status map_file(struct token_file *f, weir_error *err)
{
	struct stat st;
	const int fd = open(f->path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return weir_fail(err, errno == ENOENT ? WEIR_E_NOT_FOUND : WEIR_E_IO, "cannot open %s: %s", f->path, strerror(errno));
	const bool known = fstat(fd, &st) == 0, whole = known && st.st_size >= (off_t)sizeof f->header;
	void *base = whole ? mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;
	const int e = errno;
	close(fd);
	if (known && !whole)
		return weir_fail(err, WEIR_E_CORRUPT, "%s is too short to be a token file", f->path);
	if (base == MAP_FAILED)
		return weir_fail(err, WEIR_E_IO, "cannot map %s: %s", f->path, strerror(e));
	f->base = base;
	f->size = (size_t)st.st_size;
	return WEIR_OK;
}

static weir_status corrupt(const struct token_file *f, weir_error *err, const char *what)
{
	return weir_fail(err, WEIR_E_CORRUPT, "%s is damaged: %s; make it again", f->path, what);
}

/* Checks the blocks with bytes [at, at + bytes) of the body. */
static weir_status check_blocks(struct token_file *f, uint64_t at, uint64_t bytes, weir_error *err)
{
	const uint64_t first = (at - sizeof f->header) / TOKEN_FILE_BLOCK;
	const uint64_t last = bytes == 0 ? first : (at + bytes - 1 - sizeof f->header) / TOKEN_FILE_BLOCK;
	for (uint64_t k = first; bytes > 0 && k <= last; k++) {
		if (atomic_load_explicit(&f->checked[k], memory_order_acquire))
			continue;
		const uint64_t begin = sizeof f->header + k * TOKEN_FILE_BLOCK;
		const uint64_t end = k + 1 == f->header.checksums ? f->header.checksums_at : begin + TOKEN_FILE_BLOCK;
		if (crc32c(0, f->base + begin, end - begin) != get32(f->base + f->header.checksums_at + k * sizeof(uint32_t)))
			return corrupt(f, err, "the checksum of a block is wrong");
		atomic_store_explicit(&f->checked[k], true, memory_order_release);
	}
	return WEIR_OK;
}

/* Checks that the sections follow one another as they must. No other offsets are possible. */
static bool sections_fit(const struct token_file *f)
{
	const struct token_file_header *h = &f->header;
	const uint64_t size = f->size;
	if ((h->width != 2 && h->width != 4) || h->tokens > size / h->width || h->documents > size / sizeof(uint64_t))
		return false;
	const uint64_t ends_at = token_file_aligned(sizeof *h + h->tokens * h->width);
	const uint64_t counted_at = token_file_aligned(ends_at + h->documents * sizeof(uint64_t));
	const uint64_t bits = h->flags & TOKEN_FILE_MASKED ? (h->tokens + 7) / 8 : 0;
	const uint64_t checksums_at = token_file_aligned(counted_at + bits), body = checksums_at - sizeof *h;
	const uint64_t checksums = (body + TOKEN_FILE_BLOCK - 1) / TOKEN_FILE_BLOCK;
	return h->ends_at == ends_at && h->counted_at == counted_at && h->checksums_at == checksums_at && h->checksums == checksums &&
	       size == checksums_at + checksums * sizeof(uint32_t);
}

static weir_status check_ends(struct token_file *f, weir_error *err)
{
	const struct token_file_header *h = &f->header;
	weir_status status = check_blocks(f, h->ends_at, h->documents * sizeof(uint64_t), err);
	uint64_t before = 0;
	for (uint64_t d = 0; d < h->documents && status == WEIR_OK; d++) {
		const uint64_t end = token_file_end(f, d);
		if (end <= before || end > h->tokens)
			status = corrupt(f, err, "its documents are not in order");
		before = end;
	}
	return status == WEIR_OK && before != h->tokens ? corrupt(f, err, "its documents do not add up") : status;
}

static weir_status read_header(struct token_file *f, weir_error *err)
{
	struct token_file_header *h = &f->header;
	memcpy(h, f->base, sizeof *h);
	if (memcmp(h->magic, TOKEN_FILE_MAGIC, sizeof h->magic) != 0)
		return weir_fail(err, WEIR_E_CORRUPT, "%s is not a token file", f->path);
	if (h->version != TOKEN_FILE_VERSION)
		return weir_fail(err, WEIR_E_VERSION, "%s is of version %u, this program reads %u", f->path, h->version,
		                 TOKEN_FILE_VERSION);
	if (h->crc != token_file_header_crc(h))
		return corrupt(f, err, "the header's checksum is wrong");
	if (h->vocabulary == 0 || h->vocabulary > WEIR_VOCABULARY_MAX || (h->eos != TOKEN_FILE_NO_EOS && h->eos >= h->vocabulary))
		return corrupt(f, err, "its vocabulary is invalid");
	if (!sections_fit(f))
		return corrupt(f, err, "it is cut short, or too long");
	if (h->checksums_crc != crc32c(0, f->base + h->checksums_at, h->checksums * sizeof(uint32_t)))
		return corrupt(f, err, "the checksum of the checksums is wrong");
	f->info = token_file_info_of(h);
	f->checked = calloc(h->checksums + 1u, sizeof *f->checked);
	if (!f->checked)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory opening %s", f->path);
	return check_ends(f, err);
}

weir_status token_file_open(struct token_file **out, const char *path, weir_error *err)
{
	struct token_file *f = calloc(1, sizeof *f);
	weir_status status;
	if (!f || !(f->path = strdup(path))) {
		free(f);
		return weir_fail(err, WEIR_E_MEMORY, "out of memory opening %s", path);
	}
	if ((status = map_file(f, err)) != WEIR_OK || (status = read_header(f, err)) != WEIR_OK) {
		token_file_close(f);
		return status;
	}
	*out = f;
	return WEIR_OK;
}

const struct token_file_info *token_file_get_info(const struct token_file *f)
{
	return &f->info;
}

const char *token_file_path(const struct token_file *f)
{
	return f->path;
}

uint64_t token_file_end(const struct token_file *f, uint64_t document)
{
	assert(document < f->header.documents);
	return get64(f->base + f->header.ends_at + document * sizeof(uint64_t));
}

weir_status token_file_read(struct token_file *f, uint64_t first, uint64_t count, uint32_t *ids, uint8_t *counts, weir_error *err)
{
	const struct token_file_header *h = &f->header;
	assert(first <= h->tokens && count <= h->tokens - first);
	const uint64_t at = sizeof *h + first * h->width;
	weir_status status = check_blocks(f, at, count * h->width, err);
	if (status == WEIR_OK && counts && f->info.masked && count > 0)
		status = check_blocks(f, h->counted_at + first / 8, (first + count - 1) / 8 - first / 8 + 1, err);
	if (status != WEIR_OK)
		return status;
	uint32_t greatest = 0;
	for (uint64_t i = 0; i < count; i++) {
		ids[i] = h->width == 2 ? get16(f->base + at + i * 2) : get32(f->base + at + i * 4);
		greatest = ids[i] > greatest ? ids[i] : greatest;
	}
	for (uint64_t i = first; counts && i < first + count; i++)
		counts[i - first] = !f->info.masked || (f->base[h->counted_at + i / 8] >> (i % 8) & 1) != 0;
	return greatest < h->vocabulary ? WEIR_OK : corrupt(f, err, "it has a token that its vocabulary has not");
}

void token_file_close(struct token_file *f)
{
	if (!f)
		return;
	if (f->base)
		munmap((void *)(uintptr_t)f->base, f->size);
	free((void *)f->checked);
	free(f->path);
	free(f);
}
