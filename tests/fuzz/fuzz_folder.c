/* Damaged files in a server's data folder: PROMISES, TABLES, IDENTITY. A file is refused and left
 * unchanged, or it is read, and the next start reads the same.
 *
 * Input: u8 file (bit 7: repair the checksum), the file. */
#include "tests/fuzz/fuzz.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/crc32c.h"
#include "common/base/little_endian.h"
#include "common/web/json.h"
#include "server/log/data_folder.h"
#include "server/log/journal.h"
#include "server/replica/vote_store.h"
#include "tests/unit/faulty_disk.h"

enum { PROMISES, TABLES, IDENTITY, KINDS };
enum { PARTITIONS = 5, SLOTS = PARTITIONS + 1 };
#define MEND           0x80u
#define FILE_BYTES_MAX (1u << 20)

static const char *const paths[] = {"folder/PROMISES", "folder/TABLES", "folder/IDENTITY"};

static uint8_t *read_file(struct faulty_disk *d, uint8_t kind, size_t *n)
{
	char *bytes = NULL;
	const weir_status status = disk_read_file(faulty_disk_interface(d), paths[kind], FILE_BYTES_MAX, &bytes, n, NULL);
	assert(status == WEIR_OK);
	(void)status;
	return (uint8_t *)bytes;
}

static void write_file(struct faulty_disk *d, uint8_t kind, const void *bytes, size_t n)
{
	const weir_status status = disk_write_file(faulty_disk_interface(d), paths[kind], bytes, n, NULL);
	assert(status == WEIR_OK);
	(void)status;
}

static void assert_untouched(struct faulty_disk *d, uint8_t kind, const uint8_t *bytes, size_t n)
{
	size_t m;
	uint8_t *now = read_file(d, kind, &m);
	assert(m == n && memcmp(now, bytes, n) == 0);
	free(now);
}

/* --- PROMISES */

static struct vote_store *open_votes(struct faulty_disk *d, weir_error *err)
{
	struct vote_store *p = NULL;
	const struct vote_store_options o = {.disk = faulty_disk_interface(d),
	                                     .path = paths[PROMISES],
	                                     .id = "server 1, test",
	                                     .machine_boot = "this boot",
	                                     .partitions = PARTITIONS,
	                                     .log = VOTE_LOG_CACHED,
	                                     .stepped = true};
	return vote_store_open(&p, &o, err) == WEIR_OK ? p : NULL;
}

static void check_votes(struct faulty_disk *d, const uint8_t *bytes, size_t n)
{
	weir_error err = {0};
	struct vote found[SLOTS];
	struct vote_store *p = open_votes(d, &err);
	if (!p) {
		assert(err.text[0]);
		assert_untouched(d, PROMISES, bytes, n);
		return;
	}
	const uint64_t incarnation = vote_store_incarnation(p);
	for (uint32_t i = 0; i < SLOTS; i++)
		found[i] = vote_store_found(p, i == PARTITIONS ? JOURNAL_LEDGER : (uint16_t)i);
	vote_store_close(p, true);
	p = open_votes(d, &err);
	assert(p && incarnation > 0 && vote_store_incarnation(p) > incarnation);
	for (uint32_t i = 0; i < SLOTS; i++) {
		const struct vote again = vote_store_found(p, i == PARTITIONS ? JOURNAL_LEDGER : (uint16_t)i);
		assert(again.promised == found[i].promised && again.whole == found[i].whole);
	}
	vote_store_close(p, true);
}

/* --- TABLES and IDENTITY */

static struct folder *open_folder(struct faulty_disk *d, weir_error *err)
{
	static const struct folder_identity who = {.uuid = {1, 2, 3}, .generation = 2, .index = 1, .servers = 3, .partitions = 8};
	struct folder *f = NULL;
	if (folder_open(&f, faulty_disk_interface(d), "folder", "fuzz", &who, &(struct folder_start){0}, err) != WEIR_OK)
		return NULL;
	const weir_status status = folder_begin(f, err);
	assert(status == WEIR_OK);
	(void)status;
	return f;
}

static void add_tables(struct faulty_disk *d)
{
	static const weir_init_segment zero = {.elements = 8};
	weir_table_spec spec = {.name = "rows",
	                        .kind = WEIR_EMBEDDING,
	                        .width = 8,
	                        .optimizer = {.kind = WEIR_OPT_SGD, .lr = 1},
	                        .segments_count = 1,
	                        .segments = &zero};
	struct folder *f = open_folder(d, NULL);
	for (uint32_t id = 1; id < 3; id++) {
		struct wire_table wire;
		weir_status status = wire_table_make(&wire, &spec, id);
		assert(f && status == WEIR_OK);
		status = folder_add_table(f, &wire.table, NULL);
		assert(status == WEIR_OK);
		(void)status;
		wire_table_destroy(&wire);
		strcpy(spec.name, "more");
	}
	folder_close(f, true);
}

