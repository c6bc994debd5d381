/* One request to an S3 server (signed) or to a plain web server, with retries as long as they may
 * help. The only user of libcurl; in this folder also of libcrypto. blob_s3.c, blob_web.c and
 * cli/track/mlflow.c call it.
 *
 * libcurl signs requests to S3 by AWS Signature Version 4 (CURLOPT_AWS_SIGV4). The signature
 * includes the hash of the body, so the server rejects bytes that changed on the way. Debian 12's
 * libcurl leaves the rest to this file: the header x-amz-content-sha256, the encoding of path and
 * query, and the order of the query.
 *
 * A range whose transfer breaks off continues where it stopped. Retries are unlimited as long as
 * the range makes progress. For a plain web server, redirects are followed: WEIR_WEB_REDIRECTS_MAX
 * of them, and from https only to https. */
#ifndef WEIR_WEB_REQUEST_H
#define WEIR_WEB_REQUEST_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/web/blob.h"

#define WEB_TEXT_BYTES_MAX      (16u << 20) /* an answer in XML */
#define WEB_QUERY_BYTES_MAX     4096u
#define WEB_AUTHORIZATION_BYTES 4096u

struct web_service; /* an endpoint, a bucket and credentials; threads may share it */
struct web_service_options {
	const char *endpoint;        /* "https://HOST[:PORT]" */
	const char *region, *bucket; /* S3; NULL: a plain web server */
	/* section of the job file whose keys errors name; NULL: "checkpoint" */
	const char *section;
	const struct blob_credentials *credentials;
	uint32_t retry_first_ms; /* 0: WEIR_BLOB_RETRY_FIRST_MS */
	/* of a plain web server: */
	const char *authorization;    /* value of the header of that name; copied; NULL: none */
	uint32_t attempts;            /* of a request; 0: WEIR_BLOB_ATTEMPTS_MAX */
	uint32_t timeout_ms;          /* of an attempt; 0: as long as bytes come */
	const atomic_bool *cancelled; /* when it is true, an attempt ends soon; borrowed; NULL: never */
};
weir_status web_service_create(struct web_service **out, const struct web_service_options *options, weir_error *err);
void web_service_destroy(struct web_service *s); /* NULL is allowed */

struct web_request {
	const char *method; /* GET, HEAD, PUT, POST, DELETE */
	const char *key;    /* of the object, not encoded; "": the bucket itself */
	const char *query;  /* "a=1&b=2": encoded; for S3 sorted by name, each with its '='; "" */
	const void *body;   /* PUT, POST; NULL: no body */
	size_t body_bytes;
	const char *content_type; /* of the body, to a plain web server; NULL: not told */
	/* on a connection of its own: on a kept one that has died libcurl sends the request again,
	 * which the server may have got already */
	bool once;
	/* GET: read `bytes` bytes from `offset` into `out`; otherwise the answer is text */
	bool ranged;
	uint64_t offset;
	void *out;
	size_t bytes;
};
struct web_answer {
	size_t got;      /* ranged: number of bytes in `out` */
	uint64_t length; /* HEAD: length of the object */
	char *text;      /* the answer, malloc'ed; "" if empty. Free with web_answer_destroy. */
	size_t text_bytes;
	char etag[128]; /* a plain web server without ETag: its Last-Modified; "": neither */
	long code;      /* status code, of a failed request too; 0: no answer */
};
/* Performs the request. `doing` ("read", "write") and the key are for errors. E_NOT_FOUND: no such
 * object, upload or bucket. A range beyond the object's end has no bytes. */
weir_status web_perform(struct web_service *s, const struct web_request *q, const char *doing, struct web_answer *a,
                        weir_error *err);
void web_answer_destroy(struct web_answer *a);

/* Writes the value of the header Authorization for a user and a password (RFC 7617); "": they are
 * too long. */
void web_basic_authorization(const char *user, const char *password, char out[WEB_AUTHORIZATION_BYTES]);

/* --- Texts (s3_text.c) */

/* Finds the first <tag>text</tag> after *at, copies the text with its entities resolved, and moves
 * *at past it. False: none that fits. */
bool s3_xml_text(const char **at, const char *tag, char *out, size_t out_bytes);
/* Encodes every byte as %XX except letters, digits, - . _ ~, and '/' if keep_slash. False: it does
 * not fit. */
bool s3_url_encode(const char *in, bool keep_slash, char *out, size_t out_bytes);

#endif
