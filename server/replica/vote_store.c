#include "server/replica/vote_store.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/crc32c.h"
#include "common/base/limits.h"
#include "common/base/little_endian.h"
#include "server/log/journal.h"

#define MAGIC          "weirprom"
#define ID_BYTES       16u
#define CRC_AT         60u
#define REMEDY         "put back the file, or remove it, and they count again once they have been compared with those of other servers"
#define FILE_BYTES_MAX (VOTES_HEADER_BYTES + (WEIR_PARTITIONS_MAX + 1) * VOTES_SLOT_BYTES)

struct vote_store {
	struct vote_store_options options;
	uint32_t slots;
	uint64_t incarnation;
	struct vote *found; /* (slots) as vote_store_open found them */
	pthread_t thread;   /* unless options.stepped */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct vote_write *first, **last; /* guarded by lock */
	bool stopping;                    /* guarded by lock */
	bool stopped;                     /* used only by the caller of vote_store_stop */
	pthread_mutex_t writing;          /* guards the fields below */
	/* (slots) kept: on disk; next: what the write under way puts there */
	struct vote *kept, *next;
	uint8_t *bytes;     /* of the file */
	bool distrusted;    /* vote_store_distrust_log was called */
	weir_status failed; /* final */
	weir_error err;
	char path[];
};

static size_t file_bytes(uint32_t slots)
{
	return VOTES_HEADER_BYTES + (size_t)slots * VOTES_SLOT_BYTES;
}

static uint32_t slot_of(const struct vote_store *p, uint16_t partition)
{
	assert(partition == JOURNAL_LEDGER || partition < p->options.partitions);
	return partition == JOURNAL_LEDGER ? p->options.partitions : partition;
}

/* --- The file */

static void encode(struct vote_store *p, const struct vote *slots, bool clean)
{
	uint8_t *out = p->bytes, *slot = out + VOTES_HEADER_BYTES;
	memset(out, 0, file_bytes(p->slots));
	memcpy(out, MAGIC, sizeof MAGIC - 1);
	put32(out + 8, VOTES_VERSION);
	put32(out + 12, p->slots);
	memcpy(out + 16, p->options.id, ID_BYTES);
	if (!p->distrusted)
		memcpy(out + 32, p->options.machine_boot, ID_BYTES);
	put64(out + 48, p->incarnation);
	out[56] = clean;
	out[57] = (uint8_t)p->options.log;
	for (uint32_t i = 0; i < p->slots; i++, slot += VOTES_SLOT_BYTES) {
		put64(slot, slots[i].promised);
		put32(slot + 8, slots[i].whole);
	}
	put32(out + CRC_AT, crc32c(0, out, file_bytes(p->slots)));
}

static weir_status write_file(struct vote_store *p, const struct vote *slots, bool clean, weir_error *err)
{
	encode(p, slots, clean);
	return disk_rewrite_file(p->options.disk, p->path, p->bytes, file_bytes(p->slots), err);
}

/* What the file says of the start that wrote it. */
struct start {
	uint64_t incarnation;
	uint8_t machine_boot[ID_BYTES];
	bool clean;
	enum vote_log log;
};

static weir_status damaged(const struct vote_store *p, const char *what, weir_error *err)
{
	return weir_fail(err, WEIR_E_CORRUPT, "%s: damaged, %s. What this server's replicas have promised is not known: " REMEDY,
	                 p->path, what);
}

/* Whether the bytes are an intact file of this kind, of any version. */
static bool is_intact(uint8_t *bytes, size_t n)
{
	if (n < VOTES_HEADER_BYTES || memcmp(bytes, MAGIC, sizeof MAGIC - 1) != 0)
		return false;
	const uint32_t crc = get32(bytes + CRC_AT);
	put32(bytes + CRC_AT, 0);
	return crc == crc32c(0, bytes, n);
}

