#include "server/log/data_folder.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/crc32c.h"
#include "common/base/hash.h"
#include "common/base/limits.h"
#include "common/web/json.h"
#include "state.pb-c.h"

#define TABLES_BYTES_MAX (WEIR_TABLES_MAX * WEIR_CONTROL_BYTES_MAX / 16)

struct folder {
	struct disk *disk;
	struct disk_file *lock;
	struct folder_identity who;
	uint64_t epoch, epoch_found;
	bool was_clean, is_new, restoring;
	bool begun;                     /* this start is in IDENTITY */
	Weir__V1__TableRegistry *found; /* when it was opened */
	pthread_mutex_t writing;        /* guards the fields below */
	Weir__V1__TableRegistry *tables;
	char path[];
};

static weir_status file_path(const struct folder *f, const char *name, char out[WEIR_PATH_BYTES_MAX], weir_error *err)
{
	int n = snprintf(out, WEIR_PATH_BYTES_MAX, "%s/%s", f->path, name);
	return n < (int)WEIR_PATH_BYTES_MAX
	           ? WEIR_OK
	           : weir_fail(err, WEIR_E_LIMIT, "path longer than %u bytes: %.80s...", WEIR_PATH_BYTES_MAX, f->path);
}

/* *text stays NULL if the file does not exist. */
static weir_status read_file(const struct folder *f, const char *path, size_t bytes_max, char **text, size_t *bytes,
                             weir_error *err)
{
	weir_error why = {0};
	weir_status status = disk_read_file(f->disk, path, bytes_max, text, bytes, &why);
	return status == WEIR_OK || status == WEIR_E_NOT_FOUND ? WEIR_OK : weir_fail(err, status, "%s", why.text);
}

static void hex_of(const uint8_t uuid[16], char out[33])
{
	for (uint32_t i = 0; i < 16; i++)
		snprintf(out + 2 * i, 3, "%02x", uuid[i]);
}

/* --- IDENTITY */

struct identity_file {
	char uuid[33];
	uint64_t generation, index, servers, partitions, epoch;
	bool restoring, clean;
};

static struct identity_file identity_of(const struct folder *f, bool clean)
{
	struct identity_file i = {.generation = f->who.generation,
	                          .index = f->who.index,
	                          .servers = f->who.servers,
	                          .partitions = f->who.partitions,
	                          .epoch = f->epoch,
	                          .restoring = f->restoring,
	                          .clean = clean};
	hex_of(f->who.uuid, i.uuid);
	return i;
}

/* Returns the document without its checksum, and the checksum in *crc. NULL: out of memory. */
static struct json *identity_document(const struct identity_file *i, uint32_t *crc)
{
	struct json *j = json_create();
	json_set_count(j, "version", FOLDER_VERSION);
	json_set_text(j, "uuid", i->uuid);
	json_set_count(j, "generation", i->generation);
	json_set_count(j, "index", i->index);
	json_set_count(j, "servers", i->servers);
	json_set_count(j, "partitions", i->partitions);
	json_set_count(j, "epoch", i->epoch);
	json_set_bool(j, "restoring", i->restoring);
	json_set_bool(j, "clean", i->clean);
	char *text = j ? json_canonical(j) : NULL;
	if (!text) {
		json_destroy(j);
		return NULL;
	}
	*crc = crc32c(0, text, strlen(text));
	free(text);
	return j;
}

static weir_status identity_write(const struct folder *f, bool clean, weir_error *err)
{
	const struct identity_file i = identity_of(f, clean);
	char path[WEIR_PATH_BYTES_MAX];
	uint32_t crc = 0;
	weir_status status = file_path(f, "IDENTITY", path, err);
	struct json *j = identity_document(&i, &crc);
	json_set_count(j, "crc32c", crc);
	char *text = j ? json_text(j) : NULL;
	if (!status && !text)
		status = weir_fail(err, WEIR_E_MEMORY, "%s: out of memory", path);
	if (!status)
		status = disk_write_file(f->disk, path, text, strlen(text), err);
	free(text);
	json_destroy(j);
	return status;
}

