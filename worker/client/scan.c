/* Scan: all stored rows of a table, partition by partition, page by page; and the table's clock in
 * each. A server goes through its rows in memory, then through those below. It may meet some of the
 * first again there, so the client keeps their keys to skip them. */
#include <stdlib.h>
#include <string.h>

#include "kernels/codec.h"
#include "kernels/optimizer.h"
#include "worker/client/api_struct.h"
#include "worker/client/client.h"

#define SCAN_ROOM_FIRST 4096u /* items */

struct weir_scanner {
	weir_client *client;
	const struct table *table;
	uint32_t partition; /* at it; client->partitions: at the end */
	bool begun;         /* pages of this partition have been taken */
	bool below;         /* pages of rows below memory */
	Weir__V1__ScanRequest next;
	Weir__V1__JobId job;
	uint64_t *seen; /* (seen_count) keys of this partition's earlier pages */
	size_t seen_count, seen_room;
	weir_table_clock clock; /* from the last page */
	weir_table_clock least; /* rows are brought at least to this clock */

	/* The page in hand: keys (rows), values (rows, elements, slots included). The last chunk of a
	 * dense table has fewer. */
	uint64_t *keys;
	float *values;
	size_t rows, keys_room, values_room, values_used;
	size_t told, told_values; /* rows of it that the caller has had */
	uint32_t floats;          /* per element: value and slots */
	weir_error failure;       /* the scan cannot go on; status OK: it can */
};

static size_t row_elements(const weir_scanner *s, uint64_t key)
{
	const weir_table_spec *spec = &s->table->spec;
	if (spec->kind == WEIR_EMBEDDING)
		return spec->width;
	return key < weir_chunks(spec->elements) ? weir_chunk_elements(spec->elements, key) : 0;
}

/* Grows an array of items of `bytes` to at least `count`. */
static void *grown(void *items, size_t *room, size_t count, size_t bytes)
{
	size_t more = *room ? *room : SCAN_ROOM_FIRST;
	while (more < count)
		more *= 2;
	if (more == *room)
		return items;
	void *moved = realloc(items, more * bytes);
	if (moved)
		*room = more;
	return moved;
}

/* --- Repeated rows */

static int by_key(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return (x > y) - (x < y);
}

static weir_status remember(weir_scanner *s, uint64_t key, weir_error *err)
{
	uint64_t *seen = grown(s->seen, &s->seen_room, s->seen_count + 1, sizeof *seen);
	if (!seen)
		return weir_fail(err, WEIR_E_MEMORY, "scan: out of memory for the keys of %zu rows", s->seen_count);
	s->seen = seen;
	s->seen[s->seen_count++] = key;
	return WEIR_OK;
}

static bool is_repeated(const weir_scanner *s, uint64_t key)
{
	return s->below && s->seen_count && bsearch(&key, s->seen, s->seen_count, sizeof key, by_key);
}

static void go_below(weir_scanner *s)
{
	if (!s->below && s->seen_count)
		qsort(s->seen, s->seen_count, sizeof *s->seen, by_key);
	s->below = true;
}

/* --- Pages */

static weir_status make_room(weir_scanner *s, size_t floats, weir_error *err)
{
	uint64_t *keys = grown(s->keys, &s->keys_room, s->rows + 1, sizeof *keys);
	s->keys = keys ? keys : s->keys;
	float *values = grown(s->values, &s->values_room, s->values_used + floats, sizeof *values);
	s->values = values ? values : s->values;
	return keys && values ? WEIR_OK : weir_fail(err, WEIR_E_MEMORY, "scan: out of memory for %zu rows", s->rows + 1);
}

static weir_status take_rows(weir_scanner *s, struct section *section, weir_error *err)
{
	for (uint32_t i = 0; i < section->rows; i++) {
		uint64_t key;
		weir_status status = cursor_read(&section->index, &key, sizeof key);
		const size_t n = status == WEIR_OK ? row_elements(s, key) * s->floats : 0;
		if (n && (status = make_room(s, n, err)) != WEIR_OK)
			return status;
		if (n)
			status = cursor_read(&section->data, s->values + s->values_used, n * sizeof(float));
		if (status != WEIR_OK || !n)
			return weir_fail(err, WEIR_E_CORRUPT, "scan of table %s: partition %u answered rows that do not fit the table",
			                 s->table->spec.name, s->partition);
		if (is_repeated(s, key))
			continue;
		if (!s->below && (status = remember(s, key, err)) != WEIR_OK)
			return status;
		s->keys[s->rows++] = key;
		s->values_used += n;
	}
	return WEIR_OK;
}

