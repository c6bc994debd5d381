#include "worker/data/format/text.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <lz4frame.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include "common/base/limits.h"
#include "worker/data/format/csv_scan.h"
#include "worker/data/format/parse.h"

#define MARK            "\xef\xbb\xbf" /* byte order mark of UTF-8 */
#define MARK_BYTES      3u
#define INPUT_BYTES     (256u << 10) /* of compressed bytes per read */
#define CHUNK_BYTES_MAX (TEXT_CHUNK_BYTES + WEIR_LINE_BYTES_MAX + 1)

struct text {
	char *path;
	int fd;
	enum text_kind kind;
	/* Plain: the offset of the next byte to read; lines of the range begin before `end`. */
	uint64_t at, end;
	bool done;   /* nothing is left to read */
	bool skip;   /* plain: the first line begins before the range */
	char *carry; /* start of a line, left over from the last chunk */
	size_t carry_bytes, carry_capacity;
	uint8_t *input; /* (INPUT_BYTES) compressed: [input_at, input_size) awaits decoding */
	size_t input_at, input_size;
	/* Compressed: the reader is inside a frame (gzip: member); a frame was completed. */
	bool in_frame, any_frame;
	/* gzip: no member follows the last one; bytes other than 0 follow it instead. */
	bool ended, garbage;
	bool begun;  /* something was read */
	size_t mark; /* size of the byte order mark */
	z_stream gzip;
	LZ4F_dctx *lz4;
	ZSTD_DStream *zstd;
	bool csv; /* lines are rows of CSV */
	struct csv_marks marks;
};

void text_chunk_destroy(struct text_chunk *c)
{
	free(c->data);
	*c = (struct text_chunk){0};
}

uint32_t text_crc32(const char *data, size_t n)
{
	return (uint32_t)crc32_z(0, (const uint8_t *)data, n);
}

size_t text_mark_of(const void *data, size_t n)
{
	return n >= MARK_BYTES && memcmp(data, MARK, MARK_BYTES) == 0 ? MARK_BYTES : 0;
}

/* mark: gets the size of a plain text's byte order mark. */
static weir_status open_kind(const char *path, int *fd, enum text_kind *kind, size_t *mark, weir_error *err)
{
	uint8_t magic[4] = {0};
	*fd = open(path, O_RDONLY | O_CLOEXEC);
	if (*fd < 0)
		return weir_fail(err, errno == ENOENT ? WEIR_E_NOT_FOUND : WEIR_E_IO, "cannot open %s: %s", path, strerror(errno));
	ssize_t got = pread(*fd, magic, sizeof magic, 0);
	if (got < 0) {
		int e = errno;
		close(*fd);
		return weir_fail(err, WEIR_E_IO, "cannot read %s: %s", path, strerror(e));
	}
	*kind = TEXT_PLAIN;
	if (got >= 2 && magic[0] == 0x1f && magic[1] == 0x8b)
		*kind = TEXT_GZIP;
	else if (got == 4 && memcmp(magic, "\x04\x22\x4d\x18", 4) == 0)
		*kind = TEXT_LZ4;
	else if (got == 4 && memcmp(magic, "\x28\xb5\x2f\xfd", 4) == 0)
		*kind = TEXT_ZSTD;
	*mark = text_mark_of(magic, (size_t)got);
	return WEIR_OK;
}

