/* Manifests as JSON: publishes, finds and reads them, and removes old ones. */
#include "server/checkpoint/checkpoint_manifest.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/base/hash.h"
#include "common/web/json.h"
#include "proto/wire/wire.h"

#define TABLE_SPEC_BYTES_MAX (64u << 10) /* of a packed weir.v1.Table */

static const char *const precision_names[] = {"fp32", "bf16", "int8"};

const char *row_precision_name(enum row_precision p)
{
	return precision_names[p];
}

/* --- Names */

void checkpoint_name(char out[WEIR_CHECKPOINT_NAME_BYTES_MAX], const uint8_t uuid[16], int64_t created_ms)
{
	time_t seconds = (time_t)(created_ms / 1000);
	struct tm utc;
	char when[32];
	gmtime_r(&seconds, &utc);
	strftime(when, sizeof when, "%Y%m%dT%H%M%S", &utc);
	snprintf(out, WEIR_CHECKPOINT_NAME_BYTES_MAX, "ck-%.15s.%03uZ-%02x%02x%02x%02x", when, (unsigned)(created_ms % 1000) % 1000u,
	         uuid[0], uuid[1], uuid[2], uuid[3]);
}

static void hex(const uint8_t *in, size_t bytes, char *out)
{
	for (size_t i = 0; i < bytes; i++)
		sprintf(out + 2 * i, "%02x", in[i]);
}

/* Decodes exactly `bytes` bytes from 2 * bytes hexadecimal digits. */
static bool unhex(const char *in, uint8_t *out, size_t bytes)
{
	if (!in || strlen(in) != 2 * bytes || strspn(in, "0123456789abcdef") != 2 * bytes)
		return false;
	for (size_t i = 0; i < bytes; i++) {
		char pair[3] = {in[2 * i], in[2 * i + 1], '\0'};
		out[i] = (uint8_t)strtoul(pair, NULL, 16);
	}
	return true;
}

static void files_folder(char out[WEIR_BLOB_NAME_BYTES_MAX], const uint8_t uuid[16])
{
	char text[33];
	hex(uuid, 16, text);
	snprintf(out, WEIR_BLOB_NAME_BYTES_MAX, "files-%s", text);
}

void checkpoint_object_name(char out[WEIR_BLOB_NAME_BYTES_MAX], const uint8_t uuid[16], const char *checkpoint,
                            const char *suffix)
{
	char folder[WEIR_BLOB_NAME_BYTES_MAX];
	files_folder(folder, uuid);
	int n = snprintf(out, WEIR_BLOB_NAME_BYTES_MAX, "%.40s/%.47s.%s", folder, checkpoint, suffix);
	assert(n < (int)WEIR_BLOB_NAME_BYTES_MAX);
}

/* "NAME.json" to "NAME". */
static bool is_manifest(const char *object, char out[WEIR_CHECKPOINT_NAME_BYTES_MAX])
{
	size_t length = strlen(object);
	if (strncmp(object, "ck-", 3) != 0 || length < 8 || strcmp(object + length - 5, ".json") != 0 ||
	    length - 5 >= WEIR_CHECKPOINT_NAME_BYTES_MAX)
		return false;
	snprintf(out, WEIR_CHECKPOINT_NAME_BYTES_MAX, "%.*s", (int)(length - 5), object);
	return true;
}

void checkpoint_manifest_destroy(struct checkpoint_manifest *m)
{
	for (uint32_t i = 0; m->tables && i < m->tables_count; i++)
		free((void *)(uintptr_t)m->tables[i].spec.segments);
	free(m->tables);
	free(m->partitions);
	free(m->fingerprint);
	m->fingerprint = NULL;
	m->tables = NULL;
	m->partitions = NULL;
	m->tables_count = m->partitions_count = 0;
}

/* --- Writing */

