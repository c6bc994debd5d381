#include "common/web/web_request.h"

#include <curl/curl.h>
#include <inttypes.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "common/base/clock.h"
#include "common/base/prng.h"
#include "common/base/web_endpoint.h"

#define CONNECT_TIMEOUT_MS 5000L
#define STALL_TIMEOUT_S    15L /* slower than STALL_BYTES_S for this long: retry */
#define STALL_BYTES_S      64L
#define RETRY_CAP_MS       5000u
#define SHA256_BYTES       32u
#define HANDLES_MAX        16u /* connections kept for reuse */
#define HEADER_BYTES_MAX   (sizeof((struct blob_credentials *)0)->session_token + 64)
#define URL_BYTES_MAX      (WEIR_PATH_BYTES_MAX + WEB_QUERY_BYTES_MAX)

struct web_service {
	/* bucket "": a plain web server */
	char endpoint[512], region[64], bucket[256], signing[128], section[32];
	bool local;                                  /* the endpoint is on this machine: no proxy */
	char authorization[WEB_AUTHORIZATION_BYTES]; /* "": none */
	uint32_t attempts, timeout_ms;
	const atomic_bool *cancelled;
	struct blob_credentials credentials;
	uint32_t retry_first_ms;
	pthread_mutex_t lock; /* guards the fields below */
	CURL *idle[HANDLES_MAX];
	uint32_t idle_count;
};

/* --- The service */

static pthread_once_t curl_once = PTHREAD_ONCE_INIT; /* libcurl's global state is per process */

static void curl_start(void)
{
	(void)curl_global_init(CURL_GLOBAL_DEFAULT);
}

static bool is_local(const char *endpoint)
{
	const char *host = strstr(endpoint, "://");
	return host &&
	       (strncmp(host + 3, "127.", 4) == 0 || strncmp(host + 3, "localhost", 9) == 0 || strncmp(host + 3, "[::1]", 5) == 0);
}

weir_status web_service_create(struct web_service **out, const struct web_service_options *o, weir_error *err)
{
	const char *section = o->section ? o->section : "checkpoint";
	size_t bytes;
	if (!web_endpoint_check(o->endpoint, &bytes) || bytes >= sizeof((struct web_service *)0)->endpoint)
		return weir_fail(err, WEIR_E_INVALID, "%s.endpoint is '%.200s': " WEB_ENDPOINT_EXPECTED, section, o->endpoint);
	struct web_service *s = calloc(1, sizeof *s);
	if (!s)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory for %s", o->endpoint);
	pthread_once(&curl_once, curl_start);
	snprintf(s->endpoint, sizeof s->endpoint, "%.*s", (int)bytes, o->endpoint);
	snprintf(s->section, sizeof s->section, "%s", section);
	snprintf(s->region, sizeof s->region, "%s", o->bucket ? o->region : "");
	snprintf(s->bucket, sizeof s->bucket, "%s", o->bucket ? o->bucket : "");
	snprintf(s->signing, sizeof s->signing, "aws:amz:%s:s3", s->region);
	s->local = is_local(o->endpoint);
	snprintf(s->authorization, sizeof s->authorization, "%s", o->authorization ? o->authorization : "");
	s->attempts = o->attempts ? o->attempts : WEIR_BLOB_ATTEMPTS_MAX;
	s->timeout_ms = o->timeout_ms;
	s->cancelled = o->cancelled;
	s->retry_first_ms = o->retry_first_ms ? o->retry_first_ms : WEIR_BLOB_RETRY_FIRST_MS;
	if (o->bucket && o->credentials)
		s->credentials = *o->credentials;
	pthread_mutex_init(&s->lock, NULL);
	*out = s;
	return WEIR_OK;
}

void web_service_destroy(struct web_service *s)
{
	if (!s)
		return;
	for (uint32_t i = 0; i < s->idle_count; i++)
		curl_easy_cleanup(s->idle[i]);
	pthread_mutex_destroy(&s->lock);
	explicit_bzero(&s->credentials, sizeof s->credentials);
	explicit_bzero(s->authorization, sizeof s->authorization);
	free(s);
}

/* A handle keeps its connection from one request to the next. */
static CURL *take_handle(struct web_service *s)
{
	pthread_mutex_lock(&s->lock);
	CURL *c = s->idle_count ? s->idle[--s->idle_count] : NULL;
	pthread_mutex_unlock(&s->lock);
	return c ? c : curl_easy_init();
}

