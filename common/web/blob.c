/* The part that all kinds of stores share: it checks names and passes calls to the
 * implementation. */
#include "common/web/blob.h"

#include <stdlib.h>
#include <string.h>

/* A name, "a/b.c": parts of letters, digits, '.', '_', '=' and '-'; no part begins with a dot. */
static bool name_is_valid(const char *name)
{
	size_t length = strnlen(name, WEIR_BLOB_NAME_BYTES_MAX);
	if (length == 0 || length == WEIR_BLOB_NAME_BYTES_MAX)
		return false;
	for (size_t i = 0; i < length; i++) {
		char c = name[i];
		bool first = i == 0 || name[i - 1] == '/';
		bool plain =
		    (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '=' || c == '-';
		if (!plain && !(c == '.' && !first) && !(c == '/' && !first && i + 1 < length))
			return false;
	}
	return true;
}

static weir_status check_name(const struct blob_store *s, const char *name, weir_error *err)
{
	return name_is_valid(name)
	           ? WEIR_OK
	           : weir_fail(err, WEIR_E_INVALID,
	                       "%s: '%.200s' cannot be an object's name: letters, digits, . _ = - and single slashes, "
	                       "at most %u bytes, no part beginning with a dot",
	                       s->place, name, WEIR_BLOB_NAME_BYTES_MAX - 1);
}

weir_status blob_open(struct blob_store **out, const struct blob_options *options, weir_error *err)
{
	*out = NULL;
	if (strncmp(options->place, "s3://", 5) == 0)
		return blob_s3_open(out, options, err);
	if (strncmp(options->place, "http://", 7) == 0 || strncmp(options->place, "https://", 8) == 0)
		return blob_web_open(out, options, err);
	return blob_directory_open(out, options, err);
}

void blob_close(struct blob_store *s)
{
	if (s)
		s->ops->destroy(s);
}

weir_status blob_create(struct blob_store *s, const char *name, struct blob_writer **out, weir_error *err)
{
	*out = NULL;
	weir_status status = check_name(s, name, err);
	return status ? status : s->ops->create(s, name, out, err);
}

weir_status blob_write(struct blob_writer *w, const void *data, size_t bytes, weir_error *err)
{
	return w->store->ops->write(w, data, bytes, err);
}

weir_status blob_commit(struct blob_writer *w, weir_error *err)
{
	return w->store->ops->commit(w, err);
}

void blob_abandon(struct blob_writer *w)
{
	if (w)
		w->store->ops->abandon(w);
}

weir_status blob_put(struct blob_store *s, const char *name, const void *data, size_t bytes, weir_error *err)
{
	struct blob_writer *w;
	weir_status status = blob_create(s, name, &w, err);
	if (status)
		return status;
	status = blob_write(w, data, bytes, err);
	if (status) {
		blob_abandon(w);
		return status;
	}
	return blob_commit(w, err);
}

weir_status blob_read_at(struct blob_store *s, const char *name, uint64_t offset, void *out, size_t bytes, size_t *got,
                         weir_error *err)
{
	*got = 0;
	weir_status status = check_name(s, name, err);
	return status ? status : s->ops->read_at(s, name, offset, out, bytes, got, err);
}

weir_status blob_look(struct blob_store *s, const char *name, struct blob_look *out, weir_error *err)
{
	*out = (struct blob_look){0};
	weir_status status = check_name(s, name, err);
	return status ? status : s->ops->look(s, name, out, err);
}

weir_status blob_size(struct blob_store *s, const char *name, uint64_t *bytes, weir_error *err)
{
	struct blob_look look;
	weir_status status = blob_look(s, name, &look, err);
	*bytes = look.bytes;
	return status;
}

weir_status blob_get(struct blob_store *s, const char *name, size_t bytes_max, char **out, size_t *bytes, weir_error *err)
{
	uint64_t size;
	weir_status status = blob_size(s, name, &size, err);
	if (status)
		return status;
	if (size > bytes_max)
		return weir_fail(err, WEIR_E_LIMIT, "%s/%s has %llu bytes, the limit is %zu", s->place, name, (unsigned long long)size,
		                 bytes_max);
	char *data = malloc((size_t)size + 1);
	if (!data)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory reading %s/%s (%llu bytes)", s->place, name,
		                 (unsigned long long)size);
	status = blob_read_at(s, name, 0, data, (size_t)size, bytes, err);
	if (!status && *bytes != size)
		status = weir_fail(err, WEIR_E_IO, "%s/%s was cut while it was read: %zu of %llu bytes", s->place, name, *bytes,
		                   (unsigned long long)size);
	if (status) {
		free(data);
		return status;
	}
	data[*bytes] = 0;
	*out = data;
	return WEIR_OK;
}

weir_status blob_list(struct blob_store *s, const char *folder, blob_visit_fn visit, void *arg, weir_error *err)
{
	weir_status status = *folder ? check_name(s, folder, err) : WEIR_OK;
	return status ? status : s->ops->list(s, folder, visit, arg, err);
}

weir_status blob_list_below(struct blob_store *s, blob_visit_fn visit, void *arg, weir_error *err)
{
	if (!s->ops->list_below)
		return weir_fail(err, WEIR_E_UNSUPPORTED, "%s: the folders below a place are listed in buckets alone: s3://BUCKET/PREFIX",
		                 s->place);
	return s->ops->list_below(s, visit, arg, err);
}

weir_status blob_remove(struct blob_store *s, const char *name, weir_error *err)
{
	weir_status status = check_name(s, name, err);
	return status ? status : s->ops->remove(s, name, err);
}
