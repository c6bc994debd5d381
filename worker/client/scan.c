/* Scan: all stored rows of a table, partition by partition, page by page; and the table's clock in
 * each. A server goes through its rows in memory, then through those below. It may meet some of the
 * first again there, so the client keeps their keys to skip them. */
#include <stdlib.h>
#include <string.h>

#include "kernels/codec.h"
#include "kernels/optimizer.h"
#include "worker/client/client.h"

struct scan {
	weir_client *client;
	const struct table *table;
	uint32_t partition;
	uint32_t floats; /* per element: value and slots */
	float *values;   /* one row */
	int (*row)(void *arg, uint64_t key, const float *values, size_t elements);
	void *arg;
	bool stopped;
	bool below;     /* pages of rows below memory */
	uint64_t *seen; /* (seen_count) keys of this partition's earlier pages */
	size_t seen_count, seen_room;
	weir_table_clock clock; /* from the last page */
	weir_table_clock least; /* rows are brought at least to this clock */
};

static size_t row_elements(const struct scan *s, uint64_t key)
{
	const weir_table_spec *spec = &s->table->spec;
	if (spec->kind == WEIR_EMBEDDING)
		return spec->width;
	return key < weir_chunks(spec->elements) ? weir_chunk_elements(spec->elements, key) : 0;
}

/* --- Repeated rows */

static int by_key(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return (x > y) - (x < y);
}

static weir_status remember(struct scan *s, uint64_t key, weir_error *err)
{
	if (s->seen_count == s->seen_room) {
		const size_t room = s->seen_room ? 2 * s->seen_room : 4096;
		uint64_t *more = realloc(s->seen, room * sizeof *more);
		if (!more)
			return weir_fail(err, WEIR_E_MEMORY, "scan: out of memory for the keys of %zu rows", s->seen_count);
		s->seen = more;
		s->seen_room = room;
	}
	s->seen[s->seen_count++] = key;
	return WEIR_OK;
}

static bool is_repeated(const struct scan *s, uint64_t key)
{
	return s->below && s->seen_count && bsearch(&key, s->seen, s->seen_count, sizeof key, by_key);
}

static void go_below(struct scan *s)
{
	if (!s->below && s->seen_count)
		qsort(s->seen, s->seen_count, sizeof *s->seen, by_key);
	s->below = true;
}

/* --- Pages */

static weir_status take_rows(struct scan *s, struct section *section, weir_error *err)
{
	for (uint32_t i = 0; i < section->rows && !s->stopped; i++) {
		uint64_t key;
		weir_status status = cursor_read(&section->index, &key, sizeof key);
		size_t n = status == WEIR_OK ? row_elements(s, key) : 0;
		if (n)
			status = cursor_read(&section->data, s->values, n * s->floats * sizeof(float));
		if (status != WEIR_OK || !n)
			return weir_fail(err, WEIR_E_CORRUPT, "scan of table %s: partition %u answered rows that do not fit the table",
			                 s->table->spec.name, s->partition);
		if (is_repeated(s, key))
			continue;
		if (!s->below && (status = remember(s, key, err)) != WEIR_OK)
			return status;
		s->stopped = s->row(s->arg, key, s->values, n * s->floats) != 0;
	}
	return WEIR_OK;
}

static weir_status take_page(struct scan *s, const struct message *m, Weir__V1__ScanRequest *next, weir_error *err)
{
	struct cursor frame, body;
	struct frame_header header;
	struct record r;
	struct section section;
	weir_status status = wire_unwrap_frame(m, &frame, err);
	if (status == WEIR_OK)
		status = frame_open(&frame, &header, err);
	if (status == WEIR_OK && header.records != 1)
		status = weir_fail(err, WEIR_E_CORRUPT, "scan: %u records in the answer, expected 1", header.records);
	if (status == WEIR_OK)
		status = frame_next_record(&frame, true, &r, &body, err);
	if (status == WEIR_OK && r.status != WEIR_OK)
		status = weir_fail(err, (weir_status)r.status, "scan of table %s in partition %u: %s", s->table->spec.name, s->partition,
		                   weir_status_text((weir_status)r.status));
	if (status != WEIR_OK)
		return status;
	next->cursor = r.scan_reply.cursor;
	next->below = r.part != 0;
	next->process_id = r.request_id;
	s->clock.steps = r.scan_reply.steps;
	memcpy(&s->clock.lr, &r.scan_reply.rate, sizeof r.scan_reply.rate);
	if (!r.sections)
		return WEIR_OK;
	status = frame_next_section(&body, &section, err);
	return status == WEIR_OK ? take_rows(s, &section, err) : status;
}

static weir_status ask_page(struct scan *s, Weir__V1__ScanRequest *q, weir_error *err)
{
	weir_client *c = s->client;
	struct rpc_channel *channel;
	struct message *m, *answer = NULL;
	weir_status status = client_channel(c, map_server(c, s->partition), &channel, err);
	if (status != WEIR_OK)
		return status;
	if (!(m = wire_pack(&q->base)))
		return weir_fail(err, WEIR_E_MEMORY, "scan: out of memory");
	pthread_mutex_lock(&c->lock);
	activity_reads(c);
	pthread_mutex_unlock(&c->lock);
	status = client_call_wait(c, channel, RPC_SCAN, m, WEIR_CONTROL_TIMEOUT_MS, &answer, err);
	if (status == WEIR_OK)
		status = take_page(s, answer, q, err);
	message_release(answer);
	return status;
}

