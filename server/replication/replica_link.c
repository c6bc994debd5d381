#include "server/replication/replica_link.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "proto/wire/wire.h"
#include "server/log/journal.h"
#include "server/replication/replica_wire.h"

#define NOBODY UINT32_MAX /* end of a list of slots */

/* A slot is a partition's place in an array: its id; the ledger's is the last. A list has each slot
 * at most once. */
struct slot_list {
	uint32_t first, last;
};

/* The pending work of a link for a partition. */
struct share {
	bool acknowledges, ships; /* whether the share is in that list */
	uint32_t next_acknowledges, next_ships;
	struct replica_message ack;
};

/* The messages that the entries of a frame point into. */
struct lent {
	uint32_t count, capacity;
	struct message *messages[];
};

struct link {
	struct replica_links *links;
	uint16_t to;
	struct rpc_channel *channel; /* NULL: not needed so far */
	struct rpc_stream *stream;   /* NULL: not connected */
	bool connected;              /* the stream is established */
	bool ready;                  /* the stream has taken the last frame */
	bool awaited;                /* a caller waits for room */
	uint32_t pause, wait;        /* in ticks: between attempts; until the next one */
	struct record_writer *writer;
	struct lent *lent;    /* of the frame in the writer; NULL: none */
	struct share *shares; /* (slots) */
	struct slot_list acknowledging, shipping;
	struct replica_links_stats stats;
};

struct replica_links {
	struct replica_links_options options;
	uint32_t slots;
	struct replica_source *sources; /* (slots) replica NULL: no source */
	struct link *peers;             /* (options.servers) shares NULL: never used */
	struct rpc_channel **retired;   /* (retired_count) channels to former addresses */
	uint32_t retired_count;
	bool flushing; /* a flush is posted */
	bool closing;
	pthread_mutex_t lock; /* guards stopped */
	pthread_cond_t changed;
	bool stopped;
};

static uint32_t slot_of(const struct replica_links *l, uint16_t partition)
{
	assert(partition < l->options.partitions || partition == JOURNAL_LEDGER);
	return partition == JOURNAL_LEDGER ? l->options.partitions : partition;
}

static uint16_t partition_of(const struct replica_links *l, uint32_t slot)
{
	return slot == l->options.partitions ? JOURNAL_LEDGER : (uint16_t)slot;
}

/* --- The two lists */

static void ship_later(struct link *k, uint32_t slot)
{
	struct share *s = &k->shares[slot];
	if (s->ships)
		return;
	s->ships = true;
	s->next_ships = NOBODY;
	*(k->shipping.first == NOBODY ? &k->shipping.first : &k->shares[k->shipping.last].next_ships) = slot;
	k->shipping.last = slot;
}

static uint32_t ship_next(struct link *k)
{
	const uint32_t slot = k->shipping.first;
	k->shipping.first = k->shares[slot].next_ships;
	k->shares[slot].ships = false;
	return slot;
}

/* A gap that the primary does not know of yet stays one until the log has grown. */
static void acknowledge_later(struct link *k, uint32_t slot, const struct replica_message *m)
{
	struct share *s = &k->shares[slot];
	const bool gap = s->acknowledges && s->ack.gap && s->ack.epoch == m->epoch && s->ack.last == m->last;
	s->ack = *m;
	s->ack.gap |= gap;
	if (s->acknowledges)
		return;
	s->acknowledges = true;
	s->next_acknowledges = NOBODY;
	*(k->acknowledging.first == NOBODY ? &k->acknowledging.first : &k->shares[k->acknowledging.last].next_acknowledges) = slot;
	k->acknowledging.last = slot;
}

static uint32_t acknowledge_next(struct link *k)
{
	const uint32_t slot = k->acknowledging.first;
	k->acknowledging.first = k->shares[slot].next_acknowledges;
	k->shares[slot].acknowledges = false;
	return slot;
}

/* --- A frame under construction */

static void lent_destroy(struct lent *lent)
{
	for (uint32_t i = 0; lent && i < lent->count; i++)
		message_release(lent->messages[i]);
	free(lent);
}

static void lent_release(struct message *frame)
{
	lent_destroy(frame->owner);
}

