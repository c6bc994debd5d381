/* Writes token files. Tokens go to the file as they come; ends and bits wait until the end. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/limits.h"
#include "common/base/little_endian.h"
#include "worker/data/tokens/token_file_format.h"

/* A growing byte array. */
struct section {
	uint8_t *data;
	size_t size, capacity;
};

struct token_writer {
	char *path, *temporary;
	int fd;
	struct token_file_header header;
	uint64_t at;    /* end of the bytes put into blocks, in the file */
	uint8_t *block; /* (TOKEN_FILE_BLOCK) bytes not yet written */
	uint32_t block_size;
	struct section ends, counted, checksums;
};

static weir_status out_of_memory(const struct token_writer *w, weir_error *err)
{
	return weir_fail(err, WEIR_E_MEMORY, "out of memory writing %s", w->path);
}

static void *grown(struct section *s, size_t bytes)
{
	if (!s->data || s->size + bytes > s->capacity) {
		const size_t capacity = (s->size + bytes) * 2 + 4096;
		uint8_t *larger = realloc(s->data, capacity);
		if (!larger)
			return NULL;
		s->data = larger;
		s->capacity = capacity;
	}
	s->size += bytes;
	return s->data + s->size - bytes;
}

static void writer_destroy(struct token_writer *w)
{
	if (w->fd >= 0)
		close(w->fd);
	free(w->path);
	free(w->temporary);
	free(w->block);
	free(w->ends.data);
	free(w->counted.data);
	free(w->checksums.data);
	free(w);
}

