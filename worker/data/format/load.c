/* Loads text with several threads (load.h). Locks: `reading` guards the open file and the ticket
 * counter, `delivering` all other shared state. No thread holds both at once. */
#include "worker/data/format/load.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "worker/data/format/parse_batch.h"
#include "worker/data/format/parse_table.h"
#include "worker/data/format/table_file.h"
#include "worker/data/format/text.h"

struct load {
	const struct load_options *options;
	const struct load_range *ranges;
	uint32_t count;

	pthread_mutex_t reading;
	struct text *text;
	struct table_file *table; /* in place of the text */
	uint32_t range;           /* the one being read */
	uint64_t tickets;
	bool read_done;

	pthread_mutex_t delivering;
	pthread_cond_t turn_changed;
	uint64_t turn;
	uint32_t line_range; /* the range that `lines` counts */
	uint64_t lines;      /* delivered lines of it */
	struct load_result result;
	uint64_t wrong_labels; /* part of the bad lines */
	weir_status status;
	weir_error error;                            /* the first failure in the order of the text */
	char first_label[WEIR_ERROR_TEXT_BYTES / 2]; /* file:line: reason */
};

/* A chunk that one thread parses. */
struct piece {
	struct text_chunk chunk;
	struct ArrowSchema schema; /* of the batch */
	struct ArrowArray batch;   /* in place of the chunk; release NULL: none */
	struct ArrowArray before;  /* the batch before, which parse_batch_begin needs */
	uint64_t ticket;
	uint32_t range;
	const char *path;
	bool first; /* the chunk begins its file */
	struct row_reader reader;
	struct parse_batch *columns; /* of batches; NULL: none yet */
	struct rows rows[LOAD_PARTS];
	uint64_t lines, good, bad_count, wrong_labels;
	struct bad_line {
		uint64_t line; /* from the start of the chunk, from 0 */
		char reason[PARSE_WHY_BYTES];
	} * bad;                              /* (bad_line_reports + 1) the first ones */
	struct bad_line first_label, refused; /* the first line of each kind; reason "": none */
	weir_status status;
	weir_error error;
};

static bool is_table(const struct load_options *o)
{
	return o->parser->layout && row_reader_has_batches(o->parser->layout);
}

static weir_status open_table(struct load *l, const struct load_range *r, struct piece *p)
{
	const struct table_layout *layout = l->options->parser->layout;
	const weir_status status = table_file_open(&l->table, r->path, layout, &p->error);
	return status == WEIR_OK ? table_file_begin(l->table, r->begin, r->end, &p->error) : status;
}

static weir_status open_text(struct load *l, const struct load_range *r, struct piece *p)
{
	const weir_status status = text_open(&l->text, r->path, r->begin, r->end, &p->error);
	if (status == WEIR_OK && l->options->parser->layout && l->options->parser->layout->rows == ROWS_CSV)
		text_set_csv(l->text, l->options->parser->layout->marks);
	return status;
}

static weir_status next_chunk(struct load *l, const struct load_range *r, struct piece *p)
{
	const weir_status status = l->text ? WEIR_OK : open_text(l, r, p);
	return status == WEIR_OK ? text_next(l->text, &p->chunk, &p->error) : status;
}

static weir_status next_batch(struct load *l, const struct load_range *r, struct piece *p)
{
	const weir_status status = l->table ? WEIR_OK : open_table(l, r, p);
	return status == WEIR_OK ? table_file_next(l->table, &p->schema, &p->batch, &p->error) : status;
}

static bool has_rows(const struct piece *p)
{
	return p->chunk.size > 0 || p->batch.release;
}

/* Keeps the batch until the next one is parsed. */
static void retire_batch(struct piece *p)
{
	if (p->before.release)
		p->before.release(&p->before);
	p->before = p->batch;
	p->batch.release = NULL;
	if (p->schema.release)
		p->schema.release(&p->schema);
	p->schema.release = NULL;
}

static void end_range(struct load *l, const struct load_range *r)
{
	if (l->text && text_has_garbage(l->text))
		logger_write(l->options->logger, LOG_WARN, NULL, "garbage behind compressed data ignored", "file=%s", r->path);
	text_close(l->text);
	table_file_close(l->table);
	l->text = NULL;
	l->table = NULL;
}