/* Refuses common files that are not readable, by their first bytes. *kind changes for tables. */
static weir_status check_is_readable(const char *path, int fd, enum text_kind *kind, weir_error *err)
{
	static const struct {
		const char *bytes;
		size_t count;
		const char *what, *remedy;
	} others[] = {{"\xfd\x37zXZ", 5, "compressed by xz", "xz -d"},
	              {"BZh", 3, "compressed by bzip2", "bzip2 -d"},
	              {"PK\x03\x04", 4, "a zip archive", "unzip"},
	              {"\x02\x21\x4c\x18", 4, "in LZ4's legacy format", "lz4 -d"},
	              {"7z\xbc\xaf\x27\x1c", 6, "a 7z archive", "7z x"},
	              {"Obj\x01", 4, "an Avro file", "a converter to text"},
	              {"\x89HDF\r\n", 6, "an HDF5 file", "a converter to text"},
	              {"\x93NUMPY", 6, "a NumPy file", "a converter to text"},
	              {"\x88\xd8\x34\x01", 4, "a file of llm.c's tokens", "weir tokenize on its text"},
	              {"\xa1\xd9\x34\x01", 4, "a file of llm.c's tokens", "weir tokenize on its text"},
	              {"version https://git-lfs.", 24, "a pointer of Git LFS, not the file", "git lfs pull"},
	              {"\xff\xfe", 2, "of UTF-16", "iconv -f UTF-16 -t UTF-8"},
	              {"\xfe\xff", 2, "of UTF-16", "iconv -f UTF-16 -t UTF-8"}};
	char magic[24] = {0};
	const ssize_t got = pread(fd, magic, sizeof magic, 0);
	for (size_t i = 0; i < sizeof others / sizeof *others; i++)
		if (got >= (ssize_t)others[i].count && memcmp(magic, others[i].bytes, others[i].count) == 0)
			return weir_fail(err, WEIR_E_UNSUPPORTED, "%s is %s; expected UTF-8, plain, gzip, LZ4 or zstd: use %s first", path,
			                 others[i].what, others[i].remedy);
	if (got >= 4 && memcmp(magic, "PAR1", 4) == 0)
		*kind = TEXT_PARQUET;
	if (got >= 6 && memcmp(magic, "ARROW1", 6) == 0)
		*kind = TEXT_ARROW;
	return WEIR_OK;
}

weir_status text_kind_of(const char *path, enum text_kind *out, weir_error *err)
{
	int fd;
	size_t mark;
	weir_status status = open_kind(path, &fd, out, &mark, err);
	if (status != WEIR_OK)
		return status;
	status = check_is_readable(path, fd, out, err);
	close(fd);
	return status;
}

weir_status text_open(struct text **out, const char *path, uint64_t begin, uint64_t end, weir_error *err)
{
	struct text *t = calloc(1, sizeof *t);
	if (!t)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory opening %s", path);
	weir_status status = open_kind(path, &t->fd, &t->kind, &t->mark, err);
	if (status != WEIR_OK) {
		free(t);
		return status;
	}
	assert(t->kind == TEXT_PLAIN || begin == 0);
	t->path = strdup(path);
	t->end = t->kind == TEXT_PLAIN ? end : UINT64_MAX;
	/* The byte before shows whether a line begins at `begin`. */
	t->at = begin > 0 ? begin - 1 : t->mark;
	t->skip = begin > 0;
	bool ok = t->path != NULL;
	if (t->kind != TEXT_PLAIN)
		ok = ok && (t->input = malloc(INPUT_BYTES)) != NULL;
	if (ok && t->kind == TEXT_GZIP)
		ok = inflateInit2(&t->gzip, 15 + 16) == Z_OK;
	else if (ok && t->kind == TEXT_LZ4)
		ok = !LZ4F_isError(LZ4F_createDecompressionContext(&t->lz4, LZ4F_VERSION));
	else if (ok && t->kind == TEXT_ZSTD)
		ok = (t->zstd = ZSTD_createDStream()) != NULL;
	if (!ok) {
		text_close(t);
		return weir_fail(err, WEIR_E_MEMORY, "out of memory opening %s", path);
	}
	*out = t;
	return WEIR_OK;
}

void text_close(struct text *t)
{
	if (!t)
		return;
	if (t->kind == TEXT_GZIP)
		inflateEnd(&t->gzip);
	if (t->lz4)
		LZ4F_freeDecompressionContext(t->lz4);
	ZSTD_freeDStream(t->zstd);
	close(t->fd);
	free(t->input);
	free(t->carry);
	free(t->path);
	free(t);
}