static weir_status take_page(weir_scanner *s, const struct message *m, weir_error *err)
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
	s->next.cursor = r.scan_reply.cursor;
	s->next.below = r.part != 0;
	s->next.process_id = r.request_id;
	s->clock.steps = r.scan_reply.steps;
	memcpy(&s->clock.lr, &r.scan_reply.rate, sizeof r.scan_reply.rate);
	if (!r.sections)
		return WEIR_OK;
	status = frame_next_section(&body, &section, err);
	return status == WEIR_OK ? take_rows(s, &section, err) : status;
}

static weir_status ask_page(weir_scanner *s, weir_error *err)
{
	weir_client *c = s->client;
	struct rpc_channel *channel;
	struct message *m, *answer = NULL;
	weir_status status = client_channel(c, map_server(c, s->partition), &channel, err);
	if (status != WEIR_OK)
		return status;
	if (!(m = wire_pack(&s->next.base)))
		return weir_fail(err, WEIR_E_MEMORY, "scan: out of memory");
	pthread_mutex_lock(&c->lock);
	activity_reads(c);
	pthread_mutex_unlock(&c->lock);
	s->rows = s->values_used = s->told = s->told_values = 0;
	status = client_call_wait(c, channel, RPC_SCAN, m, WEIR_CONTROL_TIMEOUT_MS, &answer, err);
	if (status == WEIR_OK)
		status = take_page(s, answer, err);
	message_release(answer);
	return status;
}

/* Waits for a server that is gone, as pulls do, and follows a partition that has moved. But it
 * follows no move between two pages: a position in a server's rows means nothing at another server,
 * nor after a restart. */
static weir_status find_page(weir_scanner *s, weir_error *err)
{
	weir_client *c = s->client;
	struct tries tries = {.end_ms = client_now(c) + c->patience_ms};
	weir_error why = {0};
	weir_status status;
	while ((status = ask_page(s, &why)) == WEIR_E_UNAVAILABLE || (status == WEIR_E_MOVED && !s->begun)) {
		rpc_loop_post(c->loop, map_ask, c);
		if (!client_try_again(c, &tries, true, &why))
			break;
	}
	if (status == WEIR_E_MOVED && s->begun)
		return weir_fail(
		    err, status,
		    "scan of table %s: the server of partition %u was started again meanwhile, or another one has it now: scan "
		    "it again",
		    s->table->spec.name, s->partition);
	s->begun = status == WEIR_OK;
	return status == WEIR_OK ? WEIR_OK : weir_fail(err, status, "%s", why.text);
}

static void begin_partition(weir_scanner *s, uint32_t partition)
{
	s->partition = partition;
	s->begun = s->below = false;
	s->seen_count = 0;
	s->next.partition = partition;
	s->next.cursor = s->next.process_id = 0;
	s->next.below = false;
}

/* Takes the next page, of this partition or of the next one. */
static weir_status turn_page(weir_scanner *s, weir_error *err)
{
	if (s->begun && !s->next.cursor && !s->next.below)
		begin_partition(s, s->partition + 1);
	s->rows = s->values_used = s->told = s->told_values = 0;
	if (s->partition == s->client->partitions)
		return WEIR_OK;
	if (s->next.below)
		go_below(s);
	return find_page(s, err);
}

/* --- Opening and closing */

static weir_status open_scanner(weir_scanner *s, weir_client *c, uint32_t table, bool slots, weir_error *err)
{
	pthread_mutex_lock(&c->lock);
	const struct table *t = client_table(c, table, err);
	pthread_mutex_unlock(&c->lock);
	if (!t)
		return WEIR_E_NOT_FOUND;
	*s = (weir_scanner){.client = c, .table = t, .floats = 1 + (slots ? optimizer_slots(t->spec.optimizer.kind) : 0)};
	const size_t row_bytes =
	    (t->spec.kind == WEIR_EMBEDDING ? t->spec.width : WEIR_CHUNK) * s->floats * sizeof(float) + sizeof(uint64_t);
	weir__v1__scan_request__init(&s->next);
	client_fill_job(c, &s->job);
	s->next.job = &s->job;
	s->next.table = t->id;
	s->next.slots = slots;
	s->next.rows_max = row_bytes < WEIR_MESSAGE_BYTES_TARGET ? (uint32_t)(WEIR_MESSAGE_BYTES_TARGET / row_bytes) : 1;
	begin_partition(s, 0);
	return WEIR_OK;
}

