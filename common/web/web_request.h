/* One request to an S3 server, signed, or to a plain web server, tried again while that may help; the only user of libcurl and of libcrypto. Used by blob_s3.c and
 * blob_web.c alone.
 *
 * Requests to S3 are signed with AWS Signature Version 4 by libcurl (CURLOPT_AWS_SIGV4), the hash of the body included: the server refuses
 * bytes that were changed on the way. Debian 12's libcurl leaves to us what S3 asks for beyond that: the header x-amz-content-sha256, and path and query
 * encoded and, the query, sorted.
 * A range whose transfer breaks off goes on where it broke off, and what does go on may be tried for ever; a plain web server's redirects are followed, WEIR_WEB_REDIRECTS_MAX of them,
 * and from https to https only. */
#ifndef WEIR_WEB_REQUEST_H
#define WEIR_WEB_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/web/blob.h"

#define WEB_TEXT_BYTES_MAX  (16u << 20) /* of an answer in XML */
#define WEB_QUERY_BYTES_MAX 4096u

struct web_service; /* an endpoint, a bucket and who asks; may be used from several threads */
struct web_service_options {
	const char *endpoint;        /* "https://HOST[:PORT]" */
	const char *region, *bucket; /* S3; NULL: a plain web server */
	const char *section;         /* of the job file, that errors name keys of; NULL: "checkpoint" */
	const struct blob_credentials *credentials;
	uint32_t retry_first_ms; /* 0: WEIR_BLOB_RETRY_FIRST_MS */
};
weir_status web_service_create(struct web_service **out, const struct web_service_options *options, weir_error *err);
void web_service_destroy(struct web_service *s); /* NULL is allowed */

struct web_request {
	const char *method; /* GET, HEAD, PUT, POST, DELETE */
	const char *key;    /* of the object, not encoded; "": the bucket itself */
	const char *query;  /* "a=1&b=2": encoded, for S3 sorted by name, each with its '='; "" */
	const void *body;   /* PUT, POST; NULL: none */
	size_t body_bytes;
	bool ranged; /* GET: `bytes` bytes from `offset` into `out`; else the answer is text */
	uint64_t offset;
	void *out;
	size_t bytes;
};
struct web_answer {
	size_t got;      /* ranged: bytes in `out` */
	uint64_t length; /* HEAD: of the object */
	char *text;      /* the answer, malloc'ed; "" when there is none. web_answer_free */
	size_t text_bytes;
	char etag[128]; /* of a plain web server that says none: when it was changed last; "" */
};
/* `doing` and the key are for errors: "read", "write". E_NOT_FOUND: no such object, upload or bucket. A range behind the object's end has no bytes. */
weir_status web_perform(struct web_service *s, const struct web_request *q, const char *doing, struct web_answer *a,
                        weir_error *err);
void web_answer_free(struct web_answer *a);

/* --- Texts (s3_text.c) */

/* The text between <tag> and </tag>, the first after *at, its entities resolved; *at moves behind it. False: there is none that fits. */
bool s3_xml_text(const char **at, const char *tag, char *out, size_t out_bytes);
/* Every byte but letters, digits, - . _ ~ as %XX; '/' too unless it may stay. False: it does not fit. */
bool s3_url_encode(const char *in, bool keep_slash, char *out, size_t out_bytes);

#endif