static void give_handle(struct web_service *s, CURL *c)
{
	curl_easy_reset(c);
	pthread_mutex_lock(&s->lock);
	bool kept = s->idle_count < HANDLES_MAX;
	if (kept)
		s->idle[s->idle_count++] = c;
	pthread_mutex_unlock(&s->lock);
	if (!kept)
		curl_easy_cleanup(c);
}

void web_basic_authorization(const char *user, const char *password, char out[WEB_AUTHORIZATION_BYTES])
{
	char pair[512];
	unsigned char encoded[4 * sizeof pair / 3 + 4] = "";
	const int n = snprintf(pair, sizeof pair, "%s:%s", user, password);
	*out = '\0';
	if (n < (int)sizeof pair) {
		EVP_EncodeBlock(encoded, (const unsigned char *)pair, n);
		snprintf(out, WEB_AUTHORIZATION_BYTES, "Basic %s", (const char *)encoded);
	}
	explicit_bzero(pair, sizeof pair);
}

/* --- One attempt */

struct attempt {
	const struct web_request *request;
	struct web_answer *answer;
	CURL *curl;
	char bucket_region[64];
	char why[CURL_ERROR_SIZE];
};

static size_t on_header(char *line, size_t size, size_t count, void *arg)
{
	struct attempt *t = arg;
	size_t bytes = size * count;
	char text[256];
	int n = bytes < sizeof text ? (int)bytes : (int)sizeof text - 1;
	snprintf(text, sizeof text, "%.*s", n, line);
	text[strcspn(text, "\r\n")] = '\0';
	if (strncasecmp(text, "HTTP/", 5) == 0) /* status line, also of the answer after a redirect */
		*t->answer->etag = '\0';
	else if (strncasecmp(text, "ETag:", 5) == 0)
		snprintf(t->answer->etag, sizeof t->answer->etag, "%.120s", text + 5 + strspn(text + 5, " "));
	else if (strncasecmp(text, "Last-Modified:", 14) == 0 && !*t->answer->etag)
		snprintf(t->answer->etag, sizeof t->answer->etag, "%.120s", text + 14 + strspn(text + 14, " "));
	else if (strncasecmp(text, "x-amz-bucket-region:", 20) == 0)
		snprintf(t->bucket_region, sizeof t->bucket_region, "%.60s", text + 20 + strspn(text + 20, " "));
	return bytes;
}

static size_t on_body(char *data, size_t size, size_t count, void *arg)
{
	struct attempt *t = arg;
	const struct web_request *q = t->request;
	struct web_answer *a = t->answer;
	size_t bytes = size * count;
	long code = 0;
	curl_easy_getinfo(t->curl, CURLINFO_RESPONSE_CODE, &code);
	if (q->ranged && code == 206) {
		if (bytes > q->bytes - a->got)
			return 0; /* more than requested */
		memcpy((char *)q->out + a->got, data, bytes);
		a->got += bytes;
		return bytes;
	}
	if (bytes > WEB_TEXT_BYTES_MAX - a->text_bytes)
		return 0;
	char *text = realloc(a->text, a->text_bytes + bytes + 1);
	if (!text)
		return 0;
	memcpy(text + a->text_bytes, data, bytes);
	a->text = text;
	a->text_bytes += bytes;
	text[a->text_bytes] = '\0';
	return bytes;
}

static bool add_header(struct curl_slist **list, const char *line)
{
	struct curl_slist *longer = curl_slist_append(*list, line);
	if (longer)
		*list = longer;
	return longer != NULL;
}

static bool sha256_text(const void *data, size_t bytes, char out[2 * SHA256_BYTES + 1])
{
	unsigned char digest[SHA256_BYTES];
	unsigned n = 0;
	if (!EVP_Digest(data ? data : "", bytes, digest, &n, EVP_sha256(), NULL) || n != sizeof digest)
		return false;
	for (unsigned i = 0; i < n; i++)
		snprintf(out + 2 * i, 3, "%02x", digest[i]);
	return true;
}

static bool add_plain_headers(struct curl_slist **list, const struct web_service *s, const struct web_request *q)
{
	char line[HEADER_BYTES_MAX];
	bool ok = add_header(list, "Accept-Encoding: identity"); /* ranges count bytes of the unencoded object */
	if (ok && *s->authorization) {
		snprintf(line, sizeof line, "Authorization: %s", s->authorization);
		ok = add_header(list, line);
	}
	if (ok && q->content_type) {
		snprintf(line, sizeof line, "Content-Type: %s", q->content_type);
		ok = add_header(list, line);
	}
	return ok && (!q->body || add_header(list, "Expect:")); /* an old server may never answer it */
}