static struct json *object_item(const struct checkpoint_object *o)
{
	struct json *j = json_create();
	char text[2 * CHECKPOINT_HASH_BYTES + 1];
	hex(o->info.hash, sizeof o->info.hash, text);
	json_set_text(j, "file", o->name);
	json_set_count(j, "bytes", o->info.bytes);
	json_set_count(j, "rows", o->info.rows);
	json_set_count(j, "index", o->index);
	json_set_text(j, "xxh3_128", text);
	return j;
}

static struct json *partition_item(const struct checkpoint_partition *p)
{
	struct json *j = json_create();
	json_set_count(j, "index", p->index);
	json_set_object(j, "header", object_item(&p->header));
	json_set_empty_list(j, "rows");
	for (uint32_t i = 0; j && i < p->rows_count; i++)
		json_append(j, "rows", object_item(&p->rows[i]));
	return j;
}

/* The packed message is the complete description. The other fields are for people. */
static struct json *table_item(const struct checkpoint_table *t)
{
	struct wire_table wire = {0};
	if (wire_table_make(&wire, &t->spec, t->id))
		return NULL;
	struct message *m = wire_pack(&wire.table.base);
	struct json *j = m ? json_create() : NULL;
	char *text = m ? malloc(2 * m->bytes + 1) : NULL;
	if (text) {
		struct cursor c = cursor_at(m);
		uint8_t byte;
		for (size_t i = 0; cursor_read(&c, &byte, 1) == WEIR_OK; i++)
			hex(&byte, 1, text + 2 * i);
		json_set_count(j, "id", t->id);
		json_set_text(j, "name", t->spec.name);
		json_set_text(j, "kind", t->spec.kind == WEIR_EMBEDDING ? "embedding" : "dense");
		json_set_count(j, t->spec.kind == WEIR_EMBEDDING ? "width" : "elements",
		               t->spec.kind == WEIR_EMBEDDING ? t->spec.width : t->spec.elements);
		json_set_text(j, "message", text);
	} else {
		json_destroy(j);
		j = NULL;
	}
	free(text);
	message_release(m);
	wire_table_destroy(&wire);
	return j;
}

static struct json *body_of(const struct checkpoint_manifest *m)
{
	struct json *j = json_create();
	char uuid[33];
	hex(m->uuid, sizeof m->uuid, uuid);
	json_set_text(j, "name", m->name);
	json_set_text(j, "job", m->job);
	json_set_text(j, "uuid", uuid);
	json_set_count(j, "generation", m->generation);
	json_set_count(j, "created_ms", (uint64_t)m->created_ms);
	json_set_count(j, "step", m->step);
	json_set_text(j, "values", precision_names[m->values]);
	json_set_text(j, "slots", precision_names[m->slots]);
	if (m->fingerprint)
		json_set_text(j, "fingerprint", m->fingerprint);
	json_set_object(j, "ledger", object_item(&m->ledger));
	for (uint32_t i = 0; j && i < m->tables_count; i++)
		json_append(j, "tables", table_item(&m->tables[i]));
	for (uint32_t i = 0; j && i < m->partitions_count; i++)
		json_append(j, "partitions", partition_item(&m->partitions[i]));
	return j;
}

/* Returns the hash of a body, as text. False: out of memory. */
static bool body_hash(const struct json *body, char out[2 * CHECKPOINT_HASH_BYTES + 1])
{
	uint8_t hash[CHECKPOINT_HASH_BYTES];
	char *text = body ? json_canonical(body) : NULL;
	if (!text)
		return false;
	hash128_bytes(text, strlen(text), hash);
	free(text);
	hex(hash, sizeof hash, out);
	return true;
}

