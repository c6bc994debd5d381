/* A checkpoint's damaged manifest: refused, or written again, and then read and written alike.
 *
 * Input: u8 (bit 0: repair the body's hash), the JSON. */
#include "tests/fuzz/fuzz.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/hash.h"
#include "common/web/json.h"
#include "server/checkpoint/checkpoint_manifest.h"

/* A store of one object of any name. */
struct one_object {
	struct blob_store base;
	char *data;
	size_t bytes;
};

static weir_status one_create(struct blob_store *self, const char *name, struct blob_writer **out, weir_error *err)
{
	struct one_object *o = (struct one_object *)self;
	(void)name, (void)err;
	free(o->data);
	o->data = NULL;
	o->bytes = 0;
	*out = calloc(1, sizeof **out);
	assert(*out);
	(*out)->store = self;
	return WEIR_OK;
}

static weir_status one_write(struct blob_writer *w, const void *data, size_t bytes, weir_error *err)
{
	struct one_object *o = (struct one_object *)w->store;
	(void)err;
	o->data = realloc(o->data, o->bytes + bytes + 1);
	assert(o->data);
	memcpy(o->data + o->bytes, data, bytes);
	o->bytes += bytes;
	return WEIR_OK;
}

static weir_status one_commit(struct blob_writer *w, weir_error *err)
{
	(void)err;
	free(w);
	return WEIR_OK;
}

static weir_status one_read_at(struct blob_store *self, const char *name, uint64_t offset, void *out, size_t bytes, size_t *got,
                               weir_error *err)
{
	const struct one_object *o = (const struct one_object *)self;
	(void)name, (void)err;
	assert(offset == 0 && bytes == o->bytes);
	memcpy(out, o->data, bytes);
	*got = bytes;
	return WEIR_OK;
}

static weir_status one_look(struct blob_store *self, const char *name, struct blob_look *out, weir_error *err)
{
	(void)name, (void)err;
	out->bytes = ((const struct one_object *)self)->bytes;
	return WEIR_OK;
}

static weir_status one_list(struct blob_store *self, const char *folder, blob_visit_fn visit, void *arg, weir_error *err)
{
	(void)self, (void)folder;
	return visit(arg, "ck-other.json", err);
}

static const struct blob_ops ops = {
    .create = one_create, .write = one_write, .commit = one_commit, .read_at = one_read_at, .look = one_look, .list = one_list};

/* Returns the name in the manifest. Repairs the hash of the body with `mend`. */
static void prepare(struct one_object *o, bool mend, char name[WEIR_CHECKPOINT_NAME_BYTES_MAX])
{
	struct json *j = NULL;
	snprintf(name, WEIR_CHECKPOINT_NAME_BYTES_MAX, "ck-none");
	if (json_parse(o->data, o->bytes, "manifest", &j, NULL) != WEIR_OK)
		return;
	struct json *body = json_get_object(j, "body");
	const char *said = body ? json_get_text(body, "name") : NULL;
	if (said)
		snprintf(name, WEIR_CHECKPOINT_NAME_BYTES_MAX, "%s", said);
	char *canonical = body && mend ? json_canonical(body) : NULL;
	if (canonical) {
		uint8_t hash[CHECKPOINT_HASH_BYTES];
		char text[2 * CHECKPOINT_HASH_BYTES + 1];
		hash128_bytes(canonical, strlen(canonical), hash);
		for (size_t i = 0; i < sizeof hash; i++)
			snprintf(text + 2 * i, 3, "%02x", hash[i]);
		json_set_text(j, "body_xxh3_128", text);
		char *mended = json_text(j);
		assert(mended);
		free(o->data);
		o->data = mended;
		o->bytes = strlen(mended);
	}
	free(canonical);
	json_destroy(body);
	json_destroy(j);
}

static void check(struct one_object *o, const char *name)
{
	struct checkpoint_manifest m = {0}, again = {0};
	weir_error err = {0};
	if (checkpoint_manifest_read(&o->base, name, &m, &err) != WEIR_OK) {
		assert(err.text[0] && !m.tables && !m.partitions);
		return;
	}
	weir_status status = checkpoint_manifest_write(&o->base, &m, &err);
	char *first = malloc(o->bytes + 1);
	const size_t bytes = o->bytes;
	assert(first && status == WEIR_OK);
	memcpy(first, o->data, bytes);
	status = checkpoint_manifest_read(&o->base, name, &again, &err);
	assert(status == WEIR_OK);
	status = checkpoint_manifest_write(&o->base, &again, &err);
	assert(status == WEIR_OK && o->bytes == bytes && memcmp(o->data, first, bytes) == 0);
	checkpoint_manifest_destroy(&m);
	checkpoint_manifest_destroy(&again);
	free(first);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char name[WEIR_CHECKPOINT_NAME_BYTES_MAX];
	if (size < 1)
		return 0;
	struct one_object o = {.base = {.ops = &ops, .place = "memory"}, .data = malloc(size), .bytes = size - 1};
	assert(o.data);
	memcpy(o.data, data + 1, o.bytes);
	prepare(&o, data[0] & 1, name);
	check(&o, name);
	free(o.data);
	return 0;
}

static struct checkpoint_object file_named(const char *name, uint64_t n)
{
	struct checkpoint_object o = {.info = {.bytes = 100 * n, .rows = n, .hash = {1, 2, (uint8_t)n}}, .index = 10 + n};
	snprintf(o.name, sizeof o.name, "files-0102/%s.%llu", name, (unsigned long long)n);
	return o;
}

/* With tables and partitions, and without. */
uint8_t *fuzz_seed(uint32_t i, size_t *size)
{
	static const weir_init_segment normal = {.elements = 8, .kind = WEIR_INIT_NORMAL, .a = 0.01f};
	struct checkpoint_table tables[] = {
	    {.id = 3, .spec = {.name = "embedding", .kind = WEIR_EMBEDDING, .width = 8, .segments_count = 1, .segments = &normal}},
	    {.id = 5, .spec = {.name = "dense", .kind = WEIR_DENSE, .elements = 8, .segments_count = 1, .segments = &normal}}};
	static struct checkpoint_partition partitions[2];
	struct checkpoint_manifest m = {.job = "demo", .generation = 2, .step = 42, .values = ROWS_BF16, .uuid = {1, 2}};
	struct one_object o = {.base = {.ops = &ops, .place = "memory"}};
	if (i > 3)
		return NULL;
	checkpoint_name(m.name, m.uuid, m.created_ms = 1800000000123);
	m.ledger = file_named(m.name, 1);
	for (uint32_t p = 0; p < 2; p++)
		partitions[p] = (struct checkpoint_partition){.index = 100 + p,
		                                              .header = file_named(m.name, 2 + p),
		                                              .rows_count = 1 + p,
		                                              .rows = {file_named(m.name, 4 + p), file_named(m.name, 7)}};
	if (i < 2) {
		m.tables = tables;
		m.tables_count = 2;
		m.partitions = partitions;
		m.partitions_count = 2;
	}
	for (uint32_t t = 0; t < 2; t++)
		tables[t].spec.optimizer = (weir_optimizer){.kind = WEIR_OPT_ADAGRAD, .lr = 0.1f, .eps = 1e-8f};
	const weir_status status = checkpoint_manifest_write(&o.base, &m, NULL);
	uint8_t *seed = malloc(o.bytes + 1);
	assert(seed && status == WEIR_OK);
	(void)status;
	seed[0] = !(i & 1);
	memcpy(seed + 1, o.data, o.bytes);
	*size = o.bytes + 1;
	free(o.data);
	return seed;
}