weir_status token_writer_open(struct token_writer **out, const char *path, const struct token_file_info *info, weir_error *err)
{
	assert(info->vocabulary > 0 && info->vocabulary <= WEIR_VOCABULARY_MAX);
	struct token_writer *w = calloc(1, sizeof *w);
	if (!w)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory writing %s", path);
	w->fd = -1;
	w->at = sizeof w->header;
	w->header = (struct token_file_header){.magic = TOKEN_FILE_MAGIC,
	                                       .version = TOKEN_FILE_VERSION,
	                                       .vocabulary = info->vocabulary,
	                                       .width = info->vocabulary <= UINT16_MAX + 1u ? 2 : 4,
	                                       .eos = info->eos,
	                                       .identity = info->identity};
	memcpy(w->header.fingerprint, info->fingerprint, sizeof w->header.fingerprint);
	w->path = strdup(path);
	w->block = malloc(TOKEN_FILE_BLOCK);
	if (!w->path || !w->block || asprintf(&w->temporary, "%s.tmp", path) < 0) {
		w->temporary = NULL;
		writer_destroy(w);
		return weir_fail(err, WEIR_E_MEMORY, "out of memory writing %s", path);
	}
	/* A cache is private to its owner; the umask decides about other files. */
	const mode_t mode = info->identity ? 0600 : 0666;
	w->fd = open(w->temporary, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
	if (w->fd < 0) {
		const int e = errno;
		writer_destroy(w);
		return weir_fail(err, e == ENOSPC ? WEIR_E_NO_SPACE : WEIR_E_IO, "cannot create %s.tmp: %s", path, strerror(e));
	}
	*out = w;
	return WEIR_OK;
}

static weir_status write_at(struct token_writer *w, uint64_t at, const void *data, size_t bytes, weir_error *err)
{
	for (size_t done = 0; done < bytes;) {
		const ssize_t n = pwrite(w->fd, (const uint8_t *)data + done, bytes - done, (off_t)(at + done));
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return weir_fail(err, n == 0 || errno == ENOSPC ? WEIR_E_NO_SPACE : WEIR_E_IO, "cannot write %s: %s", w->temporary,
			                 strerror(n < 0 ? errno : ENOSPC));
		done += (size_t)n;
	}
	return WEIR_OK;
}

/* Writes the block and notes its checksum. */
static weir_status end_block(struct token_writer *w, weir_error *err)
{
	if (w->block_size == 0)
		return WEIR_OK;
	uint8_t *checksum = grown(&w->checksums, sizeof(uint32_t));
	if (!checksum)
		return out_of_memory(w, err);
	put32(checksum, crc32c(0, w->block, w->block_size));
	const weir_status status = write_at(w, w->at - w->block_size, w->block, w->block_size, err);
	w->block_size = 0;
	return status;
}

static weir_status put(struct token_writer *w, const void *data, size_t bytes, weir_error *err)
{
	for (size_t done = 0; done < bytes;) {
		const size_t room = TOKEN_FILE_BLOCK - w->block_size, n = bytes - done < room ? bytes - done : room;
		memcpy(w->block + w->block_size, (const uint8_t *)data + done, n);
		w->block_size += (uint32_t)n;
		w->at += n;
		done += n;
		if (w->block_size == TOKEN_FILE_BLOCK) {
			const weir_status status = end_block(w, err);
			if (status != WEIR_OK)
				return status;
		}
	}
	return WEIR_OK;
}

static weir_status put_ids(struct token_writer *w, const uint32_t *ids, uint64_t count, weir_error *err)
{
	weir_status status = WEIR_OK;
	uint8_t bytes[4096];
	const uint32_t width = w->header.width;
	for (uint64_t i = 0; i < count && status == WEIR_OK;) {
		size_t n = 0;
		for (; i < count && n < sizeof bytes; i++, n += width) {
			assert(ids[i] < w->header.vocabulary);
			if (width == 2)
				put16(bytes + n, (uint16_t)ids[i]);
			else
				put32(bytes + n, ids[i]);
		}
		status = put(w, bytes, n, err);
	}
	return status;
}

/* Keeps bits for the next `count` tokens. Without `counts`, all are set. */
static weir_status keep_bits(struct token_writer *w, const uint8_t *counts, uint64_t first, uint64_t count, weir_error *err)
{
	const uint64_t bytes = (first + count + 7) / 8 - w->counted.size;
	uint8_t *fresh = grown(&w->counted, bytes);
	if (!fresh)
		return out_of_memory(w, err);
	memset(fresh, 0, bytes);
	for (uint64_t i = 0; i < count; i++)
		w->counted.data[(first + i) / 8] |= (uint8_t)((!counts || counts[i] != 0) << ((first + i) % 8));
	return WEIR_OK;
}

/* The first document with a token that does not count gives the file its bits. All earlier tokens
 * count. */
static weir_status keep_counts(struct token_writer *w, const uint8_t *counts, uint64_t count, weir_error *err)
{
	uint64_t counted = !counts ? count : 0;
	for (uint64_t i = 0; counts && i < count; i++)
		counted += counts[i] != 0;
	w->header.counted += counted;
	weir_status status = WEIR_OK;
	if (counted < count && (w->header.flags & TOKEN_FILE_MASKED) == 0) {
		w->header.flags |= TOKEN_FILE_MASKED;
		status = keep_bits(w, NULL, 0, w->header.tokens, err);
	}
	if (status != WEIR_OK || (w->header.flags & TOKEN_FILE_MASKED) == 0)
		return status;
	return keep_bits(w, counts, w->header.tokens, count, err);
}

weir_status token_writer_add(struct token_writer *w, const uint32_t *ids, const uint8_t *counts, uint64_t count, weir_error *err)
{
	assert(count > 0);
	weir_status status = put_ids(w, ids, count, err);
	if (status == WEIR_OK)
		status = keep_counts(w, counts, count, err);
	if (status != WEIR_OK)
		return status;
	w->header.tokens += count;
	w->header.documents++;
	uint8_t *end = grown(&w->ends, sizeof(uint64_t));
	if (!end)
		return out_of_memory(w, err);
	put64(end, w->header.tokens);
	return WEIR_OK;
}

/* Writes a section after the tokens, from the next multiple of 64 on. */
static weir_status put_section(struct token_writer *w, const struct section *s, uint64_t *at, weir_error *err)
{
	static const uint8_t zeros[TOKEN_FILE_ALIGNMENT];
	weir_status status = put(w, zeros, token_file_aligned(w->at) - w->at, err);
	*at = w->at;
	return status == WEIR_OK ? put(w, s->data, s->size, err) : status;
}

static weir_status complete(struct token_writer *w, weir_error *err)
{
	const struct section none = {0};
	struct token_file_header *h = &w->header;
	weir_status status = put_section(w, &w->ends, &h->ends_at, err);
	if (status == WEIR_OK)
		status = put_section(w, &w->counted, &h->counted_at, err);
	if (status == WEIR_OK)
		status = put_section(w, &none, &h->checksums_at, err);
	if (status == WEIR_OK)
		status = end_block(w, err);
	if (status == WEIR_OK)
		status = write_at(w, w->at, w->checksums.data, w->checksums.size, err);
	h->checksums = (uint32_t)(w->checksums.size / sizeof(uint32_t));
	h->checksums_crc = crc32c(0, w->checksums.data, w->checksums.size);
	h->crc = token_file_header_crc(h);
	return status == WEIR_OK ? write_at(w, 0, h, sizeof *h, err) : status;
}

weir_status token_writer_commit(struct token_writer *w, uint64_t bad_records, uint64_t replaced, struct token_file_info *info,
                                weir_error *err)
{
	w->header.bad_records = bad_records;
	w->header.replaced = replaced;
	weir_status status = complete(w, err);
	/* No sync: after a power cut the checksums reveal damage. */
	if (status == WEIR_OK && rename(w->temporary, w->path) != 0)
		status = weir_fail(err, WEIR_E_IO, "cannot complete %s: %s", w->path, strerror(errno));
	if (status != WEIR_OK)
		unlink(w->temporary);
	*info = token_file_info_of(&w->header);
	writer_destroy(w);
	return status;
}

void token_writer_abandon(struct token_writer *w)
{
	if (!w)
		return;
	unlink(w->temporary);
	writer_destroy(w);
}