static weir_status decode(struct vote_store *p, uint8_t *bytes, size_t n, struct start *start, weir_error *err)
{
	if (!is_intact(bytes, n))
		return damaged(p, "its checksum is another", err);
	if (get32(bytes + 8) != VOTES_VERSION)
		return weir_fail(err, WEIR_E_VERSION, "%s: version %u, this program reads %u", p->path, get32(bytes + 8), VOTES_VERSION);
	if (memcmp(bytes + 16, p->options.id, ID_BYTES) != 0)
		return weir_fail(
		    err, WEIR_E_STATE,
		    "%s is of another job, generation or server, and this one's replicas have promised what it does not say: " REMEDY,
		    p->path);
	if (get32(bytes + 12) != p->slots)
		return weir_fail(err, WEIR_E_STATE, "%s is of a job of %u partitions, this one has %u", p->path, get32(bytes + 12) - 1,
		                 p->options.partitions);
	if (n != file_bytes(p->slots) || get64(bytes + 48) == UINT64_MAX || bytes[56] > 1 || bytes[57] > VOTE_LOG_SYNCED)
		return damaged(p, "its header makes no sense", err);
	*start = (struct start){.incarnation = get64(bytes + 48), .clean = bytes[56], .log = (enum vote_log)bytes[57]};
	memcpy(start->machine_boot, bytes + 32, ID_BYTES);
	for (uint32_t i = 0; i < p->slots; i++) {
		const uint8_t *slot = bytes + VOTES_HEADER_BYTES + i * VOTES_SLOT_BYTES;
		p->found[i] = (struct vote){.promised = get64(slot), .whole = get32(slot + 8) == 1};
	}
	return WEIR_OK;
}

/* --- The state that a start finds */

/* Whether this start's log has all that the former start had acknowledged. */
static bool log_is_intact(const struct vote_store_options *o, const struct start *s)
{
	static const uint8_t not_known[ID_BYTES];
	const bool same_boot =
	    memcmp(s->machine_boot, o->machine_boot, ID_BYTES) == 0 && memcmp(s->machine_boot, not_known, ID_BYTES) != 0;
	if (s->log == VOTE_LOG_MEMORY || o->log == VOTE_LOG_MEMORY)
		return false;
	return s->clean || same_boot || s->log == VOTE_LOG_SYNCED;
}

static weir_status find(struct vote_store *p, weir_error *err)
{
	char *bytes = NULL;
	size_t n = 0;
	weir_error why = {0};
	struct start start = {0};
	weir_status status = disk_read_file(p->options.disk, p->path, FILE_BYTES_MAX, &bytes, &n, &why);
	bool intact = false;
	if (status == WEIR_OK) {
		status = decode(p, (uint8_t *)bytes, n, &start, err);
		intact = log_is_intact(&p->options, &start);
	} else {
		status = status == WEIR_E_NOT_FOUND ? WEIR_OK : weir_fail(err, status, "%s", why.text);
	}
	free(bytes);
	for (uint32_t i = 0; i < p->slots; i++)
		p->found[i].whole = p->found[i].whole && intact;
	p->incarnation = start.incarnation + 1 > p->options.incarnation_least ? start.incarnation + 1 : p->options.incarnation_least;
	return status;
}

/* --- Writing */

void vote_store_submit(struct vote_store *p, struct vote_write *w)
{
	w->next = NULL;
	w->status = WEIR_OK;
	pthread_mutex_lock(&p->lock);
	*p->last = w;
	p->last = &w->next;
	pthread_cond_signal(&p->changed);
	pthread_mutex_unlock(&p->lock);
}

static struct vote_write *take_all(struct vote_store *p)
{
	pthread_mutex_lock(&p->lock);
	struct vote_write *all = p->first;
	p->first = NULL;
	p->last = &p->first;
	pthread_mutex_unlock(&p->lock);
	return all;
}

static weir_status write_all(struct vote_store *p, const struct vote_write *all, weir_error *err)
{
	if (p->failed)
		return weir_fail(err, p->failed, "%s", p->err.text);
	memcpy(p->next, p->kept, p->slots * sizeof *p->next);
	for (const struct vote_write *w = all; w; w = w->next) {
		struct vote *slot = &p->next[slot_of(p, w->partition)];
		slot->promised = w->vote.promised > slot->promised ? w->vote.promised : slot->promised;
		slot->whole = w->vote.whole;
	}
	weir_status status = write_file(p, p->next, false, &p->err);
	if (status) {
		/* The disk has the old file or the new one: unknown. */
		p->failed = status == WEIR_E_NO_SPACE ? WEIR_OK : status;
		return weir_fail(err, status, "%s", p->err.text);
	}
	struct vote *former = p->kept;
	p->kept = p->next;
	p->next = former;
	return WEIR_OK;
}

static void deliver(void *arg)
{
	struct vote_write *w = arg;
	w->done(w);
}

bool vote_store_write(struct vote_store *p)
{
	struct vote_write *all = take_all(p);
	if (!all)
		return false;
	weir_error err = {0};
	pthread_mutex_lock(&p->writing);
	weir_status status = write_all(p, all, &err);
	pthread_mutex_unlock(&p->writing);
	for (struct vote_write *w = all, *next; w; w = next) {
		next = w->next; /* once posted, w is the caller's */
		w->status = status;
		w->err = err;
		callback_executor_post(&w->run_on, deliver, w);
	}
	return true;
}