/* Reads n bytes at *at, fewer only at the end of the file. */
static weir_status read_some(struct text *t, uint64_t *at, void *out, size_t n, size_t *got, weir_error *err)
{
	*got = 0;
	while (*got < n) {
		ssize_t r = pread(t->fd, (char *)out + *got, n - *got, (off_t)*at);
		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return weir_fail(err, WEIR_E_IO, "cannot read %s: %s", t->path, strerror(errno));
		if (r == 0)
			break;
		*got += (size_t)r;
		*at += (uint64_t)r;
	}
	return WEIR_OK;
}

/* Runs after a gzip member. *found: another member follows. Otherwise sets `ended` and
 * `garbage`. */
static weir_status find_member(struct text *t, bool *found, weir_error *err)
{
	const size_t left = t->input_size - t->input_at;
	size_t more = 0;
	weir_status status = WEIR_OK;
	if (left < 2) {
		memmove(t->input, t->input + t->input_at, left);
		status = read_some(t, &t->at, t->input + left, INPUT_BYTES - left, &more, err);
		t->input_at = 0;
		t->input_size = left + more;
	}
	const uint8_t *next = t->input + t->input_at;
	*found = t->input_size - t->input_at >= 2 && next[0] == 0x1f && next[1] == 0x8b;
	t->ended = !*found;
	while (status == WEIR_OK && !*found && !t->garbage && t->input_size > 0) {
		for (; t->input_at < t->input_size; t->input_at++)
			t->garbage |= t->input[t->input_at] != 0;
		t->input_at = 0;
		status = read_some(t, &t->at, t->input, INPUT_BYTES, &t->input_size, err);
	}
	return status;
}

/* The decoders. *in and *out_bytes are the available bytes and room, and return the bytes consumed
 * and produced. Each tracks its frames; frames and gzip members may follow one another. */
static weir_status decode_lz4(struct text *t, const uint8_t *input, size_t *in, char *out, size_t *out_bytes, weir_error *err)
{
	const size_t hint = LZ4F_decompress(t->lz4, out, out_bytes, input, in, NULL);
	if (LZ4F_isError(hint))
		return weir_fail(err, WEIR_E_CORRUPT, "%s is not a valid LZ4 file: %s", t->path, LZ4F_getErrorName(hint));
	t->in_frame = hint != 0;
	t->any_frame |= hint == 0;
	return WEIR_OK;
}

static weir_status decode_zstd(struct text *t, const uint8_t *input, size_t *in, char *out, size_t *out_bytes, weir_error *err)
{
	ZSTD_inBuffer from = {input, *in, 0};
	ZSTD_outBuffer to = {out, *out_bytes, 0};
	const size_t hint = ZSTD_decompressStream(t->zstd, &to, &from);
	if (ZSTD_isError(hint))
		return weir_fail(err, WEIR_E_CORRUPT, "%s is not a valid zstd file: %s", t->path, ZSTD_getErrorName(hint));
	*in = from.pos;
	*out_bytes = to.pos;
	t->in_frame = hint != 0;
	t->any_frame |= hint == 0;
	return WEIR_OK;
}

static weir_status decode_gzip(struct text *t, const uint8_t *input, size_t *in, char *out, size_t *out_bytes, weir_error *err)
{
	t->gzip.next_in = (uint8_t *)(uintptr_t)input;
	t->gzip.avail_in = (uInt)*in;
	t->gzip.next_out = (uint8_t *)out;
	t->gzip.avail_out = (uInt)*out_bytes;
	const int code = inflate(&t->gzip, Z_NO_FLUSH);
	if (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR)
		return weir_fail(err, WEIR_E_CORRUPT, "%s is not a valid gzip file: %s", t->path,
		                 t->gzip.msg ? t->gzip.msg : "damaged data");
	*in -= t->gzip.avail_in;
	*out_bytes -= t->gzip.avail_out;
	t->in_frame = code != Z_STREAM_END;
	t->any_frame |= code == Z_STREAM_END;
	if (code == Z_STREAM_END)
		inflateReset(&t->gzip);
	return WEIR_OK;
}