/* Keeps a reference to an entry's message as long as the frame exists. */
static bool lend(struct link *k, struct message *m)
{
	struct lent *lent = k->lent;
	/* m NULL: the entry has no bytes. Same m: entries that came together */
	if (!m || (lent && lent->count && lent->messages[lent->count - 1] == m))
		return true;
	if (!lent || lent->count == lent->capacity) {
		const uint32_t capacity = lent ? lent->capacity * 2 : 16;
		lent = realloc(lent, sizeof *lent + capacity * sizeof *lent->messages);
		if (!lent)
			return false;
		lent->count = k->lent ? lent->count : 0;
		lent->capacity = capacity;
		k->lent = lent;
	}
	lent->messages[lent->count++] = message_retain(m);
	return true;
}

/* Returns the frame and empties the writer. NULL: out of memory. */
static struct message *take_frame(struct link *k)
{
	const struct replica_links_options *o = &k->links->options;
	struct lent *lent = k->lent;
	k->lent = NULL;
	struct message *frame = record_writer_finish(k->writer, o->uuid, o->generation, lent_release, lent);
	if (!frame)
		lent_destroy(lent);
	return frame ? wire_wrap_frame(frame) : NULL;
}

static void transmit(struct link *k)
{
	struct message *m = take_frame(k);
	if (!m)
		return; /* lost, as any message may be */
	k->stats.frames++;
	k->stats.bytes += m->bytes;
	k->ready = false;
	(void)rpc_stream_send(k->stream, m); /* E_CLOSED: on_closed follows */
}

/* --- Contents of a frame */

static bool is_full(const struct link *k)
{
	return record_writer_bytes(k->writer) >= WEIR_MESSAGE_BYTES_TARGET;
}

/* Acknowledgements come behind the entries. Even a frame with just the largest entry has room for
 * one, so neither waits for ever. */
static void write_acks(struct link *k)
{
	while (k->acknowledging.first != NOBODY && record_writer_records(k->writer) < WEIR_FRAME_RECORDS_MAX &&
	       record_writer_bytes(k->writer) + RECORD_HEADER_BYTES <= FRAME_BYTES_MAX) {
		const uint32_t slot = acknowledge_next(k);
		(void)replica_wire_put(k->writer, partition_of(k->links, slot), &k->shares[slot].ack);
	}
}

/* headers: bytes that must precede the entry. */
static bool fits(const struct link *k, size_t headers, const struct log_entry *e)
{
	return e && !is_full(k) && record_writer_bytes(k->writer) + headers + replica_wire_bytes(e) <= FRAME_BYTES_MAX;
}

/* Writes an APPEND with as many of the peer's entries as fit. Returns whether there may be more. */
static bool write_append(struct link *k, uint32_t slot)
{
	struct replica_links *l = k->links;
	const struct replica_source *source = &l->sources[slot];
	struct replica_batch b;
	if (!source->replica || !replica_batch(source->replica, k->to, &b))
		return false;
	const uint16_t partition = partition_of(l, slot);
	uint64_t next = b.first;
	const struct log_entry *e = next <= b.last ? source->entry(source->arg, next) : NULL;
	if (next <= b.last && !fits(k, FRAME_HEADER_BYTES + RECORD_HEADER_BYTES, e))
		return e != NULL;
	replica_wire_begin(k->writer, partition,
	                   &(struct replica_message){.kind = REPLICA_APPEND,
	                                             .from = l->options.self,
	                                             .to = k->to,
	                                             .epoch = b.epoch,
	                                             .incarnation = b.incarnation,
	                                             .first = b.first,
	                                             .commit = b.commit});
	while (next <= b.last && next - b.first < WEIR_RECORD_SECTIONS_MAX && fits(k, 0, e) && lend(k, e->message) &&
	       replica_wire_add(k->writer, partition, e) == WEIR_OK) {
		next++;
		e = next <= b.last ? source->entry(source->arg, next) : NULL;
	}
	if (record_writer_end(k->writer))
		return true;
	k->stats.entries += next - b.first;
	source->shipped(source->arg, k->to, next - 1, b.commit);
	return next <= b.last && e;
}

static void write_entries(struct link *k)
{
	for (uint32_t tried = 0, left = k->links->slots; tried < left && k->shipping.first != NOBODY && !is_full(k); tried++) {
		const uint32_t slot = ship_next(k);
		if (write_append(k, slot))
			ship_later(k, slot);
	}
}

static void link_flush(struct link *k)
{
	if (!k->ready)
		return;
	write_entries(k);
	write_acks(k);
	if (record_writer_records(k->writer))
		transmit(k);
}

static void flush_all(void *arg)
{
	struct replica_links *l = arg;
	l->flushing = false;
	for (uint32_t i = 0; i < l->options.servers; i++)
		if (l->peers[i].shares)
			link_flush(&l->peers[i]);
}