static weir_status identity_parse(const struct json *j, const char *path, struct identity_file *out, weir_error *err)
{
	const char *uuid = json_get_text(j, "uuid");
	uint64_t version = 0, kept = 0;
	uint32_t crc = 0;
	if (!json_get_count(j, "version", &version))
		return weir_fail(err, WEIR_E_CORRUPT, "%s: no version", path);
	if (version != FOLDER_VERSION)
		return weir_fail(err, WEIR_E_VERSION, "%s has format version %llu and this program reads %u; use a newer Weir", path,
		                 (unsigned long long)version, FOLDER_VERSION);
	if (!uuid || strlen(uuid) >= sizeof out->uuid || !json_get_count(j, "generation", &out->generation) ||
	    !json_get_count(j, "index", &out->index) || !json_get_count(j, "servers", &out->servers) ||
	    !json_get_count(j, "partitions", &out->partitions) || !json_get_count(j, "epoch", &out->epoch) ||
	    !json_get_count(j, "crc32c", &kept))
		return weir_fail(err, WEIR_E_CORRUPT, "%s: something is missing", path);
	strcpy(out->uuid, uuid);
	out->restoring = json_get_bool(j, "restoring");
	out->clean = json_get_bool(j, "clean");
	struct json *same = identity_document(out, &crc);
	json_destroy(same);
	if (!same)
		return weir_fail(err, WEIR_E_MEMORY, "%s: out of memory", path);
	if (out->epoch >= INT64_MAX) /* no JSON number follows it */
		return weir_fail(err, WEIR_E_CORRUPT, "%s: damaged, its epoch is the last there is", path);
	return crc == kept ? WEIR_OK : weir_fail(err, WEIR_E_CORRUPT, "%s: damaged, its checksum is another", path);
}

static weir_status identity_compare(const struct folder *f, const struct identity_file *i, weir_error *err)
{
	const struct identity_file ours = identity_of(f, false);
	if (strcmp(i->uuid, ours.uuid) != 0)
		return weir_fail(err, WEIR_E_STATE, "%s holds data of job %s, this server is of job %s: give it another folder", f->path,
		                 i->uuid, ours.uuid);
	if (i->generation != ours.generation)
		return weir_fail(err, WEIR_E_GENERATION,
		                 "%s holds generation %llu of the job, this server is started with generation %llu", f->path,
		                 (unsigned long long)i->generation, (unsigned long long)ours.generation);
	if (i->index != ours.index || i->servers != ours.servers || i->partitions != ours.partitions)
		return weir_fail(err, WEIR_E_STATE,
		                 "%s holds server %llu of %llu with %llu partitions in the job, this one is server %u of %u with %u: "
		                 "the same data on other servers needs a checkpoint and a restore",
		                 f->path, (unsigned long long)i->index, (unsigned long long)i->servers, (unsigned long long)i->partitions,
		                 f->who.index, f->who.servers, f->who.partitions);
	return WEIR_OK;
}

static weir_status find_data(void *arg, const char *name)
{
	static const char *const names[] = {"PROMISES", "TABLES", "journal", "db"};
	(void)arg;
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (strcmp(name, names[i]) == 0)
			return WEIR_E_EXISTS;
	return WEIR_OK;
}

/* IDENTITY is written before all other files. So data without an IDENTITY are not the remains of an
 * interrupted first start. */
static weir_status check_new(const struct folder *f, weir_error *err)
{
	weir_status status = f->disk->ops->list(f->disk, f->path, find_data, NULL, err);
	return status != WEIR_E_EXISTS ? status
	                               : weir_fail(err, WEIR_E_CORRUPT,
	                                           "%s has a server's data, but its IDENTITY is missing: put that back, or give the "
	                                           "server another folder",
	                                           f->path);
}

/* *there: whether IDENTITY exists. */
static weir_status dedup_find(const struct folder *f, struct identity_file *out, bool *there, weir_error *err)
{
	char path[WEIR_PATH_BYTES_MAX], *text = NULL;
	size_t bytes;
	struct json *j = NULL;
	weir_status status = file_path(f, "IDENTITY", path, err);
	if (!status)
		status = read_file(f, path, WEIR_CONFIG_BYTES_MAX, &text, &bytes, err);
	*there = !status && text;
	if (*there)
		status = json_parse(text, bytes, path, &j, err);
	if (*there && !status)
		status = identity_parse(j, path, out, err);
	json_destroy(j);
	free(text);
	return status;
}

static weir_status identity_read(struct folder *f, weir_error *err)
{
	struct identity_file found = {0};
	bool there;
	weir_status status = dedup_find(f, &found, &there, err);
	if (!status && !there) {
		f->was_clean = f->is_new = true;
		return check_new(f, err);
	}
	if (!status)
		status = identity_compare(f, &found, err);
	f->epoch_found = found.epoch;
	f->was_clean = found.clean;
	f->restoring = found.restoring;
	return status;
}

/* --- TABLES: the crc32c of the registry, little-endian, then the registry's bytes */

#define CRC_BYTES 4u