/* Takes the next chunk or batch and its ticket. Returns false when nothing is left. */
static bool take_chunk(struct load *l, struct piece *p)
{
	pthread_mutex_lock(&l->reading);
	p->status = WEIR_OK;
	p->chunk.size = 0;
	while (!l->read_done && !has_rows(p) && p->status == WEIR_OK) {
		const struct load_range *r = &l->ranges[l->range];
		p->first = !l->text && r->begin == 0;
		p->status = is_table(l->options) ? next_batch(l, r, p) : next_chunk(l, r, p);
		p->range = l->range;
		p->path = r->path;
		if (p->status != WEIR_OK) {
			l->read_done = true;
		} else if (!has_rows(p)) {
			end_range(l, r);
			l->read_done = ++l->range == l->count;
		}
	}
	bool taken = has_rows(p) || p->status != WEIR_OK;
	if (taken)
		p->ticket = l->tickets++;
	pthread_mutex_unlock(&l->reading);
	return taken;
}

static void keep_first(struct bad_line *first, uint64_t line, const char *why)
{
	if (first->reason[0] == 0) {
		first->line = line;
		snprintf(first->reason, sizeof first->reason, "%s", why);
	}
}

static void count_bad(const struct load_options *o, struct piece *p, enum parsed parsed, const char *why)
{
	if (parsed == PARSED_LABEL) {
		keep_first(&p->first_label, p->lines, why);
		p->wrong_labels++;
	}
	if (parsed == PARSED_REFUSED)
		keep_first(&p->refused, p->lines, why);
	if (p->bad_count <= o->bad_line_reports) {
		p->bad[p->bad_count].line = p->lines;
		snprintf(p->bad[p->bad_count].reason, sizeof p->bad->reason, "%s", why);
	}
	p->bad_count++;
}

static void parse_one(const struct load_options *o, struct piece *p, enum split_part part, const char *line, size_t n)
{
	char why[PARSE_WHY_BYTES];
	if (!o->wanted[part])
		return;
	struct rows *rows = &p->rows[part];
	const enum parsed parsed =
	    o->parser->layout ? parse_table(o->parser, &p->reader, rows, why) : parse_line(o->parser, rows, line, n, why);
	p->good += parsed == PARSED_ROW;
	if (parsed != PARSED_ROW && parsed != PARSED_NOTHING)
		count_bad(o, p, parsed, why);
	if (parsed != PARSED_ROW && o->parser->every_line && p->status == WEIR_OK &&
	    !parse_placeholder(o->parser, rows, parsed == PARSED_NOTHING ? LABEL_BLANK : LABEL_BAD))
		p->status = weir_fail(&p->error, WEIR_E_MEMORY, "out of memory for rows");
}

static void parse_lines(const struct load_options *o, struct piece *p)
{
	const char *at = p->chunk.data, *end = at + p->chunk.size;
	for (; at < end; p->lines++) {
		const char *newline = memchr(at, '\n', (size_t)(end - at));
		const size_t n = (size_t)((!newline ? end : newline) - at);
		const size_t bytes = parse_line_bytes(at, n);
		parse_one(o, p, split_line(&o->split, at, bytes), at, bytes);
		at += n + 1;
	}
}

static weir_status begin_batch(const struct load_options *o, struct piece *p, weir_error *err)
{
	const struct table_layout *layout = o->parser->layout;
	weir_status status = row_reader_begin_batch(&p->reader, layout, &p->schema, &p->batch, err);
	if (status == WEIR_OK && !p->columns)
		status = parse_batch_create(&p->columns, o->parser, &p->reader, err);
	return status == WEIR_OK ? parse_batch_begin(p->columns, p->batch.length, err) : status;
}

/* Chooses the rows of wanted parts among rows [first, first + n) of a batch. */
static uint32_t choose_rows(const struct load_options *o, struct piece *p, int64_t first, uint32_t n,
                            int64_t at[PARSE_BATCH_ROWS], enum split_part parts[PARSE_BATCH_ROWS])
{
	const struct cell none = {.text = ""};
	uint32_t count = 0;
	for (uint32_t i = 0; i < n; i++) {
		enum split_part part = SPLIT_TRAIN;
		if (o->split.on) {
			arrow_reader_seek(&p->reader.arrow, first + i);
			part = parse_table_part(o->parser, &o->split, &p->reader, &none);
		}
		at[count] = first + i;
		parts[count] = part;
		count += o->wanted[part];
	}
	return count;
}

/* Appends the chosen rows, in their order; the odd ones as single rows. */
static weir_status append_rows(const struct load_options *o, struct piece *p, const int64_t *at, const enum split_part *parts,
                               uint32_t count, weir_error *err)
{
	for (uint32_t j = 0, run; j < count; j += run) {
		run = 1;
		if (parse_batch_is_odd(p->columns, j)) {
			p->lines = (uint64_t)at[j];
			arrow_reader_seek(&p->reader.arrow, at[j]);
			parse_one(o, p, parts[j], "", 0);
			continue;
		}
		while (j + run < count && parts[j + run] == parts[j] && !parse_batch_is_odd(p->columns, j + run))
			run++;
		if (!parse_batch_append(p->columns, j, run, &p->rows[parts[j]]))
			return weir_fail(err, WEIR_E_MEMORY, "out of memory for rows");
		p->good += run;
	}
	return WEIR_OK;
}

