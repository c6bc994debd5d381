/* Compares the reported placement with the previous one. */
#include "cli/run/replicas.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_BYTES = 1024, PARTITIONS_NAMED = 8 };

void replicas_init(struct replicas *r, uint32_t wanted)
{
	*r = (struct replicas){.wanted = wanted, .lost = WEIR_SERVER_NONE};
}

void replicas_destroy(struct replicas *r)
{
	free(r->known);
	r->known = NULL;
	r->partitions_count = 0;
}

void replicas_lost(struct replicas *r, uint32_t server, int64_t now_ms)
{
	r->lost = server;
	r->lost_ms = now_ms;
	r->degraded = true;
}

static bool has_moved(const struct replicas *r, const struct overview *now, uint32_t p)
{
	const struct overview_partition *at = &now->partitions[p];
	return at->reported && r->known[p].epoch > 0 && at->epoch > r->known[p].epoch && at->primary != r->known[p].primary;
}

struct line {
	char text[LINE_BYTES];
	size_t used;
};

static void say(struct line *l, const char *format, uint32_t number)
{
	if (l->used < sizeof l->text)
		l->used += (size_t)snprintf(l->text + l->used, sizeof l->text - l->used, format, number);
}

/* Lists the partitions that moved from `from` to `to`, the first few by number. Returns their
 * count. */
static uint32_t describe(const struct replicas *r, const struct overview *now, uint32_t from, uint32_t to, struct line *l)
{
	uint32_t count = 0;
	for (uint32_t p = 0; p < now->partitions_count; p++) {
		if (r->known[p].primary != from || now->partitions[p].primary != to || !has_moved(r, now, p))
			continue;
		if (count++ == 0)
			say(l, l->used ? "; server %u with" : "server %u goes on with", to);
		if (count <= PARTITIONS_NAMED)
			say(l, count == 1 ? " %u" : ", %u", p);
	}
	if (count > PARTITIONS_NAMED)
		say(l, " and %u more", count - PARTITIONS_NAMED);
	return count;
}

/* Prints "server 0 goes on with 2, 5; server 1 with 8, of the partitions that server 2 had (within
 * 0.8 s)". */
static void tell_moves(struct replicas *r, struct progress_line *l, const struct overview *now, int64_t now_ms)
{
	for (uint32_t from = 0; from < now->servers_count; from++) {
		struct line line = {.used = 0};
		char within[32] = "";
		uint32_t count = 0;
		for (uint32_t to = 0; to < now->servers_count; to++)
			count += describe(r, now, from, to, &line);
		if (count == 0)
			continue;
		if (from == r->lost)
			snprintf(within, sizeof within, " (within %.1f s)", (double)(now_ms - r->lost_ms) / 1e3);
		progress_line_note(l, "%s, of the partitions that server %u had%s", line.text, from, within);
		r->moved += count;
		r->degraded = true;
	}
}

static void tell_ledger(struct replicas *r, struct progress_line *l, const struct overview *now, int64_t now_ms)
{
	const struct overview_place *at = &now->ledger;
	char within[32] = "";
	if (at->epoch <= r->ledger.epoch)
		return;
	if (r->ledger.epoch > 0 && at->server != r->ledger.primary) {
		if (r->ledger.primary == r->lost)
			snprintf(within, sizeof within, " (within %.1f s)", (double)(now_ms - r->lost_ms) / 1e3);
		progress_line_note(l, "server %u goes on with the ledger, which server %u had%s", at->server, r->ledger.primary, within);
		r->degraded = true;
	}
	r->ledger = (struct replicas_place){.primary = at->server, .epoch = at->epoch};
}

/* Tells whether enough copies are in sync and their servers answer: a server that has just died may
 * still count as in sync. */
static bool has_copies(const struct replicas *r, const struct overview *now, const uint32_t *in_sync, uint32_t count)
{
	uint32_t there = 0;
	for (uint32_t i = 0; i < count; i++)
		there += in_sync[i] < now->servers_count && now->servers[in_sync[i]].answered;
	return there >= r->wanted;
}

/* Tells whether all copies exist. Servers without a copy do not matter: an added server may be gone
 * again. */
static bool is_whole(const struct replicas *r, const struct overview *now)
{
	bool whole = has_copies(r, now, now->ledger.in_sync, now->ledger.in_sync_count);
	for (uint32_t p = 0; p < now->partitions_count && whole; p++) {
		const struct overview_partition *at = &now->partitions[p];
		whole = at->reported && has_copies(r, now, at->in_sync, at->in_sync_count);
	}
	return whole;
}

static void remember(struct replicas *r, const struct overview *now)
{
	for (uint32_t p = 0; p < now->partitions_count; p++)
		if (now->partitions[p].reported && now->partitions[p].epoch >= r->known[p].epoch)
			r->known[p] = (struct replicas_place){.primary = now->partitions[p].primary, .epoch = now->partitions[p].epoch};
}

void replicas_look(struct replicas *r, struct progress_line *l, const struct overview *now, int64_t now_ms)
{
	if (r->wanted == 1 || now->partitions_count == 0)
		return;
	if (!r->known && (r->known = calloc(now->partitions_count, sizeof *r->known)))
		r->partitions_count = now->partitions_count;
	if (r->partitions_count != now->partitions_count) /* out of memory: report nothing */
		return;
	tell_ledger(r, l, now, now_ms);
	tell_moves(r, l, now, now_ms);
	remember(r, now);
	if (!r->degraded || !is_whole(r, now))
		return;
	progress_line_note(l, "all %u partitions, and the ledger, have %u replicas in sync again", now->partitions_count, r->wanted);
	r->degraded = false;
	r->lost = WEIR_SERVER_NONE;
}
