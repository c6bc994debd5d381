/* Objects in an S3 bucket. A small object takes one PUT. A larger one takes a multipart upload,
 * which becomes an object only when completed: nobody sees a half-written object. Addresses are
 * path-style, which every S3-compatible server supports. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/web/blob.h"
#include "common/web/web_request.h"

#define UPLOAD_ID_BYTES_MAX 1024u
#define REGION_DEFAULT      "us-east-1"

struct s3 {
	struct blob_store base;
	struct web_service *service;
	char prefix[1024]; /* "" or "a/b/" */
};

struct s3_writer {
	struct blob_writer base;
	uint8_t *part; /* (WEIR_BLOB_PART_BYTES) */
	size_t filled;
	uint64_t bytes;
	char upload[UPLOAD_ID_BYTES_MAX]; /* encoded; "": not begun */
	char (*etags)[128];               /* (WEIR_BLOB_PARTS_MAX), of the parts sent */
	uint32_t parts;
};

static void key_of(const struct s3 *s, const char *name, char out[WEIR_PATH_BYTES_MAX])
{
	snprintf(out, WEIR_PATH_BYTES_MAX, "%s%s", s->prefix, name);
}

/* A request on an object of whose answer only the status matters. */
static weir_status ask(struct s3 *s, const char *method, const char *name, const char *query, const void *body, size_t bytes,
                       const char *doing, struct web_answer *a, weir_error *err)
{
	char key[WEIR_PATH_BYTES_MAX];
	key_of(s, name, key);
	struct web_request q = {.method = method, .key = key, .query = query, .body = body, .body_bytes = bytes};
	return web_perform(s->service, &q, doing, a, err);
}

/* --- Writing */

static void writer_destroy(struct s3_writer *w)
{
	free(w->part);
	free(w->etags);
	free(w);
}

static weir_status s3_create(struct blob_store *self, const char *name, struct blob_writer **out, weir_error *err)
{
	struct s3_writer *w = calloc(1, sizeof *w);
	if (!w || !(w->part = malloc(WEIR_BLOB_PART_BYTES))) {
		free(w);
		return weir_fail(err, WEIR_E_MEMORY, "out of memory writing %s/%s", self->place, name);
	}
	w->base.store = self;
	snprintf(w->base.name, sizeof w->base.name, "%s", name);
	*out = &w->base;
	return WEIR_OK;
}

static weir_status begin_upload(struct s3_writer *w, weir_error *err)
{
	struct s3 *s = (struct s3 *)w->base.store;
	struct web_answer a;
	char id[UPLOAD_ID_BYTES_MAX / 3];
	w->etags = calloc(WEIR_BLOB_PARTS_MAX, sizeof *w->etags);
	if (!w->etags)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory writing %s/%s", s->base.place, w->base.name);
	weir_status status = ask(s, "POST", w->base.name, "uploads=", "", 0, "begin to write", &a, err);
	if (status)
		return status;
	const char *at = a.text ? a.text : "";
	if (!s3_xml_text(&at, "UploadId", id, sizeof id) || !s3_url_encode(id, false, w->upload, sizeof w->upload)) {
		*w->upload = '\0';
		status = weir_fail(err, WEIR_E_IO, "cannot write %s/%s: the server names no upload; is it an S3 server?", s->base.place,
		                   w->base.name);
	}
	web_answer_destroy(&a);
	return status;
}

static weir_status send_part(struct s3_writer *w, weir_error *err)
{
	struct s3 *s = (struct s3 *)w->base.store;
	struct web_answer a;
	char query[WEB_QUERY_BYTES_MAX];
	weir_status status = *w->upload ? WEIR_OK : begin_upload(w, err);
	if (!status && w->parts == WEIR_BLOB_PARTS_MAX)
		status = weir_fail(err, WEIR_E_LIMIT, "%s/%s would have more than %u parts of %u MiB; use more partitions", s->base.place,
		                   w->base.name, WEIR_BLOB_PARTS_MAX, WEIR_BLOB_PART_BYTES >> 20);
	if (status)
		return status;
	snprintf(query, sizeof query, "partNumber=%u&uploadId=%s", w->parts + 1, w->upload);
	status = ask(s, "PUT", w->base.name, query, w->part, w->filled, "write", &a, err);
	if (status)
		return status;
	snprintf(w->etags[w->parts], sizeof w->etags[w->parts], "%s", a.etag);
	web_answer_destroy(&a);
	w->parts++;
	w->filled = 0;
	return WEIR_OK;
}

