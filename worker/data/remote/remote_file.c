#include "worker/data/remote/remote_file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC "weir-remote 1"

struct remote_file {
	struct blob_store *store;
	struct remote_note note;
};

/* --- Notes */

/* Reads a line without its newline. */
static bool read_line(FILE *in, char *out, size_t bytes)
{
	if (!fgets(out, (int)bytes, in))
		return false;
	const size_t n = strcspn(out, "\n");
	const bool whole = out[n] == '\n';
	out[n] = 0;
	return whole;
}

bool remote_note_read(struct remote_note *out, const char *path)
{
	char magic[sizeof MAGIC + 1], bytes[24], *end;
	FILE *in = fopen(path, "re");
	if (!in)
		return false;
	bool is_note = read_line(in, magic, sizeof magic) && strcmp(magic, MAGIC) == 0 && read_line(in, bytes, sizeof bytes) &&
	               read_line(in, out->look.version, sizeof out->look.version) && read_line(in, out->place, sizeof out->place) &&
	               read_line(in, out->name, sizeof out->name) && read_line(in, out->endpoint, sizeof out->endpoint) &&
	               read_line(in, out->region, sizeof out->region);
	fclose(in);
	if (!is_note)
		return false;
	out->look.bytes = strtoull(bytes, &end, 10);
	return end > bytes && *end == 0;
}

weir_status remote_note_write(const struct remote_note *note, const char *path, weir_error *err)
{
	char part[WEIR_PATH_BYTES_MAX + 8];
	snprintf(part, sizeof part, "%s.part", path);
	FILE *out = fopen(part, "we");
	if (!out)
		return weir_fail(err, WEIR_E_IO, "cannot create %s: %s; make the folder writable or set data.cache", part,
		                 strerror(errno));
	/* an address may have a signature */
	const bool mine = fchmod(fileno(out), 0600) == 0;
	const int written = fprintf(out, MAGIC "\n%" PRIu64 "\n%s\n%s\n%s\n%s\n%s\n", note->look.bytes, note->look.version,
	                            note->place, note->name, note->endpoint, note->region);
	const bool closed = fclose(out) == 0;
	if (mine && written > 0 && closed && rename(part, path) == 0)
		return WEIR_OK;
	const weir_status status = weir_fail(err, WEIR_E_IO, "cannot write %s: %s", path, strerror(errno));
	(void)unlink(part);
	return status;
}

/* --- Objects */

weir_status remote_file_open(struct remote_file **out, const struct remote_note *note, weir_error *err)
{
	struct remote_file *f = calloc(1, sizeof *f);
	if (!f)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory opening %s", note->name);
	struct blob_credentials credentials;
	struct blob_look now;
	f->note = *note;
	blob_credentials_from_environment(&credentials);
	const struct blob_options o = {.place = f->note.place,
	                               .endpoint = f->note.endpoint,
	                               .region = f->note.region,
	                               .credentials = &credentials,
	                               .section = "data"};
	weir_status status = blob_open(&f->store, &o, err);
	if (status == WEIR_OK)
		status = blob_look(f->store, note->name, &now, err);
	if (status == WEIR_OK && (now.bytes != note->look.bytes || strcmp(now.version, note->look.version) != 0))
		status = weir_fail(err, WEIR_E_IO, "%s/%s has changed since it was found: start again", f->store->place, note->name);
	if (status != WEIR_OK) {
		remote_file_close(f);
		return status;
	}
	*out = f;
	return WEIR_OK;
}

weir_status remote_file_read(struct remote_file *f, uint64_t offset, void *out, size_t bytes, weir_error *err)
{
	for (size_t done = 0; done < bytes;) {
		const size_t wanted = bytes - done < WEIR_BLOB_PART_BYTES ? bytes - done : WEIR_BLOB_PART_BYTES;
		size_t got;
		const weir_status status = blob_read_at(f->store, f->note.name, offset + done, (char *)out + done, wanted, &got, err);
		if (status != WEIR_OK)
			return status;
		if (got == 0)
			return weir_fail(err, WEIR_E_IO, "%s/%s ends at %" PRIu64 " of %" PRIu64 " bytes: it has changed", f->store->place,
			                 f->note.name, offset + done, f->note.look.bytes);
		done += got;
	}
	return WEIR_OK;
}

void remote_file_close(struct remote_file *f)
{
	if (!f)
		return;
	blob_close(f->store);
	free(f);
}