static void parse_columns(const struct load_options *o, struct piece *p)
{
	int64_t at[PARSE_BATCH_ROWS];
	enum split_part parts[PARSE_BATCH_ROWS];
	weir_error why;
	weir_status status = begin_batch(o, p, &why);
	for (int64_t row = 0; row < p->batch.length && status == WEIR_OK; row += PARSE_BATCH_ROWS) {
		const int64_t left = p->batch.length - row;
		const uint32_t count = choose_rows(o, p, row, left < PARSE_BATCH_ROWS ? (uint32_t)left : PARSE_BATCH_ROWS, at, parts);
		status = parse_batch_read(p->columns, at, count, &why);
		if (status == WEIR_OK)
			status = append_rows(o, p, at, parts, count, &why);
	}
	p->lines = (uint64_t)p->batch.length;
	if (status != WEIR_OK)
		p->status = weir_fail(&p->error, status, "%.200s: %s", p->path, why.text);
}

static void parse_rows(const struct load_options *o, struct piece *p)
{
	struct cell row;
	if (!row_reader_begin(&p->reader, o->parser->layout, p->chunk.data, p->chunk.size, p->first)) {
		p->status = weir_fail(&p->error, WEIR_E_MEMORY, "out of memory for rows");
		return;
	}
	while (row_reader_next(&p->reader, &row, &p->lines))
		parse_one(o, p, parse_table_part(o->parser, &o->split, &p->reader, &row), row.text, row.n);
	p->lines = row_reader_lines(&p->reader);
}

static void parse_piece(const struct load_options *o, struct piece *p)
{
	p->lines = p->good = p->bad_count = p->wrong_labels = 0;
	p->first_label.reason[0] = p->refused.reason[0] = 0;
	for (uint32_t i = 0; i < LOAD_PARTS; i++)
		rows_clear(&p->rows[i]);
	if (p->batch.release)
		parse_columns(o, p);
	else if (o->parser->layout)
		parse_rows(o, p);
	else
		parse_lines(o, p);
}

/* Counts the lines before byte `end` of a plain file; 0 if it cannot be read. */
static uint64_t count_lines(const char *path, uint64_t end)
{
	struct text *t;
	struct text_chunk chunk = {0};
	uint64_t lines = 0;
	if (end == 0 || text_open(&t, path, 0, end, NULL) != WEIR_OK)
		return 0;
	while (text_next(t, &chunk, NULL) == WEIR_OK && chunk.size > 0)
		for (const char *at = chunk.data; (at = memchr(at, '\n', chunk.size - (size_t)(at - chunk.data))) != NULL; at++)
			lines++;
	text_close(t);
	text_chunk_destroy(&chunk);
	return lines;
}

/* Logs the first bad lines and checks the limit. */
static void account_bad_lines(struct load *l, const struct piece *p)
{
	const struct load_options *o = l->options;
	const struct load_range *r = &l->ranges[p->range];
	uint64_t before = l->lines + (is_table(o) ? r->begin : count_lines(r->path, r->begin)) + 1;
	for (uint64_t i = 0; i < p->bad_count && l->result.bad_lines + i <= o->bad_line_reports; i++) {
		unsigned long long line = before + p->bad[i].line;
		if (l->result.bad_lines + i == 0)
			snprintf(l->result.first_bad, sizeof l->result.first_bad, "%.200s:%llu: %s", r->path, line, p->bad[i].reason);
		if (l->result.bad_lines + i < o->bad_line_reports)
			logger_write(o->logger, LOG_WARN, NULL, "bad line", "at=%s:%llu reason=\"%s\"", r->path, line, p->bad[i].reason);
	}
	if (l->wrong_labels == 0 && p->wrong_labels > 0)
		snprintf(l->first_label, sizeof l->first_label, "%.200s:%llu: %s", r->path,
		         (unsigned long long)(before + p->first_label.line), p->first_label.reason);
	l->result.bad_lines += p->bad_count;
	l->wrong_labels += p->wrong_labels;
	if (p->refused.reason[0] != 0)
		l->status = weir_fail(&l->error, WEIR_E_INVALID, "%s:%llu: %s", r->path, (unsigned long long)(before + p->refused.line),
		                      p->refused.reason);
	else if (l->result.bad_lines > o->bad_lines_max)
		l->status = weir_fail(&l->error, WEIR_E_LIMIT, "%s: more than %llu bad line%s (data.bad_lines_max), the first at %s%s",
		                      r->path, (unsigned long long)o->bad_lines_max, o->bad_lines_max == 1 ? "" : "s",
		                      l->result.first_bad, l->wrong_labels == l->result.bad_lines ? "" : "; is data.format right?");
}

