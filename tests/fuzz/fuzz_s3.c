/* Answers of an S3 server, or of an impostor. Listed names are valid names, the next request has
 * only characters that a query may have, and read data lies within its buffer. Requests end here.
 *
 * Input: u8 operation modulo 3 (0: list, with bit 2 also in folders below; 1: write in parts; 2:
 * read), then for each answer u8 status, u8 bytes of its ETag, u16 bytes, the ETag, the text. */
#include "tests/fuzz/fuzz.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/little_endian.h"
#include "common/web/blob.h"
#include "common/web/web_request.h"

#define ANSWER_HEADER 4u
#define ANSWERS_MAX   16u
#define READ_BYTES    100u

/* --- Replacements of web_request.c's functions */

struct web_service {
	const uint8_t *data;
	size_t left;
	uint32_t answered;
};
static struct web_service answers;

weir_status web_service_create(struct web_service **out, const struct web_service_options *options, weir_error *err)
{
	(void)options, (void)err;
	*out = &answers;
	return WEIR_OK;
}

void web_service_destroy(struct web_service *s)
{
	(void)s;
}

void web_answer_destroy(struct web_answer *a)
{
	free(a->text);
	a->text = NULL;
}

static const uint8_t *take(struct web_service *s, size_t n)
{
	const uint8_t *at = s->data;
	s->data += n;
	s->left -= n;
	return at;
}