static bool add_s3_headers(struct curl_slist **list, const struct web_service *s, const struct web_request *q)
{
	char line[HEADER_BYTES_MAX], digest[2 * SHA256_BYTES + 1];
	if (!sha256_text(q->body, q->body_bytes, digest))
		return false;
	snprintf(line, sizeof line, "x-amz-content-sha256: %s", digest);
	bool ok = add_header(list, line) && add_header(list, "Content-Type: application/octet-stream");
	if (ok && *s->credentials.session_token) {
		snprintf(line, sizeof line, "x-amz-security-token: %s", s->credentials.session_token);
		ok = add_header(list, line);
	}
	return ok;
}

static struct curl_slist *headers_of(const struct web_service *s, const struct web_request *q)
{
	struct curl_slist *list = NULL;
	if (*s->bucket ? add_s3_headers(&list, s, q) : add_plain_headers(&list, s, q))
		return list;
	curl_slist_free_all(list);
	return NULL;
}

static bool make_url(const struct web_service *s, const struct web_request *q, char out[URL_BYTES_MAX])
{
	char bucket[3 * sizeof s->bucket], key[WEIR_PATH_BYTES_MAX];
	if (!s3_url_encode(s->bucket, false, bucket, sizeof bucket))
		return false;
	if (*s->bucket ? !s3_url_encode(q->key, true, key, sizeof key) : snprintf(key, sizeof key, "%s", q->key) >= (int)sizeof key)
		return false; /* the path of a plain web server is already encoded */
	int n = snprintf(out, URL_BYTES_MAX, "%s%s%s%s%s%s%s", s->endpoint, *bucket ? "/" : "", bucket, *key ? "/" : "", key,
	                 *q->query ? "?" : "", q->query);
	return n < (int)URL_BYTES_MAX;
}

static void set_method(CURL *c, const struct web_request *q, size_t got)
{
	char range[64];
	if (strcmp(q->method, "HEAD") == 0) {
		curl_easy_setopt(c, CURLOPT_NOBODY, 1L);
		return;
	}
	if (q->body) { /* sent as a post, so that libcurl hashes and signs the body */
		curl_easy_setopt(c, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)q->body_bytes);
		curl_easy_setopt(c, CURLOPT_POSTFIELDS, q->body);
	}
	curl_easy_setopt(c, CURLOPT_CUSTOMREQUEST, q->method);
	if (q->ranged) {
		snprintf(range, sizeof range, "%" PRIu64 "-%" PRIu64, q->offset + got, q->offset + q->bytes - 1);
		curl_easy_setopt(c, CURLOPT_RANGE, range);
	}
}

/* libcurl asks several times a second, also while it waits. */
static int is_cancelled(void *arg, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
	(void)a, (void)b, (void)c, (void)d;
	return atomic_load((const atomic_bool *)arg);
}

static void set_transfer(const struct web_service *s, CURL *c, struct attempt *t)
{
	curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(c, CURLOPT_PATH_AS_IS, 1L);
	curl_easy_setopt(c, CURLOPT_ERRORBUFFER, t->why);
	curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_TIMEOUT_MS);
	curl_easy_setopt(c, CURLOPT_LOW_SPEED_LIMIT, STALL_BYTES_S);
	curl_easy_setopt(c, CURLOPT_LOW_SPEED_TIME, STALL_TIMEOUT_S);
	curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, on_header);
	curl_easy_setopt(c, CURLOPT_HEADERDATA, t);
	curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_body);
	curl_easy_setopt(c, CURLOPT_WRITEDATA, t);
	if (!*s->bucket) {
		curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 1L);
		curl_easy_setopt(c, CURLOPT_MAXREDIRS, (long)WEIR_WEB_REDIRECTS_MAX);
		curl_easy_setopt(c, CURLOPT_REDIR_PROTOCOLS_STR, strncmp(s->endpoint, "https:", 6) == 0 ? "https" : "http,https");
	}
	if (s->local)
		curl_easy_setopt(c, CURLOPT_PROXY, "");
	curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, (long)s->timeout_ms);
	if (s->cancelled) {
		curl_easy_setopt(c, CURLOPT_NOPROGRESS, 0L);
		curl_easy_setopt(c, CURLOPT_XFERINFOFUNCTION, is_cancelled);
		curl_easy_setopt(c, CURLOPT_XFERINFODATA, (void *)(uintptr_t)s->cancelled);
	}
	if (*s->credentials.access_key) {
		curl_easy_setopt(c, CURLOPT_AWS_SIGV4, s->signing);
		curl_easy_setopt(c, CURLOPT_USERNAME, s->credentials.access_key);
		curl_easy_setopt(c, CURLOPT_PASSWORD, s->credentials.secret_key);
	}
}