weir_status checkpoint_manifest_write(struct blob_store *s, const struct checkpoint_manifest *m, weir_error *err)
{
	char hash[2 * CHECKPOINT_HASH_BYTES + 1], name[WEIR_BLOB_NAME_BYTES_MAX];
	struct json *body = body_of(m), *j = json_create();
	bool made = j && body_hash(body, hash);
	if (made) {
		json_set_count(j, "weir_checkpoint", CHECKPOINT_MANIFEST_VERSION);
		json_set_text(j, "body_xxh3_128", hash);
		json_set_object(j, "body", body);
	} else {
		json_destroy(body);
	}
	char *text = made ? json_text(j) : NULL;
	json_destroy(j);
	if (!text)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory writing the manifest of %s", m->name);
	snprintf(name, sizeof name, "%s.json", m->name);
	weir_status status = blob_put(s, name, text, strlen(text), err);
	free(text);
	return status;
}

/* --- Reading
 *
 * A manifest that has the right hash but lacks a field comes from an unknown writer: E_CORRUPT. */

static bool object_read(const struct json *in, const char *path, struct checkpoint_object *out)
{
	struct json *j = json_get_object(in, path);
	const char *name = j ? json_get_text(j, "file") : NULL;
	bool ok = name && strlen(name) < sizeof out->name && json_get_count(j, "bytes", &out->info.bytes) &&
	          json_get_count(j, "rows", &out->info.rows) && json_get_count(j, "index", &out->index) &&
	          unhex(json_get_text(j, "xxh3_128"), out->info.hash, sizeof out->info.hash);
	if (ok)
		snprintf(out->name, sizeof out->name, "%s", name);
	json_destroy(j);
	return ok;
}

static bool partition_read(const struct json *in, size_t i, struct checkpoint_partition *out)
{
	struct json *j = json_list_get(in, "partitions", i);
	bool ok = j && json_get_count(j, "index", &out->index) && object_read(j, "header", &out->header);
	out->rows_count = ok ? (uint32_t)json_list_length(j, "rows") : 0;
	ok = ok && out->rows_count <= WEIR_CHECKPOINT_CHAIN_MAX;
	for (uint32_t r = 0; ok && r < out->rows_count; r++) {
		struct json *item = json_list_get(j, "rows", r), *outer = json_create();
		json_set_object(outer, "row", item);
		ok = outer && object_read(outer, "row", &out->rows[r]);
		json_destroy(outer);
	}
	json_destroy(j);
	return ok;
}

static bool table_read(const struct json *in, size_t i, struct checkpoint_table *out)
{
	struct json *j = json_list_get(in, "tables", i);
	const char *text = j ? json_get_text(j, "message") : NULL;
	size_t bytes = text ? strlen(text) / 2 : 0;
	uint8_t *data = NULL;
	struct message *m = text && bytes <= TABLE_SPEC_BYTES_MAX ? message_alloc(bytes, &data) : NULL;
	ProtobufCMessage *table = NULL;
	bool ok = m && unhex(text, data, bytes) && wire_unpack(&weir__v1__table__descriptor, m, &table, NULL) == WEIR_OK &&
	          wire_table_read((const Weir__V1__Table *)table, &out->spec, &out->id, NULL) == WEIR_OK;
	wire_destroy(table);
	message_release(m);
	json_destroy(j);
	return ok;
}

static bool precision_read(const char *text, enum row_precision most, enum row_precision *out)
{
	for (uint32_t p = 0; text && p <= most; p++)
		if (strcmp(text, precision_names[p]) == 0) {
			*out = (enum row_precision)p;
			return true;
		}
	return false;
}

static bool scalars_read(const struct json *j, struct checkpoint_manifest *out)
{
	uint64_t created = 0;
	const char *name = json_get_text(j, "name"), *job = json_get_text(j, "job");
	bool ok = name && strlen(name) < sizeof out->name && job && strlen(job) < sizeof out->job &&
	          unhex(json_get_text(j, "uuid"), out->uuid, sizeof out->uuid) && json_get_count(j, "generation", &out->generation) &&
	          json_get_count(j, "created_ms", &created) && json_get_count(j, "step", &out->step) &&
	          precision_read(json_get_text(j, "values"), ROWS_INT8, &out->values) &&
	          precision_read(json_get_text(j, "slots"), ROWS_BF16, &out->slots) && object_read(j, "ledger", &out->ledger);
	if (!ok)
		return false;
	snprintf(out->name, sizeof out->name, "%s", name);
	snprintf(out->job, sizeof out->job, "%s", job);
	out->created_ms = (int64_t)created;
	return true;
}