static weir_status s3_write(struct blob_writer *base, const void *data, size_t bytes, weir_error *err)
{
	struct s3_writer *w = (struct s3_writer *)base;
	weir_status status = WEIR_OK;
	for (const uint8_t *from = data; bytes > 0 && !status;) {
		if (w->filled == WEIR_BLOB_PART_BYTES && (status = send_part(w, err)))
			break;
		size_t room = WEIR_BLOB_PART_BYTES - w->filled, n = bytes < room ? bytes : room;
		memcpy(w->part + w->filled, from, n);
		w->filled += n;
		w->bytes += n;
		from += n;
		bytes -= n;
	}
	return status;
}

static void s3_abandon(struct blob_writer *base)
{
	struct s3_writer *w = (struct s3_writer *)base;
	struct web_answer a = {0};
	char query[WEB_QUERY_BYTES_MAX];
	if (*w->upload) { /* an upload that is not aborted would keep its parts, which cost money */
		snprintf(query, sizeof query, "uploadId=%s", w->upload);
		if (ask((struct s3 *)base->store, "DELETE", base->name, query, NULL, 0, "abandon", &a, NULL) == WEIR_OK)
			web_answer_destroy(&a);
	}
	writer_destroy(w);
}

static char *completion_of(const struct s3_writer *w)
{
	static const char head[] = "<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">";
	size_t room = sizeof head + 64 + (size_t)w->parts * (sizeof *w->etags + 80), n = 0;
	char *text = malloc(room);
	if (!text)
		return NULL;
	n += (size_t)snprintf(text, room, "%s", head);
	for (uint32_t i = 0; i < w->parts; i++)
		n += (size_t)snprintf(text + n, room - n, "<Part><PartNumber>%u</PartNumber><ETag>%s</ETag></Part>", i + 1, w->etags[i]);
	snprintf(text + n, room - n, "</CompleteMultipartUpload>");
	return text;
}

/* The answer to a completion starts with 200 before its outcome is known: its text may contain an
 * error. After a lost answer, the upload no longer exists when it is completed again; then the
 * object itself shows the outcome. */
static weir_status complete_upload(struct s3_writer *w, weir_error *err)
{
	struct s3 *s = (struct s3 *)w->base.store;
	struct web_answer a;
	weir_error why = {0};
	char query[WEB_QUERY_BYTES_MAX], code[64] = "";
	struct blob_look look;
	char *text = completion_of(w);
	if (!text)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory writing %s/%s", s->base.place, w->base.name);
	snprintf(query, sizeof query, "uploadId=%s", w->upload);
	weir_status status = ask(s, "POST", w->base.name, query, text, strlen(text), "finish writing", &a, &why);
	free(text);
	if (!status) {
		const char *at = a.text ? a.text : "";
		if (strstr(at, "<Error>")) {
			(void)s3_xml_text(&at, "Code", code, sizeof code);
			status = weir_fail(&why, WEIR_E_IO, "cannot finish writing %s/%s: %s", s->base.place, w->base.name, code);
		}
		web_answer_destroy(&a);
	}
	if (status == WEIR_E_NOT_FOUND && s->base.ops->look(&s->base, w->base.name, &look, NULL) == WEIR_OK && look.bytes == w->bytes)
		status = WEIR_OK;
	return status ? weir_fail(err, status, "%s", why.text) : WEIR_OK;
}

/* Checks that the object exists: a proxy, or a server that is not an S3 server, may answer 200 and
 * store nothing. */
static weir_status check_stored(const struct s3_writer *w, weir_error *err)
{
	struct blob_store *s = w->base.store;
	struct blob_look look = {0};
	weir_error why = {0};
	const weir_status status = s->ops->look(s, w->base.name, &look, &why);
	if (status == WEIR_OK && look.bytes == w->bytes)
		return WEIR_OK;
	if (status != WEIR_OK && status != WEIR_E_NOT_FOUND)
		return weir_fail(err, status, "%s", why.text);
	return weir_fail(err, WEIR_E_IO,
	                 "cannot write %s/%s: the server answers that it was written, and then has %" PRIu64 " bytes of %" PRIu64
	                 "; check the endpoint: is it an S3 server?",
	                 s->place, w->base.name, look.bytes, w->bytes);
}

static weir_status s3_commit(struct blob_writer *base, weir_error *err)
{
	struct s3_writer *w = (struct s3_writer *)base;
	struct web_answer a = {0};
	weir_status status;
	if (*w->upload) {
		status = send_part(w, err);
		if (!status)
			status = complete_upload(w, err);
	} else {
		status = ask((struct s3 *)base->store, "PUT", base->name, "", w->part, w->filled, "write", &a, err);
		if (!status)
			web_answer_destroy(&a);
	}
	if (!status)
		status = check_stored(w, err);
	if (status)
		s3_abandon(base);
	else
		writer_destroy(w);
	return status;
}