static void flush_later(struct replica_links *l)
{
	if (l->flushing || l->closing)
		return;
	l->flushing = true;
	rpc_loop_post(l->options.loop, flush_all, l);
}

/* --- The stream */

/* A frame that was taken shows that the server takes frames. */
static void note_writable(struct link *k)
{
	if (!k->connected) {
		k->connected = true;
		k->stats.connects++;
	} else if (k->pause) {
		k->pause = 0;
		LOG_AT(k->links->options.logger, LOG_INFO, "link is back", "server=%u", k->to);
	}
	k->ready = true;
}

static void on_writable(void *arg, struct rpc_stream *stream)
{
	struct link *k = arg;
	(void)stream;
	note_writable(k);
	link_flush(k);
	if (k->ready && k->awaited) {
		k->awaited = false;
		if (k->links->options.room)
			k->links->options.room(k->links->options.arg, k->to);
	}
}

static void on_message(void *arg, struct rpc_stream *stream, struct message *m)
{
	(void)arg, (void)m;
	rpc_stream_cancel(stream, WEIR_E_INVALID, "a link carries nothing back");
}

/* Logs the failure once, until the link is back. Pauses double while the server is unavailable;
 * after any other failure the pause is the longest one. */
static void note_failure(struct link *k, weir_status status, const char *text)
{
	const uint32_t doubled = k->pause ? 2 * k->pause : 1;
	if (k->pause == 0 && !k->links->closing)
		LOG_AT(k->links->options.logger, LOG_WARN, "no link", "server=%u status=%s reason=\"%s\"", k->to,
		       weir_status_name(status), text);
	k->pause =
	    status == WEIR_E_UNAVAILABLE && doubled < WEIR_REPLICA_BACKOFF_MAX_TICKS ? doubled : WEIR_REPLICA_BACKOFF_MAX_TICKS;
	k->wait = k->pause;
}

static void on_closed(void *arg, struct rpc_stream *stream, weir_status status, const char *text)
{
	struct link *k = arg;
	(void)stream;
	k->stream = NULL;
	k->connected = k->ready = false;
	note_failure(k, status, text);
	if (record_writer_records(k->writer))
		message_release(take_frame(k));
}

/* Opens a channel to the server's current address. */
static weir_status link_connect(struct link *k, weir_error *err)
{
	struct replica_links *l = k->links;
	char address[WEIR_ADDRESS_BYTES_MAX];
	if (!l->options.address(l->options.arg, k->to, address))
		return weir_fail(err, WEIR_E_UNAVAILABLE, "its address is not known yet");
	if (k->channel && strcmp(rpc_channel_address(k->channel), address) == 0)
		return WEIR_OK;
	if (k->channel) {
		struct rpc_channel **retired = realloc(l->retired, (l->retired_count + 1) * sizeof(struct rpc_channel *));
		if (!retired)
			return weir_fail(err, WEIR_E_MEMORY, "out of memory");
		l->retired = retired;
		l->retired[l->retired_count++] = k->channel;
		k->channel = NULL;
	}
	return rpc_channel_open(&k->channel, l->options.rpc, l->options.loop, address, err);
}

/* The server may run at a new address while its former process hangs, whose full sockets never
 * close. */
static void leave_former_address(struct link *k)
{
	char address[WEIR_ADDRESS_BYTES_MAX];
	const struct replica_links_options *o = &k->links->options;
	if (k->stream && o->address(o->arg, k->to, address) && strcmp(rpc_channel_address(k->channel), address) != 0)
		rpc_stream_cancel(k->stream, WEIR_E_UNAVAILABLE, "the server is at another address now");
}

static void link_open(struct link *k)
{
	static const struct rpc_stream_handler handler = {.message = on_message, .writable = on_writable, .closed = on_closed};
	weir_error err = {0};
	if (k->links->closing || k->stream || k->wait)
		return;
	weir_status status = link_connect(k, &err);
	if (!status)
		status = rpc_stream_open(&k->stream, k->channel, RPC_LINK, &handler, k, &err);
	if (status)
		note_failure(k, status, err.text);
}

/* --- Life */

/* The link to a server, created when first needed. NULL: out of memory. */
static struct link *link_to(struct replica_links *l, uint16_t to)
{
	assert(to < l->options.servers && to != l->options.self);
	struct link *k = &l->peers[to];
	if (k->shares)
		return k;
	struct share *shares = calloc(l->slots, sizeof *shares);
	struct record_writer *writer = record_writer_create();
	if (!shares || !writer) {
		free(shares);
		record_writer_destroy(writer);
		return NULL;
	}
	*k = (struct link){.links = l,
	                   .to = to,
	                   .writer = writer,
	                   .shares = shares,
	                   .acknowledging = {NOBODY, NOBODY},
	                   .shipping = {NOBODY, NOBODY}};
	return k;
}