static weir_status body_read(const struct json *j, const char *where, struct checkpoint_manifest *out, weir_error *err)
{
	size_t tables = json_list_length(j, "tables"), partitions = json_list_length(j, "partitions");
	if (tables > WEIR_TABLES_MAX || partitions > WEIR_PARTITIONS_MAX)
		return weir_fail(err, WEIR_E_CORRUPT, "%s: %zu tables and %zu partitions are more than there can be", where, tables,
		                 partitions);
	out->tables = calloc(tables + 1, sizeof *out->tables);
	out->partitions = calloc(partitions + 1, sizeof *out->partitions);
	if (!out->tables || !out->partitions)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory reading %s", where);
	const char *fingerprint = json_get_text(j, "fingerprint");
	if (fingerprint && !(out->fingerprint = strdup(fingerprint)))
		return weir_fail(err, WEIR_E_MEMORY, "out of memory reading %s", where);
	bool ok = scalars_read(j, out);
	for (; ok && out->tables_count < tables; out->tables_count++)
		ok = table_read(j, out->tables_count, &out->tables[out->tables_count]);
	for (; ok && out->partitions_count < partitions; out->partitions_count++)
		ok = partition_read(j, out->partitions_count, &out->partitions[out->partitions_count]);
	return ok ? WEIR_OK
	          : weir_fail(err, WEIR_E_CORRUPT, "%s does not say all that a manifest says; restore from another checkpoint",
	                      where);
}

static weir_status parse(const char *text, size_t bytes, const char *where, struct checkpoint_manifest *out, weir_error *err)
{
	struct json *j = NULL;
	weir_error why = {0};
	char hash[2 * CHECKPOINT_HASH_BYTES + 1];
	uint64_t version = 0;
	if (json_parse(text, bytes, where, &j, &why))
		return weir_fail(err, WEIR_E_CORRUPT, "%s; the manifest is damaged, restore from another checkpoint", why.text);
	weir_status status = WEIR_OK;
	struct json *body = json_get_object(j, "body");
	const char *said = json_get_text(j, "body_xxh3_128");
	if (!json_get_count(j, "weir_checkpoint", &version) || version == 0)
		status = weir_fail(err, WEIR_E_CORRUPT, "%s is no manifest of a checkpoint", where);
	else if (version > CHECKPOINT_MANIFEST_VERSION)
		status =
		    weir_fail(err, WEIR_E_VERSION, "%s has format version %" PRIu64 " and this program reads up to %u; use a newer Weir",
		              where, version, CHECKPOINT_MANIFEST_VERSION);
	else if (!body || !said || !body_hash(body, hash) || strcmp(hash, said) != 0)
		status = weir_fail(err, WEIR_E_CORRUPT, "%s fails its checksum; restore from another checkpoint", where);
	else
		status = body_read(body, where, out, err);
	json_destroy(body);
	json_destroy(j);
	return status;
}

struct names {
	char (*list)[WEIR_CHECKPOINT_NAME_BYTES_MAX];
	size_t count, capacity;
};

static int compare_names(const void *a, const void *b)
{
	return strcmp(a, b);
}

static weir_status collect_name(void *arg, const char *object, weir_error *err)
{
	struct names *n = arg;
	char name[WEIR_CHECKPOINT_NAME_BYTES_MAX];
	if (!is_manifest(object, name))
		return WEIR_OK;
	if (n->count == n->capacity) {
		size_t capacity = n->capacity ? 2 * n->capacity : 64;
		void *list = realloc(n->list, capacity * sizeof *n->list);
		if (!list)
			return weir_fail(err, WEIR_E_MEMORY, "out of memory listing checkpoints");
		n->list = list;
		n->capacity = capacity;
	}
	memcpy(n->list[n->count++], name, sizeof name);
	return WEIR_OK;
}

