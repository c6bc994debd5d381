/* Watches over etcd. Each has one stream, which is reopened at the current endpoint from the first
 * revision that has not been reported.
 *
 * The request starts one revision earlier, and reported changes are dropped. Reason: an etcd
 * without the fix of its issue 18089 (such as 3.4.23), asked for exactly the compacted revision,
 * silently skips a deletion in it. etcd never splits one revision between two answers. */
#include "proto/coord/coord_etcd_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/wire/wire.h"

struct etcd_watch {
	struct coord_watch base;
	struct rpc_link link; /* in etcd->watches until stopped */
	char name[WEIR_COORD_KEY_BYTES_MAX];
	uint64_t next; /* the first unreported revision */
	struct coord_watch_handler handler;
	void *arg;
	struct rpc_stream *stream; /* the current one, or NULL */
	uint32_t streams;          /* unclosed streams, current or not: they point here */
	bool stopped, missed;
};

static struct etcd *etcd_of(const struct etcd_watch *w)
{
	return (struct etcd *)w->base.coord;
}

static void stream_drop(struct etcd_watch *w)
{
	struct rpc_stream *s = w->stream;
	w->stream = NULL;
	if (s)
		rpc_stream_cancel(s, WEIR_E_CANCELLED, "the watch has ended");
}

static void watch_missed(struct etcd_watch *w)
{
	stream_drop(w);
	w->missed = true;
	w->handler.missed(w->arg);
}

static void tell(struct etcd_watch *w, const Etcdserverpb__WatchResponse *reply)
{
	struct coord_record *records = malloc(reply->n_events * sizeof *records);
	uint32_t count = 0;
	if (!records) {
		etcd_leave(etcd_of(w), "out of memory for the events of a watch");
		return;
	}
	for (size_t i = 0; i < reply->n_events; i++) {
		if (!reply->events[i]->kv)
			continue;
		struct coord_record r = etcd_record(reply->events[i]->kv);
		if (reply->events[i]->type == ETCDSERVERPB__EVENT__EVENT_TYPE__DELETE)
			r.value = NULL;
		if (r.mod_revision >= w->next)
			records[count++] = r;
	}
	if (count) {
		w->next = records[count - 1].mod_revision + 1;
		w->handler.changed(w->arg, records, count);
	}
	free(records);
}

static void stream_message(void *arg, struct rpc_stream *stream, struct message *m)
{
	struct etcd_watch *w = arg;
	ProtobufCMessage *unpacked;
	weir_error err = {0};
	if (stream != w->stream)
		return;
	weir_status status = wire_unpack(&etcdserverpb__watch_response__descriptor, m, &unpacked, &err);
	const Etcdserverpb__WatchResponse *reply = (Etcdserverpb__WatchResponse *)unpacked;
	if (status == WEIR_E_LIMIT || (!status && reply->canceled && reply->compact_revision))
		watch_missed(w);
	else if (status || reply->canceled)
		etcd_leave(etcd_of(w), status ? err.text : reply->cancel_reason);
	else if (reply->n_events)
		tell(w, reply);
	wire_destroy(unpacked);
}

static void stream_closed(void *arg, struct rpc_stream *stream, weir_status status, const char *text)
{
	struct etcd_watch *w = arg;
	if (stream == w->stream) {
		w->stream = NULL;
		if (status == WEIR_E_LIMIT)
			watch_missed(w);
		else
			etcd_leave(etcd_of(w), text);
	}
	if (--w->streams == 0 && w->stopped)
		free(w);
}

/* False: out of memory. */
static bool watch_open(struct etcd_watch *w)
{
	static const struct rpc_stream_handler handler = {.message = stream_message, .closed = stream_closed};
	char end[WEIR_COORD_KEY_BYTES_MAX];
	Etcdserverpb__WatchCreateRequest create = ETCDSERVERPB__WATCH_CREATE_REQUEST__INIT;
	Etcdserverpb__WatchRequest request = ETCDSERVERPB__WATCH_REQUEST__INIT;
	etcd_range_end(w->name, end);
	create.key = w->name;
	create.range_end = end;
	/* Any number is possible: a faulty etcd may have sent it. */
	create.start_revision = (int64_t)(w->next - 1);
	request.request_union_case = ETCDSERVERPB__WATCH_REQUEST__REQUEST_UNION_CREATE_REQUEST;
	request.create_request = &create;
	struct message *m = wire_pack(&request.base);
	weir_error err = {0};
	if (!m || rpc_stream_open(&w->stream, etcd_channel(etcd_of(w)), RPC_ETCD_WATCH, &handler, w, &err)) {
		message_release(m);
		return false;
	}
	w->streams++;
	if (rpc_stream_send(w->stream, m) == WEIR_OK)
		return true;
	stream_drop(w);
	return false;
}

void etcd_watch_stop(struct coord_watch *base)
{
	struct etcd_watch *w = (struct etcd_watch *)base;
	rpc_link_remove(&w->link);
	w->stopped = true;
	stream_drop(w);
	if (!w->streams)
		free(w);
}

struct coord_watch *etcd_watch_start(struct coord *c, const char *name, uint64_t revision,
                                     const struct coord_watch_handler *handler, void *arg)
{
	struct etcd *e = (struct etcd *)c;
	struct etcd_watch *w = calloc(1, sizeof *w);
	if (!w)
		return NULL;
	w->base.coord = c;
	snprintf(w->name, sizeof w->name, "%s", name);
	w->next = revision;
	w->handler = *handler;
	w->arg = arg;
	rpc_link_add(&e->watches, &w->link);
	if (!e->connected || watch_open(w))
		return &w->base;
	etcd_watch_stop(&w->base);
	return NULL;
}

static struct etcd_watch *watch_at(struct rpc_link *link)
{
	return (struct etcd_watch *)(void *)((char *)link - offsetof(struct etcd_watch, link));
}

void etcd_watches_begin(struct etcd *e)
{
	for (struct rpc_link *l = e->watches.next; l != &e->watches; l = l->next) {
		struct etcd_watch *w = watch_at(l);
		if (!w->missed && !w->stream && !watch_open(w)) {
			etcd_leave(e, "out of memory for a watch");
			return;
		}
	}
}

void etcd_watches_cut(struct etcd *e)
{
	for (struct rpc_link *l = e->watches.next; l != &e->watches; l = l->next)
		stream_drop(watch_at(l));
}

void etcd_watches_destroy(struct etcd *e)
{
	while (!rpc_link_empty(&e->watches)) {
		struct etcd_watch *w = watch_at(e->watches.next);
		rpc_link_remove(&w->link);
		free(w);
	}
}