/* Parses the registry in a file's bytes. No file means no tables. */
static weir_status registry_parse(const char *path, const char *data, size_t bytes, ProtobufCMessage **out, weir_error *err)
{
	weir_error why = {0};
	uint32_t crc = 0;
	if (data && bytes >= CRC_BYTES)
		memcpy(&crc, data, CRC_BYTES);
	if (data && (bytes < CRC_BYTES || crc != crc32c(0, data + CRC_BYTES, bytes - CRC_BYTES)))
		return weir_fail(err, WEIR_E_CORRUPT, "%s: damaged, its checksum is another", path);
	weir_status status = wire_unpack_state(&weir__v1__table_registry__descriptor, data ? data + CRC_BYTES : "",
	                                       data ? bytes - CRC_BYTES : 0, out, &why);
	return status ? weir_fail(err, status, "%s: %s", path, why.text) : WEIR_OK;
}

static weir_status registry_read(const struct folder *f, Weir__V1__TableRegistry **out, weir_error *err)
{
	char path[WEIR_PATH_BYTES_MAX], *data = NULL;
	size_t bytes = 0;
	ProtobufCMessage *m = NULL;
	weir_status status = file_path(f, "TABLES", path, err);
	if (!status)
		status = read_file(f, path, TABLES_BYTES_MAX, &data, &bytes, err);
	if (!status)
		status = registry_parse(path, data, bytes, &m, err);
	*out = (Weir__V1__TableRegistry *)m;
	free(data);
	return status;
}

weir_status folder_read_tables(struct disk *disk, const char *path, Weir__V1__TableRegistry **out, weir_error *err)
{
	const size_t bytes = strlen(path) + 1;
	struct folder *f = calloc(1, sizeof *f + bytes);
	if (!f)
		return weir_fail(err, WEIR_E_MEMORY, "%s: out of memory", path);
	f->disk = disk;
	memcpy(f->path, path, bytes);
	const weir_status status = registry_read(f, out, err);
	free(f);
	return status;
}

static weir_status registry_write(const struct folder *f, const Weir__V1__TableRegistry *r, weir_error *err)
{
	char path[WEIR_PATH_BYTES_MAX];
	weir_status status = file_path(f, "TABLES", path, err);
	const size_t bytes = protobuf_c_message_get_packed_size(&r->base);
	uint8_t *data = malloc(CRC_BYTES + bytes);
	if (!status && !data)
		status = weir_fail(err, WEIR_E_MEMORY, "%s: out of memory", path);
	if (!status) {
		(void)protobuf_c_message_pack(&r->base, data + CRC_BYTES);
		const uint32_t crc = crc32c(0, data + CRC_BYTES, bytes);
		memcpy(data, &crc, CRC_BYTES);
		status = disk_write_file(f->disk, path, data, CRC_BYTES + bytes, err);
	}
	free(data);
	return status;
}

static bool has_table(const Weir__V1__TableRegistry *r, uint32_t id)
{
	for (size_t i = 0; i < r->n_tables; i++)
		if (r->tables[i]->id == id)
			return true;
	return false;
}

weir_status folder_add_table(struct folder *f, const Weir__V1__Table *table, weir_error *err)
{
	weir_status status = WEIR_OK;
	pthread_mutex_lock(&f->writing);
	if (!has_table(f->tables, table->id)) {
		/* The tables on disk, followed by the new one. The result is read back, so that the
		 * registry owns all its memory. */
		Weir__V1__TableRegistry longer = *f->tables, *kept = NULL;
		Weir__V1__Table **list = malloc((longer.n_tables + 1) * sizeof *list);
		if (list) {
			if (longer.n_tables)
				memcpy(list, longer.tables, longer.n_tables * sizeof *list);
			list[longer.n_tables++] = (Weir__V1__Table *)(uintptr_t)table;
			longer.tables = list;
			status = registry_write(f, &longer, err);
		} else {
			status = weir_fail(err, WEIR_E_MEMORY, "table %s: out of memory", table->name);
		}
		free(list);
		if (!status)
			status = registry_read(f, &kept, err);
		if (!status) {
			wire_destroy(&f->tables->base);
			f->tables = kept;
		}
	}
	pthread_mutex_unlock(&f->writing);
	return status;
}

Weir__V1__Table *const *folder_tables(const struct folder *f, size_t *count)
{
	*count = f->found->n_tables;
	return f->found->tables;
}

/* --- Lifecycle */

