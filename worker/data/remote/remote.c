#include "worker/data/remote/remote.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/hash.h"
#include "common/web/blob.h"
#include "worker/data/remote/cache_lock.h"
#include "worker/data/remote/remote_file.h"

#define COPY_BYTES      WEIR_BLOB_PART_BYTES /* per request */
#define SHOWN_BYTES     300u                 /* of an address in a message */
#define GLOB_CHARACTERS "*?["

bool remote_is(const char *pattern)
{
	return strncmp(pattern, "https://", 8) == 0 || strncmp(pattern, "http://", 7) == 0 || strncmp(pattern, "s3://", 5) == 0;
}

/* Returns how many bytes of an address messages may show. They end before its query, which may hold
 * a signature. */
static int shown(const char *address)
{
	const size_t n = strcspn(address, "?");
	return n < SHOWN_BYTES ? (int)n : (int)SHOWN_BYTES;
}

/* --- Several addresses in one */

/* Expands pattern[0 .. before), the middle, and `after`, which may have more braces. */
static weir_status expand_with(const char *pattern, size_t before, const char *middle, size_t middle_bytes, const char *after,
                               remote_visit_fn visit, void *arg, weir_error *err)
{
	char text[WEIR_PATH_BYTES_MAX];
	if (snprintf(text, sizeof text, "%.*s%.*s%s", (int)before, pattern, (int)middle_bytes, middle, after) >= (int)sizeof text)
		return weir_fail(err, WEIR_E_LIMIT, "%.*s...: the address is too long", shown(pattern), pattern);
	return remote_expand(text, visit, arg, err);
}

/* Parses "08..10": first, last, and the number of digits of the first. */
static bool is_range(const char *inside, uint32_t *first, uint32_t *last, int *digits)
{
	int used = 0, used_first = 0;
	if (sscanf(inside, "%9" SCNu32 "%n..%9" SCNu32 "%n", first, &used_first, last, &used) != 2 || inside[used] != '}')
		return false;
	*digits = used_first;
	return true;
}

weir_status remote_expand(const char *pattern, remote_visit_fn visit, void *arg, weir_error *err)
{
	const size_t before = strcspn(pattern, "{");
	if (!pattern[before])
		return visit(arg, pattern, err);
	const char *inside = pattern + before + 1, *close = strchr(inside, '}');
	if (!close)
		return weir_fail(err, WEIR_E_INVALID, "%.*s: a { without a }", shown(pattern), pattern);
	uint32_t first, last;
	int digits;
	weir_status status = WEIR_OK;
	if (is_range(inside, &first, &last, &digits)) {
		if (last < first || last - first >= WEIR_DATA_FILES_MAX)
			return weir_fail(err, WEIR_E_LIMIT, "%.*s: numbers rise, and are at most %u", shown(pattern), pattern,
			                 WEIR_DATA_FILES_MAX);
		for (uint32_t n = first; n <= last && status == WEIR_OK; n++) {
			char number[16];
			const int bytes = snprintf(number, sizeof number, "%0*" PRIu32, digits, n);
			status = expand_with(pattern, before, number, (size_t)bytes, close + 1, visit, arg, err);
		}
		return status;
	}
	for (const char *at = inside; at <= close && status == WEIR_OK;) {
		const size_t bytes = strcspn(at, ",}");
		status = expand_with(pattern, before, at, bytes, close + 1, visit, arg, err);
		at += bytes + 1;
	}
	return status;
}

/* --- One object */

static weir_status write_at(int fd, const char *path, const uint8_t *from, size_t bytes, uint64_t at, weir_error *err)
{
	for (size_t done = 0; done < bytes;) {
		const ssize_t n = pwrite(fd, from + done, bytes - done, (off_t)(at + done));
		if (n < 0 && errno != EINTR)
			return weir_fail(err, errno == ENOSPC ? WEIR_E_NO_SPACE : WEIR_E_IO,
			                 "cannot write %s: %s; data.cache is to have room for the data", path, strerror(errno));
		done += n > 0 ? (size_t)n : 0;
	}
	return fdatasync(fd) == 0 ? WEIR_OK : weir_fail(err, WEIR_E_IO, "cannot write %s: %s", path, strerror(errno));
}