static weir_status decode_step(struct text *t, size_t *in, char *out, size_t *out_bytes, weir_error *err)
{
	const uint8_t *input = t->input + t->input_at;
	if (t->kind == TEXT_LZ4)
		return decode_lz4(t, input, in, out, out_bytes, err);
	if (t->kind == TEXT_ZSTD)
		return decode_zstd(t, input, in, out, out_bytes, err);
	return decode_gzip(t, input, in, out, out_bytes, err);
}

static weir_status decode_some(struct text *t, char *out, size_t n, size_t *got, weir_error *err)
{
	*got = 0;
	while (*got < n && !t->ended) {
		if (t->kind == TEXT_GZIP && t->any_frame && !t->in_frame) {
			bool found;
			const weir_status status = find_member(t, &found, err);
			if (status != WEIR_OK || !found)
				return status;
		}
		if (t->input_at == t->input_size) {
			weir_status status = read_some(t, &t->at, t->input, INPUT_BYTES, &t->input_size, err);
			t->input_at = 0;
			if (status != WEIR_OK)
				return status;
			if (t->input_size == 0 && (t->in_frame || !t->any_frame))
				return weir_fail(err, WEIR_E_CORRUPT, "%s ends in the middle of its compressed data", t->path);
			if (t->input_size == 0)
				return WEIR_OK;
		}
		size_t in = t->input_size - t->input_at, made = n - *got;
		weir_status status = decode_step(t, &in, out + *got, &made, err);
		if (status != WEIR_OK)
			return status;
		t->input_at += in;
		*got += made;
	}
	return WEIR_OK;
}

weir_status text_next_bytes(struct text *t, void *out, size_t n, size_t *got, weir_error *err)
{
	const bool first = !t->begun;
	t->begun = true;
	if (t->kind == TEXT_PLAIN)
		return read_some(t, &t->at, out, n, got, err);
	weir_status status = decode_some(t, out, n, got, err);
	if (status != WEIR_OK || !first || text_mark_of(out, *got) == 0)
		return status;
	size_t more;
	t->mark = MARK_BYTES;
	memmove(out, (char *)out + MARK_BYTES, *got - MARK_BYTES);
	status = decode_some(t, (char *)out + *got - MARK_BYTES, MARK_BYTES, &more, err);
	*got += more - MARK_BYTES;
	return status;
}

bool text_has_garbage(const struct text *t)
{
	return t->garbage;
}

size_t text_mark_bytes(const struct text *t)
{
	return t->mark;
}

static bool keep_carry(struct text *t, const char *data, size_t n)
{
	if (n > t->carry_capacity) {
		char *larger = realloc(t->carry, n);
		if (!larger)
			return false;
		t->carry = larger;
		t->carry_capacity = n;
	}
	if (n > 0)
		memcpy(t->carry, data, n);
	t->carry_bytes = n;
	return true;
}

void text_set_csv(struct text *t, struct csv_marks marks)
{
	t->csv = true;
	t->marks = marks;
}

/* Returns the bytes of the whole lines at the beginning of the data. */
static size_t whole_lines(const struct text *t, const char *data, size_t n)
{
	if (t->csv && t->marks.quote && memchr(data, t->marks.quote, n)) {
		struct csv_scan scan = {.marks = t->marks};
		return csv_scan_best()->rows(&scan, data, n);
	}
	const char *newline = memrchr(data, '\n', n);
	return !newline ? 0 : (size_t)(newline + 1 - data);
}

/* Returns the bytes of the chunk's whole lines in the range. Sets `done` if the range ends here. */
static size_t cut_lines(struct text *t, struct text_chunk *c, bool at_end)
{
	uint64_t first = t->at - c->size; /* plain: offset of c->data[0] */
	if (t->kind == TEXT_PLAIN && t->end != UINT64_MAX && t->at >= t->end) {
		size_t from = t->end - 1 > first ? (size_t)(t->end - 1 - first) : 0;
		const char *newline = from < c->size ? memchr(c->data + from, '\n', c->size - from) : NULL;
		if (newline) {
			t->done = true;
			return (size_t)(newline + 1 - c->data);
		}
	}
	if (at_end) {
		t->done = true;
		return c->size;
	}
	return whole_lines(t, c->data, c->size);
}