/* Lists the names of all checkpoints, oldest first. The caller frees out->list. */
static weir_status list_names(struct blob_store *s, struct names *out, weir_error *err)
{
	*out = (struct names){0};
	weir_status status = blob_list(s, "", collect_name, out, err);
	if (status) {
		free(out->list);
		return status;
	}
	if (out->count)
		qsort(out->list, out->count, sizeof *out->list, compare_names);
	return WEIR_OK;
}

static weir_status fail_unknown(struct blob_store *s, const char *name, weir_error *err)
{
	struct names n;
	weir_status status = list_names(s, &n, err);
	if (status)
		return status;
	status = n.count ? weir_fail(err, WEIR_E_NOT_FOUND, "%s holds no checkpoint '%s'; the last of its %zu is %s", s->place, name,
	                             n.count, n.list[n.count - 1])
	                 : weir_fail(err, WEIR_E_NOT_FOUND, "%s holds no checkpoint", s->place);
	free(n.list);
	return status;
}

weir_status checkpoint_manifest_read(struct blob_store *s, const char *name, struct checkpoint_manifest *out, weir_error *err)
{
	char object[WEIR_BLOB_NAME_BYTES_MAX], where[WEIR_PATH_BYTES_MAX + WEIR_BLOB_NAME_BYTES_MAX], *text = NULL;
	char same[WEIR_CHECKPOINT_NAME_BYTES_MAX];
	size_t bytes = 0;
	weir_error why = {0};
	struct checkpoint_manifest m = {0};
	snprintf(object, sizeof object, "%.100s.json", name);
	if (!is_manifest(object, same))
		return fail_unknown(s, name, err);
	snprintf(where, sizeof where, "%s/%s", s->place, object);
	weir_status status = blob_get(s, object, WEIR_CHECKPOINT_MANIFEST_BYTES_MAX, &text, &bytes, &why);
	if (status == WEIR_E_NOT_FOUND)
		return fail_unknown(s, name, err);
	if (status)
		return weir_fail(err, status, "%s", why.text);
	status = parse(text, bytes, where, &m, err);
	free(text);
	if (!status && strcmp(m.name, name) != 0)
		status = weir_fail(err, WEIR_E_CORRUPT, "%s is the manifest of %s under another name", where, m.name);
	if (status)
		checkpoint_manifest_destroy(&m);
	else
		*out = m;
	return status;
}

/* Orders two manifests of one job by age. Names do not decide first, because a clock may have gone
 * backwards. */
static int compare_manifests(const void *a, const void *b)
{
	const struct checkpoint_manifest *x = a, *y = b;
	if (x->generation != y->generation)
		return x->generation < y->generation ? -1 : 1;
	if (x->step != y->step)
		return x->step < y->step ? -1 : 1;
	return strcmp(x->name, y->name);
}

/* Selects the checkpoints to consider. */
struct kin {
	const char *job;     /* by job name; NULL: by run */
	const uint8_t *uuid; /* (16) the run, with generations up to this one */
	uint64_t generation;
};

static bool is_kin(const struct kin *k, const struct checkpoint_manifest *m)
{
	return k->job ? strcmp(m->job, k->job) == 0 : memcmp(m->uuid, k->uuid, sizeof m->uuid) == 0 && m->generation <= k->generation;
}

/* *name stays "" if there is no checkpoint. An unreadable manifest is an error, because it may be
 * the last one. */
static weir_status find_last(struct blob_store *s, const struct kin *k, char name[WEIR_CHECKPOINT_NAME_BYTES_MAX],
                             weir_error *err)
{
	struct names n;
	weir_status status = list_names(s, &n, err);
	if (status)
		return status;
	struct checkpoint_manifest last = {0};
	for (size_t i = 0; i < n.count && !status; i++) {
		struct checkpoint_manifest m = {0};
		status = checkpoint_manifest_read(s, n.list[i], &m, err);
		checkpoint_manifest_destroy(&m); /* frees its lists; the fields that are compared remain */
		if (!status && is_kin(k, &m) && (!*last.name || compare_manifests(&m, &last) > 0))
			last = m;
	}
	free(n.list);
	memcpy(name, last.name, sizeof last.name);
	return status;
}

