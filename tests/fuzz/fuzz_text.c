/* Text files, plain and compressed. Lines come whole and once, whatever the bytes are. A plain file
 * yields all its bytes except the byte order mark.
 *
 * Input: u8 position at which a plain file is cut into two ranges, the file. */
#include "tests/fuzz/fuzz.h"

#include <assert.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "worker/data/format/text.h"

/* Appends a range to `all`, which has room for `left` bytes: compressed files may be longer. */
static size_t read_range(const char *path, uint64_t begin, uint64_t end, char *all, size_t left)
{
	struct text *t;
	struct text_chunk c = {0};
	weir_error err = {0};
	size_t at = 0;
	if (text_open(&t, path, begin, end, &err) != WEIR_OK)
		return 0;
	while (text_next(t, &c, &err) == WEIR_OK && c.size > 0) {
		const size_t n = c.size < left - at ? c.size : left - at;
		memcpy(all + at, c.data, n);
		at += n;
	}
	text_has_garbage(t);
	text_close(t);
	text_chunk_destroy(&c);
	return at;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 1)
		return 0;
	char path[] = "/tmp/weir-fuzz-XXXXXX";
	const int fd = mkstemp(path);
	const size_t n = size - 1, cut = n == 0 ? 0 : data[0] % n;
	char *all = malloc(size);
	enum text_kind kind;
	assert(fd >= 0 && all && write(fd, data + 1, n) == (ssize_t)n);
	close(fd);
	if (text_kind_of(path, &kind, NULL) == WEIR_OK) {
		size_t got = read_range(path, 0, kind == TEXT_PLAIN && cut > 0 ? cut : UINT64_MAX, all, size);
		if (kind == TEXT_PLAIN && cut > 0)
			got += read_range(path, cut, UINT64_MAX, all + got, size - got);
		const size_t mark = text_mark_of(data + 1, n);
		assert(kind != TEXT_PLAIN || (got == n - mark && memcmp(all, data + 1 + mark, got) == 0));
	}
	unlink(path);
	free(all);
	return 0;
}

uint8_t *fuzz_seed(uint32_t i, size_t *size)
{
	/* gzip -n of "a\n", twice, and zeros; the same text as one LZ4 frame. */
	static const uint8_t gzip[] = {0,    0x1f, 0x8b, 8, 0, 0, 0,    0,    0,    0, 3, 0x4b, 0xe4, 2, 0, 7,
	                               0xa1, 0xea, 0xdd, 2, 0, 0, 0,    0x1f, 0x8b, 8, 0, 0,    0,    0, 0, 0,
	                               3,    0x4b, 0xe4, 2, 0, 7, 0xa1, 0xea, 0xdd, 2, 0, 0,    0,    0, 0};
	static const uint8_t lz4[] = {0, 4, 0x22, 0x4d, 0x18, 0x60, 0x40, 0x82, 2, 0, 0, 0x80, 'a', '\n', 0, 0, 0, 0};
	static const uint8_t plain[] = "\x05\xef\xbb\xbf"
	                               "one\ntwo\r\n\nthree";
	static const struct {
		const uint8_t *bytes;
		size_t n;
	} seeds[] = {{gzip, sizeof gzip}, {lz4, sizeof lz4}, {plain, sizeof plain - 1}};
	if (i >= sizeof seeds / sizeof *seeds)
		return NULL;
	uint8_t *out = malloc(seeds[i].n);
	assert(out);
	memcpy(out, seeds[i].bytes, seeds[i].n);
	*size = seeds[i].n;
	return out;
}