/* Keeps a file that reserves space. A failure to create it does not prevent the start. */
static void keep_reserve(struct folder *f)
{
	char path[WEIR_PATH_BYTES_MAX];
	struct disk_file *file;
	weir_error ignored;
	if (file_path(f, "RESERVE", path, &ignored) || f->disk->ops->open(f->disk, path, true, &file, &ignored))
		return;
	(void)f->disk->ops->allocate(file, WEIR_RESERVE_BYTES, &ignored);
	f->disk->ops->close(file);
}

/* False: the folder has no reserve. */
static bool use_reserve(struct folder *f)
{
	char path[WEIR_PATH_BYTES_MAX];
	weir_error ignored;
	return file_path(f, "RESERVE", path, &ignored) == WEIR_OK && f->disk->ops->remove(f->disk, path, &ignored) == WEIR_OK;
}

/* IDENTITY of a new folder must exist before all other files (check_new). */
static weir_status begin_epoch(struct folder *f, const struct folder_start *start, weir_error *err)
{
	if (!f->is_new && f->epoch_found < start->epoch_known)
		return weir_fail(err, WEIR_E_STALE, "its last start was %llu, and start %llu of this server has run",
		                 (unsigned long long)f->epoch_found, (unsigned long long)start->epoch_known);
	f->epoch = (f->epoch_found > start->epoch_known ? f->epoch_found : start->epoch_known) + 1;
	return f->is_new ? folder_begin(f, err) : WEIR_OK;
}

static weir_status folder_take(struct folder *f, const char *holder, const struct folder_start *start, weir_error *err)
{
	char path[WEIR_PATH_BYTES_MAX];
	weir_status status = f->disk->ops->make_dirs(f->disk, f->path, err);
	if (!status)
		status = file_path(f, "LOCK", path, err);
	if (!status)
		status = f->disk->ops->lock(f->disk, path, holder, &f->lock, err);
	if (!status)
		status = identity_read(f, err);
	if (!status)
		status = registry_read(f, &f->found, err);
	if (!status)
		status = registry_read(f, &f->tables, err);
	if (!status && f->restoring && !start->restore)
		status = weir_fail(err, WEIR_E_STATE,
		                   "%s: a restore was cut off before it was complete: start the server with --restore again", f->path);
	f->restoring = start->restore && (f->is_new || f->restoring);
	return status ? status : begin_epoch(f, start, err);
}

static void folder_destroy(struct folder *f)
{
	if (f->lock)
		f->disk->ops->close(f->lock);
	wire_destroy(f->found ? &f->found->base : NULL);
	wire_destroy(f->tables ? &f->tables->base : NULL);
	pthread_mutex_destroy(&f->writing);
	free(f);
}

weir_status folder_open(struct folder **out, struct disk *disk, const char *path, const char *holder,
                        const struct folder_identity *who, const struct folder_start *start, weir_error *err)
{
	*out = NULL;
	struct folder *f = calloc(1, sizeof *f + strlen(path) + 1);
	if (!f)
		return weir_fail(err, WEIR_E_MEMORY, "%s: out of memory", path);
	f->disk = disk;
	f->who = *who;
	strcpy(f->path, path);
	pthread_mutex_init(&f->writing, NULL);
	weir_error why = {0};
	weir_status status = folder_take(f, holder, start, &why);
	/* The lock failed because the holder's name could not be written. */
	if (status == WEIR_E_NO_SPACE && !f->lock && use_reserve(f))
		status = folder_take(f, holder, start, &why);
	if (status)
		folder_destroy(f);
	else
		*out = f;
	return status ? weir_fail(err, status, "%s", why.text) : WEIR_OK;
}

weir_status folder_begin(struct folder *f, weir_error *err)
{
	weir_error why = {0};
	if (f->begun)
		return WEIR_OK;
	weir_status status = identity_write(f, false, &why);
	if (status == WEIR_E_NO_SPACE && use_reserve(f))
		status = identity_write(f, false, &why);
	if (status)
		return weir_fail(err, status, "%s", why.text);
	f->begun = true;
	keep_reserve(f);
	return WEIR_OK;
}

void folder_close(struct folder *f, bool clean)
{
	if (!f)
		return;
	if (f->begun)
		(void)use_reserve(f);
	if (clean && f->begun)
		/* On failure the next start treats this stop as unclean, which is always safe. */
		(void)identity_write(f, true, NULL);
	folder_destroy(f);
}

const char *folder_path(const struct folder *f)
{
	return f->path;
}