/* Invalid labels on a few lines may be slips. With many, leaving these lines out would leave out
 * part of the classes. */
static void check_labels(struct load *l)
{
	const uint64_t all = l->result.rows + l->wrong_labels;
	if (l->status == WEIR_OK && l->wrong_labels > LOAD_WRONG_LABELS_FEW + all / LOAD_WRONG_LABELS_OF)
		l->status = weir_fail(&l->error, WEIR_E_INVALID, "%s (so are those of %llu of %llu rows)", l->first_label,
		                      (unsigned long long)l->wrong_labels, (unsigned long long)all);
}

static void deliver_piece(struct load *l, struct piece *p)
{
	pthread_mutex_lock(&l->delivering);
	while (l->turn != p->ticket)
		pthread_cond_wait(&l->turn_changed, &l->delivering);
	if (l->status == WEIR_OK && p->status != WEIR_OK) {
		l->status = p->status;
		l->error = p->error;
	}
	if (l->line_range != p->range) {
		l->line_range = p->range;
		l->lines = 0;
	}
	if (l->status == WEIR_OK && p->bad_count > 0)
		account_bad_lines(l, p);
	l->lines += p->lines;
	l->result.rows += p->good;
	for (uint32_t i = 0; i < LOAD_PARTS && l->status == WEIR_OK; i++)
		if (p->rows[i].count > 0)
			l->status = l->options->deliver(l->options->context, (enum split_part)i, &p->rows[i], &l->error);
	bool failed = l->status != WEIR_OK;
	l->turn++;
	pthread_cond_broadcast(&l->turn_changed);
	pthread_mutex_unlock(&l->delivering);
	if (failed) {
		pthread_mutex_lock(&l->reading);
		l->read_done = true;
		pthread_mutex_unlock(&l->reading);
	}
}

static void *load_thread(void *argument)
{
	struct load *l = argument;
	const struct load_options *o = l->options;
	struct piece p = {.bad = calloc(o->bad_line_reports + 1, sizeof *p.bad)};
	for (uint32_t i = 0; i < LOAD_PARTS; i++)
		rows_init(&p.rows[i], parser_shape(o->parser), parser_bags(o->parser));
	while (take_chunk(l, &p)) {
		if (p.status == WEIR_OK && !p.bad)
			p.status = weir_fail(&p.error, WEIR_E_MEMORY, "out of memory parsing %s", l->ranges[p.range].path);
		if (p.status == WEIR_OK)
			parse_piece(o, &p);
		retire_batch(&p);
		deliver_piece(l, &p);
	}
	retire_batch(&p);
	parse_batch_destroy(p.columns);
	for (uint32_t i = 0; i < LOAD_PARTS; i++)
		rows_destroy(&p.rows[i]);
	free(p.bad);
	row_reader_destroy(&p.reader);
	text_chunk_destroy(&p.chunk);
	return NULL;
}

weir_status load_text(const struct load_options *o, const struct load_range *ranges, uint32_t count, struct load_result *result,
                      weir_error *err)
{
	struct load l = {.options = o, .ranges = ranges, .count = count, .read_done = count == 0};
	pthread_t *threads = o->threads > 1 ? malloc((o->threads - 1) * sizeof *threads) : NULL;
	pthread_mutex_init(&l.reading, NULL);
	pthread_mutex_init(&l.delivering, NULL);
	pthread_cond_init(&l.turn_changed, NULL);
	uint32_t started = 0;
	while (threads && started + 1 < o->threads && pthread_create(&threads[started], NULL, load_thread, &l) == 0)
		started++; /* fewer threads are only slower */
	load_thread(&l);
	for (uint32_t i = 0; i < started; i++)
		pthread_join(threads[i], NULL);
	free(threads);
	check_labels(&l);
	text_close(l.text);
	table_file_close(l.table);
	pthread_cond_destroy(&l.turn_changed);
	pthread_mutex_destroy(&l.delivering);
	pthread_mutex_destroy(&l.reading);
	*result = l.result;
	if (l.status != WEIR_OK && err)
		*err = l.error;
	return l.status;
}