static void check_request(const struct web_request *q)
{
	static const char may[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~%=&";
	assert(strspn(q->query, may) == strlen(q->query) && strlen(q->query) < WEB_QUERY_BYTES_MAX);
	assert(strlen(q->key) < WEIR_PATH_BYTES_MAX);
}

weir_status web_perform(struct web_service *s, const struct web_request *q, const char *doing, struct web_answer *a,
                        weir_error *err)
{
	*a = (struct web_answer){0};
	check_request(q);
	if (s->left < ANSWER_HEADER || s->answered++ == ANSWERS_MAX)
		return weir_fail(err, WEIR_E_UNAVAILABLE, "cannot %s: no answer is left", doing);
	const uint8_t *h = take(s, ANSWER_HEADER);
	const size_t tag = h[1] < s->left ? h[1] : s->left;
	const uint8_t *etag = take(s, tag);
	const size_t n = get16(h + 2) < s->left ? get16(h + 2) : s->left;
	const uint8_t *text = take(s, n);
	if (h[0] & 0x80)
		return weir_fail(err, h[0] & 1 ? WEIR_E_NOT_FOUND : WEIR_E_IO, "cannot %s: refused", doing);
	snprintf(a->etag, sizeof a->etag, "%.*s", (int)tag, (const char *)etag);
	a->length = n;
	if (q->ranged) {
		a->got = n < q->bytes ? n : q->bytes;
		memcpy(q->out, text, a->got);
		return WEIR_OK;
	}
	a->text = malloc(n + 1);
	assert(a->text);
	memcpy(a->text, text, n);
	a->text[n] = '\0';
	a->text_bytes = n;
	return WEIR_OK;
}

/* --- Operations */

static weir_status visit(void *arg, const char *name, weir_error *err)
{
	uint32_t *seen = arg;
	assert(strlen(name) < WEIR_BLOB_NAME_BYTES_MAX && ++*seen <= ANSWERS_MAX * (UINT16_MAX / 11u));
	return strcmp(name, "stop") == 0 ? weir_fail(err, WEIR_E_STATE, "enough") : WEIR_OK;
}

static weir_status write_in_parts(struct blob_store *s, weir_error *err)
{
	static const uint8_t zeros[1 << 16];
	struct blob_writer *w;
	weir_status status = blob_create(s, "object", &w, err);
	if (status)
		return status;
	for (size_t n = 0; n <= WEIR_BLOB_PART_BYTES && !status; n += sizeof zeros)
		status = blob_write(w, zeros, sizeof zeros, err);
	if (!status)
		return blob_commit(w, err);
	blob_abandon(w);
	return status;
}

static weir_status read_some(struct blob_store *s, weir_error *err)
{
	char *text = NULL;
	size_t n = 0;
	weir_status status = blob_get(s, "object", READ_BYTES, &text, &n, err);
	assert(status ? !text : n <= READ_BYTES && text[n] == '\0');
	free(text);
	return status;
}

static weir_status list(struct blob_store *s, bool below, uint32_t *seen, weir_error *err)
{
	return below ? blob_list_below(s, visit, seen, err) : blob_list(s, "files", visit, seen, err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct blob_store *s;
	weir_error err = {0};
	uint32_t seen = 0;
	if (size < 1)
		return 0;
	answers = (struct web_service){.data = data + 1, .left = size - 1};
	weir_status status = blob_open(&s, &(struct blob_options){.place = "s3://bucket/a/b"}, &err);
	assert(status == WEIR_OK);
	status = data[0] % 3 == 0   ? list(s, data[0] & 4, &seen, &err)
	         : data[0] % 3 == 1 ? write_in_parts(s, &err)
	                            : read_some(s, &err);
	assert(status == WEIR_OK || err.text[0]);
	blob_close(s);
	return 0;
}

/* As in Amazon's documentation of each answer. */
uint8_t *fuzz_seed(uint32_t i, size_t *size)
{
	static const struct {
		uint8_t asked;
		const char *answers[4];
	} seeds[] = {
	    {0,
	     {"<?xml version=\"1.0\"?><ListBucketResult><Name>bucket</Name><Prefix>a/b/files/</Prefix><IsTruncated>true</IsTruncated>"
	      "<Contents><Key>a/b/files/one</Key><Size>4</Size></Contents><Contents><Key>a/b/files/t&amp;wo&#39;</Key></Contents>"
	      "<NextContinuationToken>1ueGcxLPRx1Tr/XYExHnhbYLgveDs2J/wm36Hy4vbOwM=</NextContinuationToken></ListBucketResult>",
	      "<ListBucketResult><Contents><Key>a/b/files/three</Key></Contents><Contents><Key>a/b/stop</Key></Contents></"
	      "ListBucketResult>"}},
	    {6,
	     {"<ListBucketResult><Contents><Key>a/b/dt=2026-01-01/part-0</Key></Contents><Contents><Key>a/b/_SUCCESS</Key></Contents>"
	      "</ListBucketResult>"}},
	    {1,
	     {"<InitiateMultipartUploadResult><Bucket>bucket</Bucket><Key>a/b/object</Key>"
	      "<UploadId>VXBsb2FkIElE+/&lt;=</UploadId></InitiateMultipartUploadResult>",
	      "", "",
	      "<CompleteMultipartUploadResult><ETag>\"3858f62230ac3c915f300c664312c11f-9\"</ETag></CompleteMultipartUploadResult>"}},
	    {1,
	     {"<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>", "", "",
	      "<Error><Code>InternalError</Code><Message>We encountered an internal error.</Message></Error>"}},
	    {2, {"what is read", "what is read"}}};
	if (i >= sizeof seeds / sizeof *seeds)
		return NULL;
	static const char etag[] = "\"b54357faf0632cce46e942fa68356b38\"";
	uint8_t *seed = malloc(4096), *at = seed;
	assert(seed);
	*at++ = seeds[i].asked;
	for (uint32_t k = 0; k < 4 && seeds[i].answers[k]; k++) {
		const size_t n = strlen(seeds[i].answers[k]);
		*at++ = 0;
		*at++ = sizeof etag - 1;
		put16(at, (uint16_t)n);
		memcpy(at + 2, etag, sizeof etag - 1);
		memcpy(at + 2 + sizeof etag - 1, seeds[i].answers[k], n);
		at += 2 + sizeof etag - 1 + n;
	}
	*size = (size_t)(at - seed);
	return seed;
}
