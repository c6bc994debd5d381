/* Objects below a folder of a web server, read only, by ranges. A query ('?') of the folder is sent
 * with each object. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/web/blob.h"
#include "common/web/web_request.h"

struct web {
	struct blob_store base;
	struct web_service *service;
	char folder[1024]; /* "" or "a/b/" */
	char query[1024];
};

static weir_status key_of(const struct web *s, const char *name, char out[WEIR_PATH_BYTES_MAX], weir_error *err)
{
	if (snprintf(out, WEIR_PATH_BYTES_MAX, "%s%s", s->folder, name) < (int)WEIR_PATH_BYTES_MAX)
		return WEIR_OK;
	return weir_fail(err, WEIR_E_LIMIT, "%s/%s: the name is too long", s->base.place, name);
}

static weir_status web_read_at(struct blob_store *self, const char *name, uint64_t offset, void *out, size_t bytes, size_t *got,
                               weir_error *err)
{
	struct web *s = (struct web *)self;
	struct web_answer a;
	char key[WEIR_PATH_BYTES_MAX];
	*got = 0;
	weir_status status = key_of(s, name, key, err);
	if (status || bytes == 0)
		return status;
	const struct web_request q = {
	    .method = "GET", .key = key, .query = s->query, .ranged = true, .offset = offset, .out = out, .bytes = bytes};
	status = web_perform(s->service, &q, "read", &a, err);
	if (status)
		return status;
	*got = a.got;
	web_answer_destroy(&a);
	return WEIR_OK;
}

static weir_status web_look(struct blob_store *self, const char *name, struct blob_look *out, weir_error *err)
{
	struct web *s = (struct web *)self;
	struct web_answer a;
	char key[WEIR_PATH_BYTES_MAX];
	weir_status status = key_of(s, name, key, err);
	if (!status)
		status = web_perform(s->service, &(struct web_request){.method = "HEAD", .key = key, .query = s->query}, "find", &a, err);
	if (status)
		return status;
	out->bytes = a.length;
	snprintf(out->version, sizeof out->version, "%s", a.etag);
	web_answer_destroy(&a);
	return WEIR_OK;
}

static weir_status cannot(const struct blob_store *self, const char *what, weir_error *err)
{
	return weir_fail(err, WEIR_E_UNSUPPORTED, "%s: a web server %s; use s3://BUCKET/PREFIX or a folder", self->place, what);
}

static weir_status web_create(struct blob_store *self, const char *name, struct blob_writer **out, weir_error *err)
{
	(void)name;
	(void)out;
	return cannot(self, "takes no objects", err);
}

static weir_status web_list(struct blob_store *self, const char *folder, blob_visit_fn visit, void *arg, weir_error *err)
{
	(void)folder;
	(void)visit;
	(void)arg;
	return cannot(self, "does not tell which objects it has", err);
}

static weir_status web_remove(struct blob_store *self, const char *name, weir_error *err)
{
	(void)name;
	return cannot(self, "gives none of its objects up", err);
}

static void web_destroy(struct blob_store *self)
{
	struct web *s = (struct web *)self;
	web_service_destroy(s->service);
	free(s);
}

/* Splits "https://host/a/b?c=d" into the endpoint and the rest. */
static weir_status parse_place(struct web *s, char endpoint[512], weir_error *err)
{
	const char *host = strstr(s->base.place, "://") + 3, *path = host + strcspn(host, "/?");
	const char *query = path + strcspn(path, "?");
	const size_t host_bytes = (size_t)(path - s->base.place);
	while (path < query && *path == '/')
		path++;
	size_t folder = (size_t)(query - path);
	while (folder > 0 && path[folder - 1] == '/')
		folder--;
	query += *query == '?';
	if (memchr(host, '@', (size_t)(path - host)))
		return weir_fail(err, WEIR_E_INVALID, "%.*s...: names and passwords do not belong in addresses, which logs show",
		                 (int)(host - s->base.place), s->base.place);
	if (host_bytes >= 512 || folder + 2 > sizeof s->folder || strlen(query) >= sizeof s->query)
		return weir_fail(err, WEIR_E_LIMIT, "%.*s...: the address is too long", (int)(host_bytes < 200 ? host_bytes : 200),
		                 s->base.place);
	snprintf(endpoint, 512, "%.*s", (int)host_bytes, s->base.place);
	snprintf(s->folder, sizeof s->folder, "%.*s%s", (int)folder, path, folder ? "/" : "");
	snprintf(s->query, sizeof s->query, "%s", query);
	s->base.place[strcspn(s->base.place, "?")] = '\0'; /* the query may contain a signature */
	return WEIR_OK;
}

weir_status blob_web_open(struct blob_store **out, const struct blob_options *options, weir_error *err)
{
	static const struct blob_ops ops = {.create = web_create,
	                                    .read_at = web_read_at,
	                                    .look = web_look,
	                                    .list = web_list,
	                                    .remove = web_remove,
	                                    .destroy = web_destroy};
	char endpoint[512];
	struct web *s = calloc(1, sizeof *s);
	if (!s)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory opening %s", options->place);
	s->base.ops = &ops;
	snprintf(s->base.place, sizeof s->base.place, "%s", options->place);
	weir_status status = parse_place(s, endpoint, err);
	const struct web_service_options o = {
	    .endpoint = endpoint, .section = options->section, .retry_first_ms = options->retry_first_ms};
	if (!status)
		status = web_service_create(&s->service, &o, err);
	if (status) {
		free(s);
		return status;
	}
	*out = &s->base;
	return WEIR_OK;
}