void folder_id(const struct folder *f, uint8_t id[16])
{
	uint8_t bytes[sizeof f->who.uuid + sizeof f->who.generation + sizeof f->who.index];
	memcpy(bytes, f->who.uuid, sizeof f->who.uuid);
	memcpy(bytes + sizeof f->who.uuid, &f->who.generation, sizeof f->who.generation);
	memcpy(bytes + sizeof f->who.uuid + sizeof f->who.generation, &f->who.index, sizeof f->who.index);
	hash128_bytes(bytes, sizeof bytes, id);
	id[0] |= 1;
}

uint64_t folder_epoch(const struct folder *f)
{
	return f->epoch;
}

uint64_t folder_epoch_found(const struct folder *f)
{
	return f->epoch_found;
}

bool folder_was_clean(const struct folder *f)
{
	return f->was_clean;
}

bool folder_is_restoring(const struct folder *f)
{
	return f->restoring;
}

weir_status folder_restored(struct folder *f, weir_error *err)
{
	f->restoring = false;
	return identity_write(f, false, err);
}

/* --- Putting a folder aside */

static weir_status note_any(void *arg, const char *name)
{
	(void)name;
	*(bool *)arg = true;
	return WEIR_OK;
}

static weir_status move_aside(struct disk *disk, const char *path, const char *aside, weir_error *err)
{
	char parents[WEIR_PATH_BYTES_MAX];
	bool any = false;
	weir_error ignored = {0};
	const char *name = strrchr(aside, '/');
	const int n = snprintf(parents, sizeof parents, "%.*s", name ? (int)(name - aside) : 1, name ? aside : ".");
	if (n >= (int)sizeof parents)
		return weir_fail(err, WEIR_E_LIMIT, "path longer than %u bytes: %.80s...", WEIR_PATH_BYTES_MAX, aside);
	(void)disk->ops->list(disk, aside, note_any, &any, &ignored);
	if (any)
		return weir_fail(err, WEIR_E_EXISTS, "%s is to be put aside, and %s is there already: move one of them away", path,
		                 aside);
	weir_status status = disk->ops->make_dirs(disk, parents, err);
	return status ? status : disk->ops->rename(disk, path, aside, err);
}

weir_status folder_put_aside(struct disk *disk, const char *path, const char *aside, const char *holder, weir_error *err)
{
	struct disk_file *lock = NULL;
	char lock_path[WEIR_PATH_BYTES_MAX];
	if (snprintf(lock_path, sizeof lock_path, "%s/LOCK", path) >= (int)sizeof lock_path)
		return weir_fail(err, WEIR_E_LIMIT, "path longer than %u bytes: %.80s...", WEIR_PATH_BYTES_MAX, path);
	weir_status status = disk->ops->lock(disk, lock_path, holder, &lock, err);
	if (status)
		return status;
	status = move_aside(disk, path, aside, err);
	disk->ops->close(lock);
	return status;
}

weir_status folder_is_there(struct disk *disk, const char *path, bool *there, weir_error *err)
{
	char identity[WEIR_PATH_BYTES_MAX], *text = NULL;
	size_t bytes;
	weir_error why = {0};
	if (snprintf(identity, sizeof identity, "%s/IDENTITY", path) >= (int)sizeof identity)
		return weir_fail(err, WEIR_E_LIMIT, "path longer than %u bytes: %.80s...", WEIR_PATH_BYTES_MAX, path);
	const weir_status status = disk_read_file(disk, identity, WEIR_CONFIG_BYTES_MAX, &text, &bytes, &why);
	free(text);
	/* folder_open refuses data without an IDENTITY. */
	*there = status != WEIR_E_NOT_FOUND || disk->ops->list(disk, path, find_data, NULL, &why) == WEIR_E_EXISTS;
	return !status || status == WEIR_E_NOT_FOUND ? WEIR_OK : weir_fail(err, status, "%s", why.text);
}

weir_status folder_set_aside(struct disk *disk, const char *path, const char *aside, const char *holder,
                             const struct folder_identity *who, bool *done, weir_error *err)
{
	struct identity_file found = {0};
	bool there = false;
	*done = false;
	struct folder *f = calloc(1, sizeof *f + strlen(path) + 1);
	if (!f)
		return weir_fail(err, WEIR_E_MEMORY, "%s: out of memory", path);
	f->disk = disk;
	f->who = *who;
	strcpy(f->path, path);
	const struct identity_file ours = identity_of(f, false);
	weir_status status = dedup_find(f, &found, &there, err);
	const bool earlier = !status && there && strcmp(found.uuid, ours.uuid) == 0 && found.generation < ours.generation;
	free(f);
	if (earlier)
		status = folder_put_aside(disk, path, aside, holder, err);
	*done = earlier && !status;
	return status;
}