static void links_destroy(struct replica_links *l)
{
	for (uint32_t i = 0; l->peers && i < l->options.servers; i++) {
		record_writer_destroy(l->peers[i].writer);
		lent_destroy(l->peers[i].lent);
		free(l->peers[i].shares);
	}
	pthread_mutex_destroy(&l->lock);
	pthread_cond_destroy(&l->changed);
	free(l->peers);
	free(l->sources);
	free(l->retired);
	free(l);
}

weir_status replica_links_create(struct replica_links **out, const struct replica_links_options *options, weir_error *err)
{
	struct replica_links *l = calloc(1, sizeof *l);
	*out = NULL;
	if (!l)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory for the links of server %u", options->self);
	l->options = *options;
	l->slots = options->partitions + 1;
	l->sources = calloc(l->slots, sizeof *l->sources);
	l->peers = calloc(options->servers, sizeof *l->peers);
	pthread_mutex_init(&l->lock, NULL);
	pthread_cond_init(&l->changed, NULL);
	if (!l->sources || !l->peers) {
		links_destroy(l);
		return weir_fail(err, WEIR_E_MEMORY, "out of memory for the links of server %u", options->self);
	}
	*out = l;
	return WEIR_OK;
}

static void tell_stopped(void *arg)
{
	struct replica_links *l = arg;
	pthread_mutex_lock(&l->lock);
	l->stopped = true;
	pthread_cond_signal(&l->changed);
	pthread_mutex_unlock(&l->lock);
}

/* From now on no stream is opened and no flush posted. A flush that is posted already runs before
 * tell_stopped. */
static void stop_on_loop(void *arg)
{
	struct replica_links *l = arg;
	l->closing = true;
	rpc_loop_post(l->options.loop, tell_stopped, l);
}

void replica_links_destroy(struct replica_links *l)
{
	if (!l)
		return;
	assert(!rpc_loop_is_current(l->options.loop));
	rpc_loop_post(l->options.loop, stop_on_loop, l);
	pthread_mutex_lock(&l->lock);
	while (!l->stopped)
		pthread_cond_wait(&l->changed, &l->lock);
	pthread_mutex_unlock(&l->lock);
	for (uint32_t i = 0; i < l->options.servers; i++)
		rpc_channel_close(l->peers[i].channel);
	for (uint32_t i = 0; i < l->retired_count; i++)
		rpc_channel_close(l->retired[i]);
	links_destroy(l);
}

void replica_links_tick(struct replica_links *l)
{
	for (uint32_t i = 0; i < l->options.servers; i++) {
		struct link *k = &l->peers[i];
		if (!k->shares)
			continue;
		leave_former_address(k);
		k->wait -= k->wait > 0;
		if (k->acknowledging.first != NOBODY || k->shipping.first != NOBODY)
			link_open(k);
	}
}

/* --- Sending */

void replica_links_send(struct replica_links *l, uint16_t partition, const struct replica_message *m)
{
	struct link *k = link_to(l, m->to);
	if (!k)
		return;
	link_open(k);
	if (m->kind == REPLICA_ACK)
		acknowledge_later(k, slot_of(l, partition), m);
	else if (k->stream && !is_full(k))
		(void)replica_wire_put(k->writer, partition, m); /* else it is lost */
	flush_later(l);
}

void replica_links_ship(struct replica_links *l, uint16_t partition, const struct replica_source *source)
{
	uint16_t peers[WEIR_REPLICAS_MAX];
	const uint32_t slot = slot_of(l, partition), count = replica_peers(source->replica, peers);
	l->sources[slot] = *source;
	for (uint32_t i = 0; i < count; i++) {
		struct link *k = link_to(l, peers[i]);
		if (!k)
			continue;
		link_open(k);
		ship_later(k, slot);
	}
	flush_later(l);
}

void replica_links_forget(struct replica_links *l, uint16_t partition)
{
	l->sources[slot_of(l, partition)] = (struct replica_source){0};
}

bool replica_links_has_room(struct replica_links *l, uint16_t server)
{
	struct link *k = &l->peers[server];
	const bool has = !k->shares || k->ready;
	k->awaited |= !has;
	return has;
}

struct replica_links_stats replica_links_get_stats(const struct replica_links *l, uint16_t server)
{
	return l->peers[server].stats;
}