/* Copies the bytes of the object after those that the file already has. */
static weir_status copy_rest(struct blob_store *store, const char *name, const struct blob_look *look, int fd, const char *path,
                             weir_error *err)
{
	struct stat st;
	if (fstat(fd, &st) != 0)
		return weir_fail(err, WEIR_E_IO, "cannot read %s: %s", path, strerror(errno));
	uint8_t *block = malloc(COPY_BYTES);
	weir_status status = block ? WEIR_OK : weir_fail(err, WEIR_E_MEMORY, "out of memory copying %s", name);
	for (uint64_t at = (uint64_t)st.st_size; at < look->bytes && status == WEIR_OK;) {
		const size_t wanted = look->bytes - at < COPY_BYTES ? (size_t)(look->bytes - at) : COPY_BYTES;
		size_t got;
		status = blob_read_at(store, name, at, block, wanted, &got, err);
		if (status == WEIR_OK && got < wanted)
			status = weir_fail(err, WEIR_E_IO, "%s/%s ends at %" PRIu64 " of %" PRIu64 " bytes: it has changed", store->place,
			                   name, at + got, look->bytes);
		if (status == WEIR_OK)
			status = write_at(fd, path, block, got, at, err);
		at += got;
	}
	free(block);
	return status;
}

/* An object that was replaced during its copy would give a mixture of both versions. */
static weir_status check_same(struct blob_store *store, const char *name, const struct blob_look *look, weir_error *err)
{
	struct blob_look now;
	const weir_status status = blob_look(store, name, &now, err);
	if (status != WEIR_OK || (now.bytes == look->bytes && strcmp(now.version, look->version) == 0))
		return status;
	return weir_fail(err, WEIR_E_IO, "%s/%s has changed while it was copied", store->place, name);
}

static bool is_there(const char *path, uint64_t bytes)
{
	struct stat st;
	return stat(path, &st) == 0 && S_ISREG(st.st_mode) && (uint64_t)st.st_size == bytes;
}

/* The caller holds the lock. */
static weir_status copy(const struct remote_options *o, struct blob_store *store, const char *name, const struct blob_look *look,
                        const char *path, weir_error *err)
{
	char part[WEIR_PATH_BYTES_MAX + 8];
	snprintf(part, sizeof part, "%s.part", path);
	const int64_t began_ms = clock_ms(clock_system());
	const int fd = open(part, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0)
		return weir_fail(err, WEIR_E_IO, "cannot create %s: %s; make the folder writable or set data.cache", part,
		                 strerror(errno));
	weir_status status = copy_rest(store, name, look, fd, part, err);
	close(fd);
	if (status == WEIR_OK && (status = check_same(store, name, look, err)) == WEIR_E_IO)
		(void)unlink(part);
	if (status == WEIR_OK && rename(part, path) != 0)
		status = weir_fail(err, WEIR_E_IO, "cannot rename %s: %s", part, strerror(errno));
	if (status == WEIR_OK)
		LOG_AT(o->logger, LOG_INFO, "data copied", "from=%s/%s to=%s bytes=%" PRIu64 " ms=%lld", store->place, name, path,
		       look->bytes, (long long)(clock_ms(clock_system()) - began_ms));
	return status;
}

/* Writes the note of an object, or one as before in its place. */
static weir_status note_object(const struct remote_options *o, const char *place, const char *name, const struct blob_look *look,
                               const char *path, weir_error *err)
{
	struct remote_note note = {.look = *look};
	snprintf(note.place, sizeof note.place, "%s", place);
	snprintf(note.name, sizeof note.name, "%s", name);
	snprintf(note.endpoint, sizeof note.endpoint, "%s", o->endpoint ? o->endpoint : "");
	snprintf(note.region, sizeof note.region, "%s", o->region ? o->region : "");
	return remote_note_write(&note, path, err);
}

