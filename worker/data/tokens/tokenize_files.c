/* Tokenizes files with several threads. Locks: `reading` guards the reader and the tickets,
 * `delivering` all other shared state. No thread holds both at once. */
#include "worker/data/tokens/tokenize_files.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "worker/data/format/chunks.h"
#include "worker/data/format/json_array.h"
#include "worker/tokenizer/utf8.h"

struct tokenizing {
	const struct tokenize_options *options;

	pthread_mutex_t reading;
	struct chunk_reader *reader;
	uint64_t tickets;
	bool read_done;

	pthread_mutex_t delivering;
	pthread_cond_t turn_changed;
	uint64_t turn;
	struct token_writer *writer;
	uint64_t documents, bad_lines, replaced;
	weir_status status;
	weir_error error;                          /* the first failure in the order of the text */
	char first_bad[WEIR_ERROR_TEXT_BYTES / 2]; /* file:line: reason */
};

/* A chunk that one thread encodes. */
struct piece {
	struct chunk chunk;
	uint64_t ticket, replaced, bad_count;
	struct buffer repaired;
	struct record_encoder *encoder;
	struct documents documents;
	struct bad_record {
		uint64_t line;
		char reason[160];
	} * bad; /* (bad_line_reports + 1) the first ones */
	weir_status status;
	weir_error error;
};

/* Returns whether a path ends so, or so before .gz or .lz4. */
static bool is_named(const char *path, const char *end)
{
	static const char *const packed[] = {"", ".gz", ".lz4"};
	const size_t n = strlen(path), m = strlen(end);
	for (size_t i = 0; i < sizeof packed / sizeof *packed; i++) {
		const size_t k = strlen(packed[i]);
		if (n >= m + k && strcmp(path + n - k, packed[i]) == 0 && memcmp(path + n - k - m, end, m) == 0)
			return true;
	}
	return false;
}

static bool is_jsonl(const struct tokenize_options *o, const char *path)
{
	if (o->format != TOKENIZE_BY_NAME)
		return o->format == TOKENIZE_JSONL;
	return is_named(path, ".jsonl") || is_named(path, ".json") || is_named(path, ".ndjson");
}

static struct chunk_plan plan_of(const char *path, void *context)
{
	const bool records = is_jsonl(context, path);
	return (struct chunk_plan){.bytes = records ? TOKENIZE_LINES_BYTES : TOKENIZE_DOCUMENT_BYTES, .records = records};
}

static const char *path_of(const struct tokenizing *z, const struct piece *p)
{
	return z->options->sources->items[p->chunk.file].path;
}

/* --- Reading */

/* Takes the next chunk and its ticket. Returns false when nothing is left. */
static bool take_chunk(struct tokenizing *z, struct piece *p)
{
	pthread_mutex_lock(&z->reading);
	p->chunk.size = 0;
	p->status = z->read_done ? WEIR_OK : chunk_reader_next(z->reader, &p->chunk, &p->error);
	z->read_done |= p->status != WEIR_OK || p->chunk.size == 0;
	const bool taken = p->chunk.size > 0 || p->status != WEIR_OK;
	if (taken)
		p->ticket = z->tickets++;
	pthread_mutex_unlock(&z->reading);
	return taken;
}

/* --- Encoding */

/* Returns the text itself if it is valid or bytes are tokens. Otherwise returns it with U+FFFD or,
 * without `replace`, an error with its byte. */
static weir_status valid_text(const struct tokenizing *z, struct piece *p, const char **text, size_t *bytes, uint64_t at)
{
	const struct tokenize_options *o = z->options;
	const size_t valid = tokenizer_get_info(o->record.tokenizer)->bytes ? *bytes : utf8_valid(*text, *bytes);
	if (valid == *bytes)
		return WEIR_OK;
	if (!o->replace)
		return weir_fail(&p->error, WEIR_E_INVALID, "invalid UTF-8 at byte %llu of the file", (unsigned long long)at + valid);
	p->repaired.size = 0;
	if (!utf8_repair(*text, *bytes, &p->repaired, TOKENIZER_TEXT_BYTES_MAX, &p->replaced))
		return weir_fail(&p->error, WEIR_E_LIMIT, "it is longer than %u bytes once U+FFFD is put for what is invalid",
		                 TOKENIZER_TEXT_BYTES_MAX);
	*text = p->repaired.data;
	*bytes = p->repaired.size;
	return WEIR_OK;
}