weir_status checkpoint_latest(struct blob_store *s, const char *job, char out[WEIR_CHECKPOINT_NAME_BYTES_MAX], weir_error *err)
{
	weir_status status = find_last(s, &(struct kin){.job = job}, out, err);
	return status || *out ? status : weir_fail(err, WEIR_E_NOT_FOUND, "%s holds no checkpoint of job %s", s->place, job);
}

weir_status checkpoint_last_of_run(struct blob_store *s, const uint8_t uuid[16], uint64_t generation,
                                   struct checkpoint_manifest *out, weir_error *err)
{
	char name[WEIR_CHECKPOINT_NAME_BYTES_MAX];
	weir_status status = find_last(s, &(struct kin){.uuid = uuid, .generation = generation}, name, err);
	if (!status && !*name)
		status = weir_fail(err, WEIR_E_NOT_FOUND, "%s holds no checkpoint of this run", s->place);
	return status ? status : checkpoint_manifest_read(s, name, out, err);
}

/* --- Small files */

weir_status checkpoint_object_write(struct blob_store *s, const char *name, const void *data, size_t bytes,
                                    struct checkpoint_object *out, weir_error *err)
{
	*out = (struct checkpoint_object){.info = {.bytes = bytes}};
	snprintf(out->name, sizeof out->name, "%s", name);
	hash128_bytes(data, bytes, out->info.hash);
	return blob_put(s, name, data, bytes, err);
}

weir_status checkpoint_object_read(struct blob_store *s, const struct checkpoint_object *o, size_t bytes_max, uint8_t **out,
                                   size_t *bytes, weir_error *err)
{
	uint8_t hash[CHECKPOINT_HASH_BYTES];
	char *data = NULL;
	weir_status status = blob_get(s, o->name, bytes_max, &data, bytes, err);
	if (status)
		return status;
	hash128_bytes(data, *bytes, hash);
	if (*bytes != o->info.bytes || memcmp(hash, o->info.hash, sizeof hash) != 0) {
		free(data);
		return weir_fail(err, WEIR_E_CORRUPT,
		                 "%s/%s is not the file that the manifest names: %zu bytes of %" PRIu64
		                 ", or another checksum; restore from another checkpoint",
		                 s->place, o->name, *bytes, o->info.bytes);
	}
	*out = (uint8_t *)data;
	return WEIR_OK;
}

/* --- Ascending names */

static weir_status note_time(void *arg, const char *file, weir_error *err)
{
	int64_t *next_ms = arg;
	struct tm utc = {0};
	unsigned ms;
	const char *name = strrchr(file, '/');
	(void)err;
	if (sscanf(name ? name + 1 : file, "ck-%4d%2d%2dT%2d%2d%2d.%3uZ", &utc.tm_year, &utc.tm_mon, &utc.tm_mday, &utc.tm_hour,
	           &utc.tm_min, &utc.tm_sec, &ms) != 7)
		return WEIR_OK;
	utc.tm_year -= 1900;
	utc.tm_mon--;
	const int64_t at_ms = (int64_t)timegm(&utc) * 1000 + ms;
	if (at_ms >= *next_ms)
		*next_ms = at_ms + 1;
	return WEIR_OK;
}

weir_status checkpoint_next_ms(struct blob_store *s, const uint8_t uuid[16], int64_t now_ms, int64_t *out, weir_error *err)
{
	char folder[WEIR_BLOB_NAME_BYTES_MAX];
	*out = now_ms;
	files_folder(folder, uuid);
	return blob_list(s, folder, note_time, out, err);
}

/* --- Retention */