weir_status vote_store_distrust_log(struct vote_store *p, weir_error *err)
{
	pthread_mutex_lock(&p->writing);
	p->distrusted = true;
	weir_status status = p->failed ? weir_fail(err, p->failed, "%s", p->err.text) : write_file(p, p->kept, false, err);
	pthread_mutex_unlock(&p->writing);
	return status;
}

/* --- The thread */

/* False: nothing is queued, and nothing will be. */
static bool wait_for_some(struct vote_store *p)
{
	pthread_mutex_lock(&p->lock);
	while (!p->first && !p->stopping)
		pthread_cond_wait(&p->changed, &p->lock);
	const bool some = p->first;
	pthread_mutex_unlock(&p->lock);
	return some;
}

static void *run(void *arg)
{
	struct vote_store *p = arg;
	while (wait_for_some(p))
		vote_store_write(p);
	return NULL;
}

static weir_status start_thread(struct vote_store *p, weir_error *err)
{
	if (!p->options.stepped && pthread_create(&p->thread, NULL, run, p) != 0)
		return weir_fail(err, WEIR_E_LIMIT, "%s: no thread could be started to write it", p->path);
	return WEIR_OK;
}

static void stop_thread(struct vote_store *p)
{
	pthread_mutex_lock(&p->lock);
	p->stopping = true;
	pthread_cond_signal(&p->changed);
	pthread_mutex_unlock(&p->lock);
	pthread_join(p->thread, NULL);
}

void vote_store_stop(struct vote_store *p)
{
	if (!p || p->stopped)
		return;
	p->stopped = true;
	if (p->options.stepped)
		(void)vote_store_write(p);
	else
		stop_thread(p);
}

/* --- Life */

static struct vote_store *vote_store_new(const struct vote_store_options *o)
{
	struct vote_store *p = calloc(1, sizeof *p + strlen(o->path) + 1);
	if (!p)
		return NULL;
	p->options = *o;
	p->options.path = NULL;
	strcpy(p->path, o->path);
	p->slots = o->partitions + 1;
	p->found = calloc(p->slots, sizeof *p->found);
	p->kept = calloc(p->slots, sizeof *p->kept);
	p->next = calloc(p->slots, sizeof *p->next);
	p->bytes = calloc(1, file_bytes(p->slots));
	p->last = &p->first;
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->changed, NULL);
	pthread_mutex_init(&p->writing, NULL);
	return p;
}

static void vote_store_destroy(struct vote_store *p)
{
	pthread_mutex_destroy(&p->lock);
	pthread_cond_destroy(&p->changed);
	pthread_mutex_destroy(&p->writing);
	free(p->found);
	free(p->kept);
	free(p->next);
	free(p->bytes);
	free(p);
}

weir_status vote_store_open(struct vote_store **out, const struct vote_store_options *options, weir_error *err)
{
	assert(options->partitions > 0 && options->partitions <= WEIR_PARTITIONS_MAX);
	*out = NULL;
	struct vote_store *p = vote_store_new(options);
	weir_status status = p && p->found && p->kept && p->next && p->bytes
	                         ? WEIR_OK
	                         : weir_fail(err, WEIR_E_MEMORY, "%s: out of memory", options->path);
	if (!status)
		status = find(p, err);
	if (!status) {
		memcpy(p->kept, p->found, p->slots * sizeof *p->kept);
		status = write_file(p, p->kept, false, err);
	}
	/* Reserves space for the next writes; if that fails, each of them needs new space. */
	if (!status)
		(void)disk_reserve_file(p->options.disk, p->path, file_bytes(p->slots), NULL);
	if (!status)
		status = start_thread(p, err);
	if (!status)
		*out = p;
	else if (p)
		vote_store_destroy(p);
	return status;
}

uint64_t vote_store_incarnation(const struct vote_store *p)
{
	return p->incarnation;
}

struct vote vote_store_found(const struct vote_store *p, uint16_t partition)
{
	return p->found[slot_of(p, partition)];
}

void vote_store_close(struct vote_store *p, bool clean)
{
	if (!p)
		return;
	vote_store_stop(p);
	if (clean && !p->failed && !p->distrusted)
		(void)write_file(p, p->kept, true, NULL);
	vote_store_destroy(p);
}