static void close_scanner(weir_scanner *s)
{
	free(s->seen);
	free(s->keys);
	free(s->values);
}

/* Reads the table's clock in each partition from the partition's first page: clocks (partitions),
 * or NULL. *latest: the latest of them. */
static weir_status read_clocks(weir_client *c, uint32_t table, weir_table_clock *clocks, weir_table_clock *latest,
                               weir_error *err)
{
	weir_scanner s = {0};
	weir_status status = open_scanner(&s, c, table, false, err);
	*latest = (weir_table_clock){0};
	s.next.rows_max = 1;
	for (uint32_t p = 0; p < c->partitions && status == WEIR_OK; p++) {
		begin_partition(&s, p);
		status = find_page(&s, err);
		*latest = s.clock.steps > latest->steps ? s.clock : *latest;
		if (clocks)
			clocks[p] = s.clock;
	}
	close_scanner(&s);
	return status;
}

/* Rows of a table with full decay are brought to its latest push, in whichever partition. */
weir_status weir_scan_open(weir_scanner **out, weir_client *c, uint32_t table, int slots, weir_error *err)
{
	weir_scanner *s = malloc(sizeof *s);
	if (!s)
		return weir_fail(err, WEIR_E_MEMORY, "scan: out of memory");
	weir_status status = open_scanner(s, c, table, slots != 0, err);
	if (status == WEIR_OK && s->table->spec.kind == WEIR_EMBEDDING && s->table->spec.optimizer.decay == WEIR_DECAY_FULL)
		status = read_clocks(c, table, NULL, &s->least, err);
	if (status != WEIR_OK) {
		free(s);
		return status;
	}
	s->next.clock_steps = s->least.steps;
	s->next.clock_rate = s->least.lr;
	*out = s;
	return WEIR_OK;
}

void weir_scan_close(weir_scanner *s)
{
	if (!s)
		return;
	close_scanner(s);
	free(s);
}

/* --- Reading */

weir_status weir_scan_next(weir_scanner *s, weir_scan_rows *rows, weir_error *err)
{
	weir_status status = api_struct_check(API_weir_scan_rows, rows, err);
	if (status != WEIR_OK)
		return status;
	while (!s->failure.status && s->told == s->rows && s->partition < s->client->partitions)
		(void)turn_page(s, &s->failure);
	if (s->failure.status)
		return weir_fail(err, s->failure.status, "%s", s->failure.text);
	weir_scan_rows found = {0};
	if (s->told < s->rows) {
		const bool dense = s->table->spec.kind == WEIR_DENSE;
		found.keys = s->keys + s->told;
		found.values = s->values + s->told_values;
		found.rows = dense ? 1 : s->rows - s->told;
		found.elements = row_elements(s, found.keys[0]) * s->floats;
		s->told += found.rows;
		s->told_values += found.rows * found.elements;
	}
	api_struct_write(API_weir_scan_rows, rows, &found);
	return WEIR_OK;
}

weir_status weir_scan(weir_client *c, uint32_t table, int slots,
                      int (*row)(void *arg, uint64_t key, const float *values, size_t elements), void *arg, weir_error *err)
{
	weir_scanner *s = NULL;
	weir_scan_rows rows = {0};
	weir_status status = weir_scan_open(&s, c, table, slots, err);
	bool stopped = status != WEIR_OK;
	while (!stopped && (status = weir_scan_next(s, &rows, err)) == WEIR_OK && rows.rows)
		for (size_t i = 0; i < rows.rows && !stopped; i++)
			stopped = row(arg, rows.keys[i], rows.values + i * rows.elements, rows.elements) != 0;
	weir_scan_close(s);
	return status;
}

weir_status weir_clocks(weir_client *c, uint32_t table, weir_table_clock *clocks, weir_error *err)
{
	weir_table_clock latest;
	return read_clocks(c, table, clocks, &latest, err);
}