/* Appends /part, if there is room. */
static bool append_part(char path[WEIR_PATH_BYTES_MAX], const char *part, size_t bytes)
{
	const size_t used = strlen(path);
	if (used + 1 + bytes >= WEIR_PATH_BYTES_MAX)
		return false;
	snprintf(path + used, WEIR_PATH_BYTES_MAX - used, "/%.*s", (int)bytes, part);
	return true;
}

/* The path of a copy: dir, the folders NAME=VALUE of the address, the last part of the name. */
static weir_status path_of_copy(const char *dir, const char *place, const char *name, char path[WEIR_PATH_BYTES_MAX],
                                weir_error *err)
{
	char address[WEIR_PATH_BYTES_MAX + WEIR_BLOB_NAME_BYTES_MAX + 1];
	const char *part = address, *slash;
	bool fits = true;
	snprintf(address, sizeof address, "%.*s/%s", (int)strcspn(place, "?"), place, name);
	snprintf(path, WEIR_PATH_BYTES_MAX, "%s", dir);
	for (; (slash = strchr(part, '/')) != NULL; part = slash + 1)
		if (memchr(part, '=', (size_t)(slash - part)))
			fits = fits && append_part(path, part, (size_t)(slash - part));
	fits = fits && append_part(path, part, strlen(part));
	return fits ? WEIR_OK : weir_fail(err, WEIR_E_LIMIT, "%.*s...: the folders are too long", shown(address), address);
}

/* The folder of a copy depends on everything that identifies the object, so that an existing copy
 * needs no check of its content. place: of the store, with its query. */
static weir_status copy_once(const struct remote_options *o, struct blob_store *store, const char *place, const char *name,
                             char path[WEIR_PATH_BYTES_MAX], weir_error *err)
{
	struct blob_look look;
	weir_status status = blob_look(store, name, &look, err);
	if (status != WEIR_OK)
		return status;
	char dir[WEIR_PATH_BYTES_MAX], lock_path[WEIR_PATH_BYTES_MAX];
	uint64_t hash = hash_bytes(store->place, strlen(store->place) + 1, look.bytes);
	hash = hash_bytes(look.version, strlen(look.version), hash_bytes(name, strlen(name), hash));
	snprintf(dir, sizeof dir, "%.3000s/remote/%016" PRIx64, o->dir, hash);
	snprintf(lock_path, sizeof lock_path, "%.3100s/.lock", dir);
	status = path_of_copy(dir, place, name, path, err);
	if (status != WEIR_OK || is_there(path, look.bytes))
		return status;
	int lock;
	status = cache_lock(dir, lock_path, &lock, err);
	if (status != WEIR_OK)
		return status;
	snprintf(dir, sizeof dir, "%.*s", (int)(strrchr(path, '/') - path), path);
	status = disk_system()->ops->make_dirs(disk_system(), dir, err);
	/* Another process may have copied it while this one waited. */
	if (status == WEIR_OK && !is_there(path, look.bytes))
		status = o->by_ranges ? note_object(o, place, name, &look, path, err) : copy(o, store, name, &look, path, err);
	close(lock);
	return status;
}

/* --- Matching objects */

struct finding {
	const struct remote_options *options;
	struct blob_store *store;
	const char *place; /* of the store, as given */
	/* S3: pattern for the names below the place, "" for all; NULL: one object */
	const char *glob;
	remote_visit_fn visit;
	void *arg;
	uint32_t found;
};

/* Whether Hive and Spark leave an object of a table out: a part of its name begins with '.', or
 * with '_' and is no column; or it stands for a folder. */
static bool is_hidden(const char *name)
{
	for (const char *part = name;; part++) {
		const size_t bytes = strcspn(part, "/");
		if (bytes == 0 || *part == '.' || (*part == '_' && !memchr(part, '=', bytes)))
			return true;
		part += bytes;
		if (!*part)
			return false;
	}
}