static void check_folder(struct faulty_disk *d, uint8_t kind, const uint8_t *bytes, size_t n)
{
	weir_error err = {0};
	size_t tables, again;
	struct folder *f = open_folder(d, &err);
	if (!f) {
		assert(err.text[0]);
		assert_untouched(d, kind, bytes, n);
		return;
	}
	(void)folder_tables(f, &tables);
	const uint64_t epoch = folder_epoch(f);
	folder_close(f, true);
	f = open_folder(d, &err);
	if (epoch == INT64_MAX) { /* the last epoch */
		assert(!f && err.text[0]);
		return;
	}
	assert(f && folder_epoch(f) > epoch && folder_was_clean(f));
	Weir__V1__Table *const *list = folder_tables(f, &again);
	assert(tables == again);
	for (size_t i = 0; i < again; i++)
		assert(list[i]->base.descriptor == &weir__v1__table__descriptor);
	folder_close(f, true);
}

/* --- Checksums */

/* The checksum covers the sorted document without the checksum. */
static uint8_t *mend_identity(uint8_t *bytes, size_t *n)
{
	static const char *const counts[] = {"version", "generation", "index", "servers", "partitions", "epoch"};
	struct json *j = NULL, *same = json_create();
	if (json_parse((const char *)bytes, *n, "IDENTITY", &j, NULL) == WEIR_OK) {
		for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
			uint64_t count = 0;
			(void)json_get_count(j, counts[i], &count);
			json_set_count(same, counts[i], count);
		}
		json_set_text(same, "uuid", json_get_text(j, "uuid") ? json_get_text(j, "uuid") : "");
		json_set_bool(same, "restoring", json_get_bool(j, "restoring"));
		json_set_bool(same, "clean", json_get_bool(j, "clean"));
		char *text = json_canonical(same);
		assert(text);
		json_set_count(j, "crc32c", crc32c(0, text, strlen(text)));
		free(text);
		char *mended = json_text(j);
		if (mended) {
			free(bytes);
			bytes = (uint8_t *)mended;
			*n = strlen(mended);
		}
		json_destroy(j);
	}
	json_destroy(same);
	return bytes;
}

static uint8_t *mend(uint8_t kind, uint8_t *bytes, size_t *n)
{
	if (kind == IDENTITY)
		return mend_identity(bytes, n);
	if (kind == TABLES && *n >= 4)
		put32(bytes, crc32c(0, bytes + 4, *n - 4));
	if (kind == PROMISES && *n >= VOTES_HEADER_BYTES) {
		put32(bytes + 60, 0);
		put32(bytes + 60, crc32c(0, bytes, *n));
	}
	return bytes;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 1)
		return 0;
	const uint8_t kind = (data[0] & (MEND - 1)) % KINDS;
	size_t n = size - 1;
	uint8_t *bytes = malloc(n ? n : 1);
	struct faulty_disk *d = faulty_disk_create();
	assert(bytes);
	memcpy(bytes, data + 1, n);
	if (data[0] & MEND)
		bytes = mend(kind, bytes, &n);
	if (kind == TABLES)
		add_tables(d);
	write_file(d, kind, bytes, n);
	if (kind == PROMISES)
		check_votes(d, bytes, n);
	else
		check_folder(d, kind, bytes, n);
	faulty_disk_destroy(d);
	free(bytes);
	return 0;
}

/* The highest possible epoch. */
static uint8_t *last_epoch(uint8_t *bytes, size_t *n)
{
	struct json *j = NULL;
	const weir_status status = json_parse((const char *)bytes, *n, "IDENTITY", &j, NULL);
	assert(status == WEIR_OK);
	(void)status;
	json_set_count(j, "epoch", INT64_MAX);
	char *text = json_text(j);
	assert(text);
	json_destroy(j);
	free(bytes);
	*n = strlen(text);
	return (uint8_t *)text;
}

/* Each file as a start leaves it. */
uint8_t *fuzz_seed(uint32_t i, size_t *size)
{
	if (i > 2 * KINDS)
		return NULL;
	if (i == 2 * KINDS) {
		uint8_t *file = fuzz_seed(IDENTITY, size), *bytes = malloc(*size);
		assert(bytes);
		size_t n = *size - 1;
		memcpy(bytes, file + 1, n);
		bytes = last_epoch(bytes, &n);
		file = realloc(file, n + 1);
		assert(file);
		memcpy(file + 1, bytes, n);
		free(bytes);
		*size = n + 1;
		return file;
	}
	const uint8_t kind = (uint8_t)(i % KINDS);
	struct faulty_disk *d = faulty_disk_create();
	if (kind == PROMISES)
		vote_store_close(open_votes(d, NULL), i < KINDS);
	else
		add_tables(d);
	size_t n;
	uint8_t *bytes = read_file(d, kind, &n), *seed = malloc(n + 1);
	assert(seed);
	seed[0] = (uint8_t)(kind | (i < KINDS ? MEND : 0));
	memcpy(seed + 1, bytes, n);
	*size = n + 1;
	free(bytes);
	faulty_disk_destroy(d);
	return seed;
}