/* Waits for a server that is gone, as pulls do, and follows a partition that has moved. But it
 * follows no move between two pages: a position in a server's rows means nothing at another server,
 * nor after a restart. */
static weir_status find_page(struct scan *s, Weir__V1__ScanRequest *q, weir_error *err)
{
	weir_client *c = s->client;
	const bool first = !q->cursor && !q->below;
	struct tries tries = {.end_ms = client_now(c) + c->patience_ms};
	weir_error why = {0};
	weir_status status;
	while ((status = ask_page(s, q, &why)) == WEIR_E_UNAVAILABLE || (status == WEIR_E_MOVED && first)) {
		rpc_loop_post(c->loop, map_ask, c);
		if (!client_try_again(c, &tries, true, &why))
			break;
	}
	if (status == WEIR_E_MOVED && !first)
		return weir_fail(
		    err, status,
		    "scan of table %s: the server of partition %u was started again meanwhile, or another one has it now: scan "
		    "it again",
		    s->table->spec.name, s->partition);
	return status == WEIR_OK ? WEIR_OK : weir_fail(err, status, "%s", why.text);
}

static weir_status scan_partition(struct scan *s, bool slots, weir_error *err)
{
	weir_client *c = s->client;
	size_t row_bytes = (s->table->spec.kind == WEIR_EMBEDDING ? s->table->spec.width : WEIR_CHUNK) * s->floats * sizeof(float) +
	                   sizeof(uint64_t);
	Weir__V1__ScanRequest q = WEIR__V1__SCAN_REQUEST__INIT;
	Weir__V1__JobId job;
	client_fill_job(c, &job);
	s->below = false;
	s->seen_count = 0;
	q.job = &job;
	q.table = s->table->id;
	q.partition = s->partition;
	q.slots = slots;
	q.clock_steps = s->least.steps;
	q.clock_rate = s->least.lr;
	q.rows_max = row_bytes < WEIR_MESSAGE_BYTES_TARGET ? (uint32_t)(WEIR_MESSAGE_BYTES_TARGET / row_bytes) : 1;
	do {
		weir_status status = find_page(s, &q, err);
		if (status != WEIR_OK)
			return status;
		if (q.below)
			go_below(s);
	} while ((q.cursor || q.below) && !s->stopped);
	return WEIR_OK;
}

static weir_status scan_open(struct scan *s, weir_client *c, uint32_t table, bool slots, weir_error *err)
{
	pthread_mutex_lock(&c->lock);
	const struct table *t = client_table(c, table, err);
	pthread_mutex_unlock(&c->lock);
	if (!t)
		return WEIR_E_NOT_FOUND;
	*s = (struct scan){.client = c, .table = t, .floats = 1 + (slots ? optimizer_slots(t->spec.optimizer.kind) : 0)};
	s->values = malloc(WEIR_ROW_WIDTH_MAX * s->floats * sizeof(float));
	return s->values ? WEIR_OK : weir_fail(err, WEIR_E_MEMORY, "scan: out of memory");
}

static int no_row(void *arg, uint64_t key, const float *values, size_t elements)
{
	(void)arg, (void)key, (void)values, (void)elements;
	return 1;
}

/* Reads the table's clock in each partition from the partition's first page: clocks (partitions),
 * or NULL. *latest: the latest of them. */
static weir_status read_clocks(weir_client *c, uint32_t table, weir_table_clock *clocks, weir_table_clock *latest,
                               weir_error *err)
{
	struct scan s = {0};
	weir_status status = scan_open(&s, c, table, false, err);
	s.row = no_row;
	*latest = (weir_table_clock){0};
	for (; s.partition < c->partitions && status == WEIR_OK; s.partition++) {
		s.stopped = false;
		status = scan_partition(&s, false, err);
		*latest = s.clock.steps > latest->steps ? s.clock : *latest;
		if (clocks)
			clocks[s.partition] = s.clock;
	}
	free(s.seen);
	free(s.values);
	return status;
}

/* Rows of a table with full decay are brought to its latest push, in whichever partition. */
weir_status weir_scan(weir_client *c, uint32_t table, int slots,
                      int (*row)(void *arg, uint64_t key, const float *values, size_t elements), void *arg, weir_error *err)
{
	struct scan s = {0};
	weir_status status = scan_open(&s, c, table, slots != 0, err);
	if (status == WEIR_OK && s.table->spec.kind == WEIR_EMBEDDING && s.table->spec.optimizer.decay == WEIR_DECAY_FULL)
		status = read_clocks(c, table, NULL, &s.least, err);
	s.row = row;
	s.arg = arg;
	for (; s.partition < c->partitions && status == WEIR_OK && !s.stopped; s.partition++)
		status = scan_partition(&s, slots != 0, err);
	free(s.seen);
	free(s.values);
	return status;
}

weir_status weir_clocks(weir_client *c, uint32_t table, weir_table_clock *clocks, weir_error *err)
{
	weir_table_clock latest;
	return read_clocks(c, table, clocks, &latest, err);
}
