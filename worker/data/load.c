/* Locks: `reading` guards the open file and the ticket counter, `delivering` all else that is shared; never both at once. */
#include "load.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "text.h"

struct load {
	const struct load_options *options;
	const struct load_range *ranges;
	uint32_t count;

	pthread_mutex_t reading;
	struct text *text;
	uint32_t range; /* being read */
	uint64_t tickets;
	bool read_done;

	pthread_mutex_t delivering;
	pthread_cond_t turn_changed;
	uint64_t turn;
	uint32_t line_range; /* which range `lines` counts */
	uint64_t lines;      /* lines of it delivered */
	uint64_t bad_lines;
	weir_status status;
	weir_error error;                          /* the first failure, in the order of the text */
	char first_bad[WEIR_ERROR_TEXT_BYTES / 2]; /* file:line: reason */
};

/* A chunk being parsed by one thread. */
struct piece {
	struct text_chunk chunk;
	uint64_t ticket;
	uint32_t range;
	struct rows rows[LOAD_PARTS];
	uint64_t lines, bad_count;
	struct bad_line {
		uint64_t line; /* from the start of the chunk, counting from 0 */
		const char *reason;
	} * bad; /* (bad_line_reports + 1): the first ones */
	weir_status status;
	weir_error error;
};

/* Takes the next chunk and its ticket. False when nothing is left. */
static bool take_chunk(struct load *l, struct piece *p)
{
	pthread_mutex_lock(&l->reading);
	p->status = WEIR_OK;
	p->chunk.size = 0;
	while (!l->read_done && p->chunk.size == 0 && p->status == WEIR_OK) {
		const struct load_range *r = &l->ranges[l->range];
		if (l->text == NULL)
			p->status = text_open(&l->text, r->path, r->begin, r->end, &p->error);
		if (p->status == WEIR_OK)
			p->status = text_next(l->text, &p->chunk, &p->error);
		p->range = l->range;
		if (p->status != WEIR_OK) {
			l->read_done = true;
		} else if (p->chunk.size == 0) {
			text_close(l->text);
			l->text = NULL;
			l->read_done = ++l->range == l->count;
		}
	}
	bool taken = p->chunk.size > 0 || p->status != WEIR_OK;
	if (taken)
		p->ticket = l->tickets++;
	pthread_mutex_unlock(&l->reading);
	return taken;
}

static void parse_piece(const struct load_options *o, struct piece *p)
{
	const char *at = p->chunk.data, *end = at + p->chunk.size;
	p->lines = p->bad_count = 0;
	for (uint32_t i = 0; i < LOAD_PARTS; i++)
		rows_clear(&p->rows[i]);
	while (at < end) {
		const char *newline = memchr(at, '\n', (size_t)(end - at));
		size_t n = (size_t)((newline == NULL ? end : newline) - at);
		enum split_part part = split_line(&o->split, at, n);
		const char *reason = o->wanted[part] ? parse_line(o->parser, &p->rows[part], at, n) : NULL;
		if (reason != NULL) {
			if (p->bad_count <= o->bad_line_reports)
				p->bad[p->bad_count] = (struct bad_line){p->lines, reason};
			p->bad_count++;
		}
		p->lines++;
		at += n + 1;
	}
}

/* Lines before byte `end` of a plain file; 0 when it cannot be read. */
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
	text_chunk_free(&chunk);
	return lines;
}

/* Logs the first bad lines and checks the limit. */
static void account_bad_lines(struct load *l, const struct piece *p)
{
	const struct load_options *o = l->options;
	const struct load_range *r = &l->ranges[p->range];
	uint64_t before = l->lines + count_lines(r->path, r->begin) + 1;
	for (uint64_t i = 0; i < p->bad_count && l->bad_lines + i <= o->bad_line_reports; i++) {
		unsigned long long line = before + p->bad[i].line;
		if (l->bad_lines + i == 0)
			snprintf(l->first_bad, sizeof l->first_bad, "%.200s:%llu: %s", r->path, line, p->bad[i].reason);
		if (l->bad_lines + i < o->bad_line_reports)
			logger_write(o->logger, LOG_WARN, NULL, "bad line", "at=%s:%llu reason=\"%s\"", r->path, line, p->bad[i].reason);
	}
	l->bad_lines += p->bad_count;
	if (l->bad_lines > o->bad_lines_max)
		l->status = weir_fail(&l->error, WEIR_E_LIMIT,
		                      "%s: more than %llu bad lines (data.bad_lines_max), the first at %s; is data.format right?",
		                      r->path, (unsigned long long)o->bad_lines_max, l->first_bad);
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
		rows_init(&p.rows[i], o->parser->fields, o->parser->dense_dim, parser_bags(o->parser));
	while (take_chunk(l, &p)) {
		if (p.status == WEIR_OK && p.bad == NULL)
			p.status = weir_fail(&p.error, WEIR_E_MEMORY, "out of memory parsing %s", l->ranges[p.range].path);
		if (p.status == WEIR_OK)
			parse_piece(o, &p);
		deliver_piece(l, &p);
	}
	for (uint32_t i = 0; i < LOAD_PARTS; i++)
		rows_free(&p.rows[i]);
	free(p.bad);
	text_chunk_free(&p.chunk);
	return NULL;
}

weir_status load_text(const struct load_options *o, const struct load_range *ranges, uint32_t count, uint64_t *bad_lines,
                      weir_error *err)
{
	*bad_lines = 0;
	struct load l = {.options = o, .ranges = ranges, .count = count, .read_done = count == 0};
	pthread_t *threads = o->threads > 1 ? malloc((o->threads - 1) * sizeof *threads) : NULL;
	pthread_mutex_init(&l.reading, NULL);
	pthread_mutex_init(&l.delivering, NULL);
	pthread_cond_init(&l.turn_changed, NULL);
	uint32_t started = 0;
	while (threads != NULL && started + 1 < o->threads && pthread_create(&threads[started], NULL, load_thread, &l) == 0)
		started++; /* fewer threads only make it slower */
	load_thread(&l);
	for (uint32_t i = 0; i < started; i++)
		pthread_join(threads[i], NULL);
	free(threads);
	text_close(l.text);
	pthread_cond_destroy(&l.turn_changed);
	pthread_mutex_destroy(&l.delivering);
	pthread_mutex_destroy(&l.reading);
	*bad_lines = l.bad_lines;
	if (l.status != WEIR_OK && err != NULL)
		*err = l.error;
	return l.status;
}