static bool is_meant(const struct finding *f, const char *name)
{
	if (!f->glob)
		return true;
	return *f->glob ? fnmatch(f->glob, name, FNM_PATHNAME | FNM_PERIOD) == 0 : !is_hidden(name);
}

static weir_status visit_object(void *arg, const char *name, weir_error *err)
{
	struct finding *f = arg;
	char path[WEIR_PATH_BYTES_MAX];
	if (!is_meant(f, name))
		return WEIR_OK;
	f->found++;
	weir_status status = copy_once(f->options, f->store, f->place, name, path, err);
	return status == WEIR_OK ? f->visit(f->arg, path, err) : status;
}

/* Splits "https://host/a/b.gz?c" into "https://host/a?c" and "b.gz"; "s3://b/a/d=?/x" into
 * "s3://b/a/" and "d=?/x", the part with the pattern and all behind it; "s3://b/a/" into itself and
 * "". */
static weir_status split_address(const char *address, char place[WEIR_PATH_BYTES_MAX], char name[WEIR_BLOB_NAME_BYTES_MAX],
                                 weir_error *err)
{
	const bool s3 = strncmp(address, "s3://", 5) == 0;
	const char *query = address + (s3 ? strlen(address) : strcspn(address, "?"));
	const char *base = s3 ? address + strcspn(address, GLOB_CHARACTERS) : query;
	while (base > address && base[-1] != '/')
		base--;
	if (base <= strstr(address, "://") + 3 || (base == query && !s3))
		return weir_fail(err, WEIR_E_INVALID, "%.*s: expected %s", shown(address), address,
		                 s3 ? "s3://BUCKET/KEY, which may be a glob, or s3://BUCKET/FOLDER/"
		                    : "an address of a file, as https://HOST/PATH");
	if ((size_t)(query - base) >= WEIR_BLOB_NAME_BYTES_MAX || strlen(address) >= WEIR_PATH_BYTES_MAX)
		return weir_fail(err, WEIR_E_LIMIT, "%.*s...: the name is too long", shown(address), address);
	snprintf(name, WEIR_BLOB_NAME_BYTES_MAX, "%.*s", (int)(query - base), base);
	snprintf(place, WEIR_PATH_BYTES_MAX, "%.*s%s", (int)(base - address), address, query);
	return WEIR_OK;
}

static weir_status find_address(void *arg, const char *address, weir_error *err)
{
	struct finding f = *(const struct finding *)arg;
	char place[WEIR_PATH_BYTES_MAX], name[WEIR_BLOB_NAME_BYTES_MAX];
	struct blob_credentials credentials;
	weir_status status = split_address(address, place, name, err);
	if (status != WEIR_OK)
		return status;
	blob_credentials_from_environment(&credentials);
	const struct blob_options o = {.place = place,
	                               .endpoint = f.options->endpoint,
	                               .region = f.options->region,
	                               .credentials = &credentials,
	                               .section = "data"};
	status = blob_open(&f.store, &o, err);
	if (status != WEIR_OK)
		return status;
	const bool is_glob = strncmp(address, "s3://", 5) == 0 && (!*name || strpbrk(name, GLOB_CHARACTERS));
	f.place = place;
	f.glob = is_glob ? name : NULL;
	if (!is_glob)
		status = visit_object(&f, name, err);
	else if (!*name || strchr(name, '/'))
		status = blob_list_below(f.store, visit_object, &f, err);
	else
		status = blob_list(f.store, "", visit_object, &f, err);
	if (status == WEIR_OK && f.found == 0)
		status = weir_fail(err, WEIR_E_NOT_FOUND, "no object matches %s", address);
	blob_close(f.store);
	return status;
}

weir_status remote_find(const struct remote_options *o, const char *pattern, remote_visit_fn visit, void *arg, weir_error *err)
{
	struct finding f = {.options = o, .visit = visit, .arg = arg};
	return remote_expand(pattern, find_address, &f, err);
}