static weir_status drop_first_line(struct text *t, struct text_chunk *c, weir_error *err)
{
	const char *newline = memchr(c->data, '\n', c->size);
	size_t drop = !newline ? c->size : (size_t)(newline + 1 - c->data);
	t->skip = false;
	memmove(c->data, c->data + drop, c->size - drop + PARSE_SLACK);
	c->size -= drop;
	return c->size == 0 && !t->done ? text_next(t, c, err) : WEIR_OK;
}

/* The number of the first line that no chunk holds, from 1; 0: it cannot be found. */
static uint64_t find_long_line(const char *path)
{
	struct text *t;
	uint64_t line = 1;
	size_t bytes = 0, got = INPUT_BYTES;
	char *data = malloc(INPUT_BYTES);
	if (!data || text_open(&t, path, 0, UINT64_MAX, NULL) != WEIR_OK) {
		free(data);
		return 0;
	}
	while (bytes < CHUNK_BYTES_MAX && got == INPUT_BYTES && text_next_bytes(t, data, INPUT_BYTES, &got, NULL) == WEIR_OK) {
		const char *at = data, *end = data + got, *newline;
		while ((newline = memchr(at, '\n', (size_t)(end - at))) && bytes + (size_t)(newline - at) < CHUNK_BYTES_MAX) {
			line++;
			bytes = 0;
			at = newline + 1;
		}
		bytes += (size_t)(end - at);
	}
	text_close(t);
	free(data);
	return bytes < CHUNK_BYTES_MAX ? 0 : line;
}

static weir_status fail_long_line(const struct text *t, weir_error *err)
{
	const uint64_t line = t->csv ? 0 : find_long_line(t->path); /* a row of CSV may have many lines */
	if (line == 0)
		return weir_fail(err, WEIR_E_LIMIT, "%s has a %s longer than %u bytes: %s", t->path, t->csv ? "row" : "line",
		                 WEIR_LINE_BYTES_MAX, t->csv ? "is a quote not closed?" : "is it text?");
	return weir_fail(err, WEIR_E_LIMIT, "%s:%" PRIu64 ": the line is longer than %u bytes: is it text?", t->path, line,
	                 WEIR_LINE_BYTES_MAX);
}

weir_status text_next(struct text *t, struct text_chunk *c, weir_error *err)
{
	c->size = 0;
	if (t->done)
		return WEIR_OK;
	if (c->capacity < CHUNK_BYTES_MAX + PARSE_SLACK) {
		free(c->data);
		c->capacity = CHUNK_BYTES_MAX + PARSE_SLACK;
		c->data = malloc(c->capacity);
		if (!c->data) {
			c->capacity = 0;
			return weir_fail(err, WEIR_E_MEMORY, "out of memory reading %s", t->path);
		}
	}
	if (t->carry_bytes > 0)
		memcpy(c->data, t->carry, t->carry_bytes);
	c->size = t->carry_bytes;
	size_t lines = 0;
	do { /* until there is a whole line; it may be longer than one read */
		const size_t left = CHUNK_BYTES_MAX - c->size, room = left < TEXT_CHUNK_BYTES ? left : TEXT_CHUNK_BYTES;
		size_t got;
		const weir_status status = text_next_bytes(t, c->data + c->size, room, &got, err);
		if (status != WEIR_OK)
			return status;
		c->size += got;
		lines = cut_lines(t, c, got < room);
	} while (lines == 0 && !t->done && c->size < CHUNK_BYTES_MAX);
	if (lines == 0 && !t->done)
		return fail_long_line(t, err);
	if (!keep_carry(t, c->data + lines, t->done ? 0 : c->size - lines))
		return weir_fail(err, WEIR_E_MEMORY, "out of memory reading %s", t->path);
	c->size = lines;
	memset(c->data + lines, 0, PARSE_SLACK);
	return t->skip ? drop_first_line(t, c, err) : WEIR_OK;
}