struct removal {
	struct blob_store *store;
	/* Prefix of the files of the newest checkpoint. Files that sort behind it stay. NULL: none
	 * stays. */
	const char *newest;
	struct checkpoint_manifest *manifests; /* latest last; removed ones name no files */
	size_t manifests_count;
};

static bool is_named(const struct removal *r, const char *file)
{
	for (size_t i = 0; i < r->manifests_count; i++) {
		const struct checkpoint_manifest *m = &r->manifests[i];
		if (strcmp(m->ledger.name, file) == 0)
			return true;
		for (uint32_t p = 0; p < m->partitions_count; p++) {
			if (strcmp(m->partitions[p].header.name, file) == 0)
				return true;
			for (uint32_t f = 0; f < m->partitions[p].rows_count; f++)
				if (strcmp(m->partitions[p].rows[f].name, file) == 0)
					return true;
		}
	}
	return false;
}

static weir_status remove_unnamed(void *arg, const char *file, weir_error *err)
{
	const struct removal *r = arg;
	if (is_named(r, file) || (r->newest && strncmp(file, r->newest, strlen(r->newest)) > 0))
		return WEIR_OK;
	return blob_remove(r->store, file, err);
}

static weir_status remove_manifest(struct blob_store *s, const char *name, weir_error *err)
{
	char object[WEIR_BLOB_NAME_BYTES_MAX];
	snprintf(object, sizeof object, "%s.json", name);
	return blob_remove(s, object, err);
}

/* An unreadable manifest stops the removal, because the files that it names are unknown. */
static weir_status read_manifests(struct removal *r, const struct names *n, weir_error *err)
{
	weir_status status = WEIR_OK;
	for (size_t i = 0; i < n->count && !status; i++) {
		status = checkpoint_manifest_read(r->store, n->list[i], &r->manifests[i], err);
		r->manifests_count += !status;
	}
	if (r->manifests_count)
		qsort(r->manifests, r->manifests_count, sizeof *r->manifests, compare_manifests);
	return status;
}

/* From the latest back: removes the manifests of this job beyond `keep`, so that they name no
 * files. */
static weir_status remove_old(struct removal *r, const uint8_t uuid[16], uint32_t keep, const char *base, weir_error *err)
{
	weir_status status = WEIR_OK;
	uint32_t own = 0;
	for (size_t i = r->manifests_count; i-- > 0 && !status;) {
		struct checkpoint_manifest *m = &r->manifests[i];
		if (memcmp(m->uuid, uuid, sizeof m->uuid) != 0 || ++own <= keep || (base && strcmp(m->name, base) == 0))
			continue;
		status = remove_manifest(r->store, m->name, err);
		checkpoint_manifest_destroy(m);
		m->ledger.name[0] = '\0';
	}
	return status;
}

weir_status checkpoint_retain(struct blob_store *s, const uint8_t uuid[16], uint32_t keep, const char *base, const char *newest,
                              weir_error *err)
{
	char folder[WEIR_BLOB_NAME_BYTES_MAX], prefix[WEIR_BLOB_NAME_BYTES_MAX];
	struct removal r = {.store = s};
	struct names n;
	assert(keep > 0);
	weir_status status = list_names(s, &n, err);
	if (status)
		return status;
	r.manifests = calloc(n.count + 1, sizeof *r.manifests);
	status = r.manifests ? read_manifests(&r, &n, err) : weir_fail(err, WEIR_E_MEMORY, "out of memory in retention");
	if (!status)
		status = remove_old(&r, uuid, keep, base, err);
	if (newest) {
		checkpoint_object_name(prefix, uuid, newest, "");
		r.newest = prefix;
	}
	files_folder(folder, uuid);
	if (!status)
		status = blob_list(s, folder, remove_unnamed, &r, err);
	for (size_t i = 0; i < r.manifests_count; i++)
		checkpoint_manifest_destroy(&r.manifests[i]);
	free(r.manifests);
	free(n.list);
	return status;
}
