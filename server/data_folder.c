#include "data_folder.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"
#include "limits.h"
#include "state.pb-c.h"

#define TABLES_BYTES_MAX (WEIR_TABLES_MAX * WEIR_CONTROL_BYTES_MAX / 16)

struct folder {
	struct disk *disk;
	struct disk_file *lock;
	struct folder_identity who;
	uint64_t epoch;
	bool was_clean, is_new, restoring;
	Weir__V1__TableRegistry *found; /* when it was opened */
	pthread_mutex_t writing;        /* guards what follows */
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

/* *text stays NULL when there is no such file. */
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

static weir_status identity_write(const struct folder *f, bool clean, weir_error *err)
{
	char path[WEIR_PATH_BYTES_MAX], uuid[33];
	weir_status status = file_path(f, "IDENTITY", path, err);
	struct json *j = json_create();
	hex_of(f->who.uuid, uuid);
	json_set_count(j, "version", FOLDER_VERSION);
	json_set_text(j, "uuid", uuid);
	json_set_count(j, "generation", f->who.generation);
	json_set_count(j, "index", f->who.index);
	json_set_count(j, "servers", f->who.servers);
	json_set_count(j, "partitions", f->who.partitions);
	json_set_count(j, "epoch", f->epoch);
	json_set_bool(j, "restoring", f->restoring);
	json_set_bool(j, "clean", clean);
	char *text = j ? json_text(j) : NULL;
	if (!status && !text)
		status = weir_fail(err, WEIR_E_MEMORY, "%s: out of memory", path);
	if (!status)
		status = disk_write_file(f->disk, path, text, strlen(text), err);
	free(text);
	json_destroy(j);
	return status;
}

static weir_status identity_compare(const struct folder *f, const struct json *j, weir_error *err)
{
	char ours[33];
	uint64_t generation = 0, index = 0, servers = 0, partitions = 0;
	const char *uuid = json_get_text(j, "uuid");
	hex_of(f->who.uuid, ours);
	if (!uuid || !json_get_count(j, "generation", &generation) || !json_get_count(j, "index", &index) ||
	    !json_get_count(j, "servers", &servers) || !json_get_count(j, "partitions", &partitions))
		return weir_fail(err, WEIR_E_CORRUPT, "%s/IDENTITY: something is missing", f->path);
	if (strcmp(uuid, ours) != 0)
		return weir_fail(err, WEIR_E_STATE, "%s holds data of job %s, this server is of job %s: give it another folder", f->path,
		                 uuid, ours);
	if (generation != f->who.generation)
		return weir_fail(err, WEIR_E_GENERATION,
		                 "%s holds generation %llu of the job, this server is started with generation %llu", f->path,
		                 (unsigned long long)generation, (unsigned long long)f->who.generation);
	if (index != f->who.index || servers != f->who.servers || partitions != f->who.partitions)
		return weir_fail(err, WEIR_E_STATE,
		                 "%s holds server %llu of %llu with %llu partitions in the job, this one is server %u of %u with %u: "
		                 "the same data on other servers needs a checkpoint and a restore",
		                 f->path, (unsigned long long)index, (unsigned long long)servers, (unsigned long long)partitions,
		                 f->who.index, f->who.servers, f->who.partitions);
	return WEIR_OK;
}

static weir_status identity_read(struct folder *f, weir_error *err)
{
	char path[WEIR_PATH_BYTES_MAX], *text = NULL;
	size_t bytes;
	struct json *j = NULL;
	uint64_t version = 0;
	weir_status status = file_path(f, "IDENTITY", path, err);
	if (!status)
		status = read_file(f, path, WEIR_CONFIG_BYTES_MAX, &text, &bytes, err);
	if (!status && !text) {
		f->was_clean = f->is_new = true;
		return WEIR_OK;
	}
	if (!status)
		status = json_parse(text, bytes, path, &j, err);
	if (!status && !json_get_count(j, "version", &version))
		status = weir_fail(err, WEIR_E_CORRUPT, "%s: no version", path);
	if (!status && version != FOLDER_VERSION)
		status = weir_fail(err, WEIR_E_VERSION, "%s: version %llu, this program reads %u", path, (unsigned long long)version,
		                   FOLDER_VERSION);
	if (!status)
		status = identity_compare(f, j, err);
	if (!status && !json_get_count(j, "epoch", &f->epoch))
		status = weir_fail(err, WEIR_E_CORRUPT, "%s: no epoch", path);
	if (!status)
		f->was_clean = json_get_bool(j, "clean");
	f->restoring = !status && json_get_bool(j, "restoring");
	json_destroy(j);
	free(text);
	return status;
}

/* --- TABLES */

static weir_status registry_read(const struct folder *f, Weir__V1__TableRegistry **out, weir_error *err)
{
	char path[WEIR_PATH_BYTES_MAX], *data = NULL;
	size_t bytes = 0;
	ProtobufCMessage *m = NULL;
	weir_status status = file_path(f, "TABLES", path, err);
	if (!status)
		status = read_file(f, path, TABLES_BYTES_MAX, &data, &bytes, err);
	if (!status)
		status = wire_unpack_state(&weir__v1__table_registry__descriptor, data ? data : "", bytes, &m, err);
	*out = (Weir__V1__TableRegistry *)m;
	free(data);
	return status;
}

static weir_status registry_write(const struct folder *f, const Weir__V1__TableRegistry *r, weir_error *err)
{
	char path[WEIR_PATH_BYTES_MAX];
	weir_status status = file_path(f, "TABLES", path, err);
	struct message *m = wire_pack(&r->base);
	if (!status && !m)
		status = weir_fail(err, WEIR_E_MEMORY, "%s: out of memory", path);
	if (!status)
		status = disk_write_file(f->disk, path, m->spans[0].data, m->bytes, err);
	message_release(m);
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
		/* What is on disk with this one behind it; read back, so that the registry owns all it has. */
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
			wire_free(&f->tables->base);
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

/* --- Life */

static weir_status folder_take(struct folder *f, const char *holder, bool restore, weir_error *err)
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
	if (!status && f->restoring && !restore)
		status = weir_fail(err, WEIR_E_STATE,
		                   "%s: a restore was cut off before it was complete: start the server with --restore again", f->path);
	f->restoring = restore && (f->is_new || f->restoring);
	f->epoch++;
	return status ? status : identity_write(f, false, err);
}

static void folder_free(struct folder *f)
{
	if (f->lock)
		f->disk->ops->close(f->lock);
	wire_free(f->found ? &f->found->base : NULL);
	wire_free(f->tables ? &f->tables->base : NULL);
	pthread_mutex_destroy(&f->writing);
	free(f);
}

weir_status folder_open(struct folder **out, struct disk *disk, const char *path, const char *holder,
                        const struct folder_identity *who, bool restore, weir_error *err)
{
	*out = NULL;
	struct folder *f = calloc(1, sizeof *f + strlen(path) + 1);
	if (!f)
		return weir_fail(err, WEIR_E_MEMORY, "%s: out of memory", path);
	f->disk = disk;
	f->who = *who;
	strcpy(f->path, path);
	pthread_mutex_init(&f->writing, NULL);
	weir_status status = folder_take(f, holder, restore, err);
	if (status)
		folder_free(f);
	else
		*out = f;
	return status;
}

void folder_close(struct folder *f, bool clean)
{
	if (!f)
		return;
	if (clean)
		(void)identity_write(f, true, NULL); /* else the next start takes it for unclean, which is never wrong */
	folder_free(f);
}

const char *folder_path(const struct folder *f)
{
	return f->path;
}

uint64_t folder_epoch(const struct folder *f)
{
	return f->epoch;
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