static void encode_text(const struct tokenizing *z, struct piece *p)
{
	const char *text = p->chunk.data;
	size_t bytes = p->chunk.size;
	if (z->options->format == TOKENIZE_BY_NAME && p->chunk.line == 1 && json_array_begins(text, bytes, true)) {
		p->status = weir_fail(&p->error, WEIR_E_INVALID,
		                      "%s begins as a JSON array of records: name it .json, or give --format jsonl to have each record a "
		                      "document; --format text takes it as it stands",
		                      path_of(z, p));
		return;
	}
	const weir_status valid = p->status = valid_text(z, p, &text, &bytes, p->chunk.at);
	if (p->status == WEIR_OK)
		p->status = record_add_text(p->encoder, text, bytes, &p->documents, &p->error);
	if (p->status == WEIR_OK)
		return;
	const weir_error inner = p->error;
	weir_fail(&p->error, p->status, "%s: %s%s", path_of(z, p), inner.text,
	          valid == WEIR_E_INVALID ? "; U+FFFD is put in its place where --invalid, or data.invalid_utf8, is replace" : "");
}

static bool is_blank(const char *text, size_t bytes)
{
	size_t n = 0;
	while (n < bytes && (text[n] == ' ' || text[n] == '\t' || text[n] == '\r'))
		n++;
	return n == bytes;
}

static void encode_lines(const struct tokenizing *z, struct piece *p)
{
	const char *end = p->chunk.data + p->chunk.size;
	uint64_t line = p->chunk.line;
	for (const char *at = p->chunk.data; at < end && p->status == WEIR_OK; line++) {
		const char *newline = memchr(at, '\n', (size_t)(end - at)), *text = at;
		size_t bytes = (size_t)((!newline ? end : newline) - at);
		at += bytes + 1;
		if (is_blank(text, bytes))
			continue;
		weir_status status = valid_text(z, p, &text, &bytes, p->chunk.at + (uint64_t)(text - p->chunk.data));
		if (status == WEIR_OK)
			status = record_add_line(p->encoder, text, bytes, &p->documents, &p->error);
		if (status == WEIR_OK)
			continue;
		if (status == WEIR_E_MEMORY) {
			p->status = status;
			return;
		}
		if (p->bad_count <= z->options->bad_line_reports) {
			p->bad[p->bad_count].line = line;
			snprintf(p->bad[p->bad_count].reason, sizeof p->bad->reason, "%.159s", p->error.text);
		}
		p->bad_count++;
	}
}

/* --- Delivering */

/* Logs the first bad lines and checks the limit. */
static void account_bad_lines(struct tokenizing *z, const struct piece *p)
{
	const struct tokenize_options *o = z->options;
	for (uint64_t i = 0; i < p->bad_count && z->bad_lines + i <= o->bad_line_reports; i++) {
		const unsigned long long line = p->bad[i].line;
		if (z->bad_lines + i == 0)
			snprintf(z->first_bad, sizeof z->first_bad, "%.180s:%llu: %s", path_of(z, p), line, p->bad[i].reason);
		if (z->bad_lines + i < o->bad_line_reports)
			logger_write(o->logger, LOG_WARN, NULL, "bad line", "at=%s:%llu reason=\"%s\"", path_of(z, p), line,
			             p->bad[i].reason);
	}
	z->bad_lines += p->bad_count;
	if (z->bad_lines > o->bad_lines_max)
		z->status = weir_fail(&z->error, WEIR_E_LIMIT, "more than %llu bad line%s, the first at %s",
		                      (unsigned long long)o->bad_lines_max, o->bad_lines_max == 1 ? "" : "s", z->first_bad);
}

static weir_status write_documents(struct tokenizing *z, const struct documents *d)
{
	weir_status status = WEIR_OK;
	for (size_t i = 0, first = 0; i < d->count && status == WEIR_OK; first = d->ends[i++])
		status = token_writer_add(z->writer, d->ids.ids + first, d->masked[i] ? d->counts + first : NULL, d->ends[i] - first,
		                          &z->error);
	return status;
}

static void deliver(struct tokenizing *z, struct piece *p)
{
	pthread_mutex_lock(&z->delivering);
	while (z->turn != p->ticket)
		pthread_cond_wait(&z->turn_changed, &z->delivering);
	if (z->status == WEIR_OK && p->bad_count > 0)
		account_bad_lines(z, p);
	if (z->status == WEIR_OK && p->status != WEIR_OK) {
		z->status = p->status;
		z->error = p->error;
	}
	if (z->status == WEIR_OK)
		z->status = write_documents(z, &p->documents);
	z->documents += p->documents.count;
	z->replaced += p->replaced;
	const bool failed = z->status != WEIR_OK;
	z->turn++;
	pthread_cond_broadcast(&z->turn_changed);
	pthread_mutex_unlock(&z->delivering);
	if (failed) {
		pthread_mutex_lock(&z->reading);
		z->read_done = true;
		pthread_mutex_unlock(&z->reading);
	}
}