/* --- Reading */

static weir_status s3_read_at(struct blob_store *self, const char *name, uint64_t offset, void *out, size_t bytes, size_t *got,
                              weir_error *err)
{
	struct s3 *s = (struct s3 *)self;
	struct web_answer a;
	char key[WEIR_PATH_BYTES_MAX];
	*got = 0;
	if (bytes == 0)
		return WEIR_OK;
	key_of(s, name, key);
	struct web_request q = {
	    .method = "GET", .key = key, .query = "", .ranged = true, .offset = offset, .out = out, .bytes = bytes};
	weir_status status = web_perform(s->service, &q, "read", &a, err);
	if (status)
		return status;
	*got = a.got;
	web_answer_destroy(&a);
	return WEIR_OK;
}

static weir_status s3_look(struct blob_store *self, const char *name, struct blob_look *out, weir_error *err)
{
	struct web_answer a;
	weir_status status = ask((struct s3 *)self, "HEAD", name, "", NULL, 0, "find", &a, err);
	if (status)
		return status;
	out->bytes = a.length;
	snprintf(out->version, sizeof out->version, "%s", a.etag);
	web_answer_destroy(&a);
	return WEIR_OK;
}

static weir_status s3_remove(struct blob_store *self, const char *name, weir_error *err)
{
	struct web_answer a;
	weir_error why = {0};
	weir_status status = ask((struct s3 *)self, "DELETE", name, "", NULL, 0, "remove", &a, &why);
	if (!status)
		web_answer_destroy(&a);
	return status == WEIR_OK || status == WEIR_E_NOT_FOUND ? WEIR_OK : weir_fail(err, status, "%s", why.text);
}

/* What a list visits. */
struct listing {
	char prefix[WEIR_PATH_BYTES_MAX]; /* of the keys */
	bool below;                       /* keys in folders below the prefix, too */
	blob_visit_fn visit;
	void *arg;
};

/* Visits a key. Only a whole tree may have foreign objects whose names are too long. */
static weir_status visit_key(const struct s3 *s, const struct listing *l, const char *key, weir_error *err)
{
	const size_t skip = strlen(s->prefix);
	if (strncmp(key, s->prefix, skip) != 0)
		return WEIR_OK;
	if (strlen(key + skip) < WEIR_BLOB_NAME_BYTES_MAX)
		return l->visit(l->arg, key + skip, err);
	return l->below ? weir_fail(err, WEIR_E_LIMIT, "%s/%.300s: the name is longer than %u bytes; begin nearer to it",
	                            s->base.place, key + skip, WEIR_BLOB_NAME_BYTES_MAX - 1)
	                : WEIR_OK;
}

/* Visits the keys of one page. *token: the start of the next page, "" after the last. */
static weir_status visit_page(const struct s3 *s, const struct listing *l, const char *text, char *token, size_t token_bytes,
                              weir_error *err)
{
	const char *at = text;
	char key[WEIR_PATH_BYTES_MAX];
	weir_status status = WEIR_OK;
	while (!status && s3_xml_text(&at, "Key", key, sizeof key))
		status = visit_key(s, l, key, err);
	at = text;
	if (!s3_xml_text(&at, "NextContinuationToken", token, token_bytes))
		*token = '\0';
	return status;
}

static weir_status list_pages(const struct s3 *s, const struct listing *l, weir_error *err)
{
	char encoded[WEB_QUERY_BYTES_MAX / 2], token[WEB_QUERY_BYTES_MAX / 8] = "", next[WEB_QUERY_BYTES_MAX / 3],
	                                                                   query[WEB_QUERY_BYTES_MAX];
	weir_status status = WEIR_OK;
	if (!s3_url_encode(l->prefix, false, encoded, sizeof encoded))
		return weir_fail(err, WEIR_E_LIMIT, "%s: the prefix is too long to list", s->base.place);
	do {
		struct web_answer a;
		if (!s3_url_encode(token, false, next, sizeof next))
			return weir_fail(err, WEIR_E_LIMIT, "%s: the server's list has a token too long", s->base.place);
		int n = snprintf(query, sizeof query, "%s%s%s%slist-type=2&prefix=%s", *token ? "continuation-token=" : "", next,
		                 *token ? "&" : "", l->below ? "" : "delimiter=%2F&", encoded);
		if (n >= (int)sizeof query)
			return weir_fail(err, WEIR_E_LIMIT, "%s: the prefix is too long to list", s->base.place);
		struct web_request q = {.method = "GET", .key = "", .query = query};
		status = web_perform(s->service, &q, "list", &a, err);
		if (status)
			return status;
		status = visit_page(s, l, a.text ? a.text : "", token, sizeof token, err);
		web_answer_destroy(&a);
	} while (!status && *token);
	return status;
}