/* Sends the request once. *code: status code of the answer; 0: no answer, t->why has the reason. */
static CURLcode attempt(struct web_service *s, struct attempt *t, const char *url, struct curl_slist *headers, long *code)
{
	CURL *c = take_handle(s);
	curl_off_t length = -1;
	*code = 0;
	if (!c)
		return CURLE_OUT_OF_MEMORY;
	t->curl = c;
	set_transfer(s, c, t);
	set_method(c, t->request, t->answer->got);
	curl_easy_setopt(c, CURLOPT_URL, url);
	curl_easy_setopt(c, CURLOPT_FRESH_CONNECT, t->request->once ? 1L : 0L);
	curl_easy_setopt(c, CURLOPT_HTTPHEADER, headers);
	CURLcode result = curl_easy_perform(c);
	if (result == CURLE_OK) {
		curl_easy_getinfo(c, CURLINFO_RESPONSE_CODE, code);
		curl_easy_getinfo(c, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
		t->answer->length = length > 0 ? (uint64_t)length : 0;
	} else if (!*t->why) {
		snprintf(t->why, sizeof t->why, "%s", curl_easy_strerror(result));
	}
	give_handle(s, c);
	return result;
}

/* --- The meaning of an answer */

static bool worth_a_retry(CURLcode result, long code)
{
	if (result == CURLE_OK)
		return code == 408 || code == 429 || code == 500 || code == 502 || code == 503 || code == 504;
	return result != CURLE_OUT_OF_MEMORY && result != CURLE_URL_MALFORMAT && result != CURLE_UNSUPPORTED_PROTOCOL &&
	       result != CURLE_PEER_FAILED_VERIFICATION && result != CURLE_TOO_MANY_REDIRECTS && result != CURLE_SSL_CACERT_BADFILE &&
	       result != CURLE_WRITE_ERROR && result != CURLE_ABORTED_BY_CALLBACK;
}

/* "s3://bucket/key", "https://host/key". */
static void name_of(const struct web_service *s, const struct web_request *q, char out[WEIR_PATH_BYTES_MAX])
{
	const char *what = *q->key ? q->key : "its list";
	snprintf(out, WEIR_PATH_BYTES_MAX, "%s%s/%s", *s->bucket ? "s3://" : s->endpoint, s->bucket, what);
}

/* Errors that only S3 reports. WEIR_OK: no such error. */
static weir_status fail_bucket(const struct web_service *s, const char *name, const char *what, const struct attempt *t,
                               const char *code, weir_error *err)
{
	char region[64] = "";
	const char *at = t->answer->text ? t->answer->text : "";
	if (!s3_xml_text(&at, "Region", region, sizeof region))
		snprintf(region, sizeof region, "%s", t->bucket_region);
	if (*region && strcmp(region, s->region) != 0)
		return weir_fail(err, WEIR_E_INVALID, "cannot %s %s: the bucket is in region %s, not %s; set %s.region", what, name,
		                 region, s->region, s->section);
	if (strcmp(code, "NoSuchBucket") == 0)
		return weir_fail(err, WEIR_E_NOT_FOUND, "cannot %s %s: there is no bucket %s at %s; create it, or correct its name", what,
		                 name, s->bucket, s->endpoint);
	return WEIR_OK;
}

static weir_status fail_answer(const struct web_service *s, const char *name, const char *doing, const struct attempt *t,
                               long code, weir_error *err)
{
	char what[64] = "", text[256] = "";
	const char *xml = t->answer->text ? t->answer->text : "", *at = xml;
	(void)s3_xml_text(&at, "Code", what, sizeof what);
	at = xml;
	(void)s3_xml_text(&at, "Message", text, sizeof text);
	weir_status status = *s->bucket ? fail_bucket(s, name, doing, t, what, err) : WEIR_OK;
	if (status)
		return status;
	if (code == 404)
		return weir_fail(err, WEIR_E_NOT_FOUND, "cannot %s %s: it is not there (%s)", doing, name, *what ? what : "404");
	if ((code == 401 || code == 403) && *s->bucket)
		return weir_fail(err, WEIR_E_IO,
		                 "cannot %s %s: %s refuses it (%ld %s: %s); check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY%s and "
		                 "what they may do with the bucket",
		                 doing, name, s->endpoint, code, what, text, *s->credentials.access_key ? "" : " (neither is set)");
	if (!*text && !*s->bucket) /* the words of a server that does not speak XML */
		snprintf(text, sizeof text, "%.*s", (int)strcspn(xml, "\r\n"), xml);
	return weir_fail(err,
	                 code == 507   ? WEIR_E_NO_SPACE
	                 : code >= 500 ? WEIR_E_UNAVAILABLE
	                               : WEIR_E_IO,
	                 "cannot %s %s: %s answers %ld%s%s%s%s", doing, name, s->endpoint, code, *what ? " " : "", what,
	                 *text ? ": " : "", text);
}

static weir_status judge(const struct web_service *s, const struct web_request *q, const char *doing, const struct attempt *t,
                         CURLcode result, long code, weir_error *err)
{
	char name[WEIR_PATH_BYTES_MAX], check[96] = "that the server runs";
	name_of(s, q, name);
	if (result == CURLE_TOO_MANY_REDIRECTS)
		return weir_fail(err, WEIR_E_IO, "cannot %s %s: it is redirected more than %u times", doing, name,
		                 WEIR_WEB_REDIRECTS_MAX);
	if (*s->bucket)
		snprintf(check, sizeof check, "%s.endpoint and that the server runs", s->section);
	if (result != CURLE_OK)
		return weir_fail(err, result == CURLE_OUT_OF_MEMORY ? WEIR_E_MEMORY : WEIR_E_UNAVAILABLE,
		                 "cannot %s %s: %s: %s; check %s", doing, name, s->endpoint, t->why, check);
	if (q->ranged && (code == 416 || (code == 200 && t->answer->text_bytes == 0)))
		return WEIR_OK; /* beyond the end */
	if (q->ranged && code == 200)
		return weir_fail(err, WEIR_E_UNSUPPORTED, "cannot read %s: %s does not answer ranges", name, s->endpoint);
	return code >= 200 && code < 300 ? WEIR_OK : fail_answer(s, name, doing, t, code, err);
}

/* Pauses before attempt n (from 1): doubles each time, minus a random half. */
static void pause_before(const struct web_service *s, uint32_t n)
{
	struct entropy *e = entropy_system();
	uint64_t ms = (uint64_t)s->retry_first_ms << (n - 1 < 16 ? n - 1 : 16);
	ms = ms > RETRY_CAP_MS ? RETRY_CAP_MS : ms;
	ms = ms / 2 + (ms ? e->ops->u64(e) % (ms / 2 + 1) : 0);
	nanosleep(&(struct timespec){.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000}, NULL);
}

void web_answer_destroy(struct web_answer *a)
{
	free(a->text);
	*a = (struct web_answer){0};
}

/* Prepares another attempt. A range keeps its bytes as long as they are of the same object. */
static void begin_again(struct attempt *t, char etag[sizeof((struct web_answer *)0)->etag])
{
	struct web_answer *a = t->answer;
	const size_t got = t->request->ranged ? a->got : 0;
	if (got > 0 && !*etag)
		memcpy(etag, a->etag, sizeof a->etag);
	web_answer_destroy(a);
	a->got = got;
	*t->why = *t->bucket_region = '\0';
}

weir_status web_perform(struct web_service *s, const struct web_request *q, const char *doing, struct web_answer *a,
                        weir_error *err)
{
	char url[URL_BYTES_MAX], etag[sizeof a->etag] = "";
	struct attempt t = {.request = q, .answer = a};
	CURLcode result = CURLE_OK;
	long code = 0;
	*a = (struct web_answer){0};
	if (!make_url(s, q, url))
		return weir_fail(err, WEIR_E_LIMIT, "%s/%.200s...: the name is too long", s->endpoint, q->key);
	struct curl_slist *headers = headers_of(s, q);
	if (!headers)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory for %s/%s", s->endpoint, q->key);
	int64_t since_ms = clock_ms(clock_system());
	for (uint32_t n = 0; n < s->attempts; n++) {
		const size_t had = a->got;
		if (n > 0)
			pause_before(s, n);
		begin_again(&t, etag);
		result = attempt(s, &t, url, headers, &code);
		if (!worth_a_retry(result, code) || (q->ranged && a->got == q->bytes))
			break;
		if (a->got > had) {
			n = 0;
			since_ms = clock_ms(clock_system());
		}
		if (clock_ms(clock_system()) - since_ms >= WEIR_BLOB_PATIENCE_MS)
			break;
	}
	curl_slist_free_all(headers);
	weir_status status = q->ranged && a->got == q->bytes ? WEIR_OK : judge(s, q, doing, &t, result, code, err);
	if (!status && *etag && strcmp(etag, a->etag) != 0)
		status = weir_fail(err, WEIR_E_IO, "%s/%s has changed while it was read", s->endpoint, q->key);
	if (status)
		web_answer_destroy(a);
	a->code = code;
	return status;
}