/* --- Threads */

static void *tokenizing_thread(void *argument)
{
	struct tokenizing *z = argument;
	const struct tokenize_options *o = z->options;
	struct piece p = {.bad = calloc(o->bad_line_reports + 1, sizeof *p.bad)};
	weir_error error = {0};
	weir_status ready = !p.bad ? weir_fail(&error, WEIR_E_MEMORY, "out of memory for documents")
	                           : record_encoder_create(&p.encoder, &o->record, &error);
	while (take_chunk(z, &p)) {
		p.replaced = p.bad_count = 0;
		documents_clear(&p.documents);
		if (p.status == WEIR_OK && ready != WEIR_OK) {
			p.status = ready;
			p.error = error;
		}
		if (p.status == WEIR_OK && is_jsonl(o, path_of(z, &p)))
			encode_lines(z, &p);
		else if (p.status == WEIR_OK)
			encode_text(z, &p);
		deliver(z, &p);
	}
	record_encoder_destroy(p.encoder);
	documents_destroy(&p.documents);
	buffer_destroy(&p.repaired);
	chunk_destroy(&p.chunk);
	free(p.bad);
	return NULL;
}

static void run_threads(struct tokenizing *z)
{
	const uint32_t wanted = z->options->threads;
	pthread_t *threads = wanted > 1 ? malloc((wanted - 1) * sizeof *threads) : NULL;
	uint32_t started = 0;
	while (threads && started + 1 < wanted && pthread_create(&threads[started], NULL, tokenizing_thread, z) == 0)
		started++; /* fewer threads are only slower */
	tokenizing_thread(z);
	for (uint32_t i = 0; i < started; i++)
		pthread_join(threads[i], NULL);
	free(threads);
}

/* An empty file would pass for a finished one. */
static void check_result(struct tokenizing *z)
{
	const struct sources *s = z->options->sources;
	const char *first = s->count > 0 ? s->items[0].path : "no file", *others = s->count > 1 ? " and the other files" : "";
	if (z->status != WEIR_OK || z->documents > 0)
		return;
	if (z->bad_lines > 0)
		z->status = weir_fail(&z->error, WEIR_E_INVALID, "nothing in %.200s%s can be used: %llu bad line%s, the first at %s",
		                      first, others, (unsigned long long)z->bad_lines, z->bad_lines == 1 ? "" : "s", z->first_bad);
	else
		z->status = weir_fail(&z->error, WEIR_E_INVALID, "there is no text in %s%s", first, others);
}

weir_status tokenize(const struct tokenize_options *o, const char *path, struct token_file_info *out, weir_error *err)
{
	const struct tokenizer_info *t = tokenizer_get_info(o->record.tokenizer);
	struct token_file_info info = {.vocabulary = t->vocabulary, .eos = o->record.eos, .identity = o->identity};
	struct tokenizing z = {.options = o};
	_Static_assert(TOKEN_NONE == TOKEN_FILE_NO_EOS, "no token is the same everywhere");
	memcpy(info.fingerprint, t->fingerprint, sizeof info.fingerprint);
	weir_status status = chunk_reader_create(&z.reader, o->sources, plan_of, (void *)(uintptr_t)o, TOKENIZER_TEXT_BYTES_MAX, err);
	if (status == WEIR_OK)
		status = token_writer_open(&z.writer, path, &info, err);
	if (status != WEIR_OK) {
		chunk_reader_destroy(z.reader);
		return status;
	}
	pthread_mutex_init(&z.reading, NULL);
	pthread_mutex_init(&z.delivering, NULL);
	pthread_cond_init(&z.turn_changed, NULL);
	run_threads(&z);
	pthread_cond_destroy(&z.turn_changed);
	pthread_mutex_destroy(&z.delivering);
	pthread_mutex_destroy(&z.reading);
	chunk_reader_destroy(z.reader);
	check_result(&z);
	if (z.status == WEIR_OK)
		return token_writer_commit(z.writer, z.bad_lines, z.replaced, out, err);
	token_writer_abandon(z.writer);
	if (err)
		*err = z.error;
	return z.status;
}