static weir_status s3_list(struct blob_store *self, const char *folder, blob_visit_fn visit, void *arg, weir_error *err)
{
	const struct s3 *s = (const struct s3 *)self;
	struct listing l = {.visit = visit, .arg = arg};
	snprintf(l.prefix, sizeof l.prefix, "%s%s%s", s->prefix, folder, *folder ? "/" : "");
	return list_pages(s, &l, err);
}

static weir_status s3_list_below(struct blob_store *self, blob_visit_fn visit, void *arg, weir_error *err)
{
	const struct s3 *s = (const struct s3 *)self;
	struct listing l = {.below = true, .visit = visit, .arg = arg};
	snprintf(l.prefix, sizeof l.prefix, "%s", s->prefix);
	return list_pages(s, &l, err);
}

/* --- Opening */

static void s3_destroy(struct blob_store *self)
{
	struct s3 *s = (struct s3 *)self;
	web_service_destroy(s->service);
	free(s);
}

static void copy_environment(const char *name, char *out, size_t bytes)
{
	const char *value = getenv(name);
	snprintf(out, bytes, "%s", value ? value : "");
}

void blob_credentials_from_environment(struct blob_credentials *out)
{
	copy_environment("AWS_ACCESS_KEY_ID", out->access_key, sizeof out->access_key);
	copy_environment("AWS_SECRET_ACCESS_KEY", out->secret_key, sizeof out->secret_key);
	copy_environment("AWS_SESSION_TOKEN", out->session_token, sizeof out->session_token);
}

/* Splits "s3://bucket/prefix" into the bucket and the prefix, which gets a slash at its end. */
static weir_status parse_place(struct s3 *s, char *bucket, size_t bucket_bytes, weir_error *err)
{
	const char *from = s->base.place + strlen("s3://"), *slash = strchr(from, '/');
	size_t length = slash ? (size_t)(slash - from) : strlen(from);
	while (slash && *slash == '/')
		slash++;
	size_t prefix = slash ? strlen(slash) : 0;
	while (prefix > 0 && slash[prefix - 1] == '/')
		prefix--;
	if (length < 3 || length > 63 || length >= bucket_bytes || prefix + 2 > sizeof s->prefix)
		return weir_fail(err, WEIR_E_INVALID,
		                 "'%.200s': expected s3://BUCKET or s3://BUCKET/PREFIX, the bucket of 3 to 63 characters", s->base.place);
	snprintf(bucket, bucket_bytes, "%.*s", (int)length, from);
	snprintf(s->prefix, sizeof s->prefix, "%.*s%s", (int)prefix, slash ? slash : "", prefix ? "/" : "");
	return WEIR_OK;
}

weir_status blob_s3_open(struct blob_store **out, const struct blob_options *options, weir_error *err)
{
	static const struct blob_ops ops = {
	    .create = s3_create,
	    .write = s3_write,
	    .commit = s3_commit,
	    .abandon = s3_abandon,
	    .read_at = s3_read_at,
	    .look = s3_look,
	    .list = s3_list,
	    .list_below = s3_list_below,
	    .remove = s3_remove,
	    .destroy = s3_destroy,
	};
	const char *region = options->region && *options->region ? options->region : REGION_DEFAULT;
	char bucket[64], amazon[128];
	struct s3 *s = calloc(1, sizeof *s);
	if (!s)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory opening %s", options->place);
	s->base.ops = &ops;
	snprintf(s->base.place, sizeof s->base.place, "%s", options->place);
	snprintf(amazon, sizeof amazon, "https://s3.%.40s.amazonaws.com", region);
	struct web_service_options o = {.endpoint = options->endpoint && *options->endpoint ? options->endpoint : amazon,
	                                .region = region,
	                                .bucket = bucket,
	                                .section = options->section,
	                                .credentials = options->credentials,
	                                .retry_first_ms = options->retry_first_ms};
	weir_status status = parse_place(s, bucket, sizeof bucket, err);
	if (!status)
		status = web_service_create(&s->service, &o, err);
	if (status) {
		free(s);
		return status;
	}
	*out = &s->base;
	return WEIR_OK;
}
