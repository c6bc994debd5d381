/* Reads certificates, and checks a process's own. TLS checks the peer's certificate, and the
 * receiver of its identity checks that. */
#include "common/tls/certificate_internal.h"

#include <openssl/bio.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/system/disk.h"

#define TIME_BYTES 32u

/* --- Files */

weir_status certificate_read(const char *path, char **out, weir_error *err)
{
	size_t bytes;
	return disk_read_file(disk_system(), path, CERTIFICATE_BYTES_MAX, out, &bytes, err);
}

void certificate_forget(char *text)
{
	if (text)
		OPENSSL_cleanse(text, strlen(text));
	free(text);
}

weir_status certificate_parse(const char *text, const char *path, STACK_OF(X509) * *out, weir_error *err)
{
	BIO *in = BIO_new_mem_buf(text, -1);
	STACK_OF(X509) *all = sk_X509_new_null();
	for (X509 *one; in && all && (one = PEM_read_bio_X509(in, NULL, NULL, NULL));)
		if (!sk_X509_push(all, one))
			X509_free(one);
	BIO_free(in);
	ERR_clear_error(); /* a text ends with an error: there is no further certificate */
	if (sk_X509_num(all) > 0) {
		*out = all;
		return WEIR_OK;
	}
	sk_X509_free(all);
	return weir_fail(err, WEIR_E_PARSE, "%s: no certificate in it; expected PEM, which begins with -----BEGIN CERTIFICATE-----",
	                 path);
}

/* Never asks for a password. */
static int no_password(char *buffer, int bytes, int writing, void *arg)
{
	(void)buffer, (void)bytes, (void)writing, (void)arg;
	return -1;
}

weir_status certificate_parse_key(const char *text, const char *path, EVP_PKEY **out, weir_error *err)
{
	BIO *in = BIO_new_mem_buf(text, -1);
	*out = in ? PEM_read_bio_PrivateKey(in, NULL, no_password, NULL) : NULL;
	BIO_free(in);
	ERR_clear_error();
	return *out ? WEIR_OK
	            : weir_fail(err, WEIR_E_PARSE, "%s: no private key in it, or one under a password; expected PEM without", path);
}

/* --- This process's own */

struct own {
	STACK_OF(X509) * chain, *trusted; /* chain: this process's certificate first */
	EVP_PKEY *key;
};

static const char *time_text(const ASN1_TIME *at, char out[TIME_BYTES])
{
	struct tm tm = {0};
	if (!ASN1_TIME_to_tm(at, &tm) || !strftime(out, TIME_BYTES, "%Y-%m-%d %H:%M:%S UTC", &tm))
		snprintf(out, TIME_BYTES, "an unknown time");
	return out;
}

static weir_status check_time(const weir_security *s, const X509 *x, weir_error *err)
{
	char at[TIME_BYTES];
	if (X509_cmp_current_time(X509_get0_notAfter(x)) < 0)
		return weir_fail(err, WEIR_E_INVALID, "certificate %s: expired on %s; replace it and its key", s->certificate,
		                 time_text(X509_get0_notAfter(x), at));
	if (X509_cmp_current_time(X509_get0_notBefore(x)) > 0)
		return weir_fail(err, WEIR_E_INVALID, "certificate %s: not valid before %s; is this machine's clock right?",
		                 s->certificate, time_text(X509_get0_notBefore(x), at));
	return WEIR_OK;
}

static weir_status check_chain(const weir_security *s, const struct own *o, X509 *x, weir_error *err)
{
	X509_STORE *store = X509_STORE_new();
	X509_STORE_CTX *c = X509_STORE_CTX_new();
	weir_status status = WEIR_E_MEMORY;
	for (int i = 0; store && i < sk_X509_num(o->trusted); i++)
		(void)X509_STORE_add_cert(store, sk_X509_value(o->trusted, i));
	if (store && c && X509_STORE_CTX_init(c, store, x, o->chain) == 1)
		status = X509_verify_cert(c) == 1 ? WEIR_OK : WEIR_E_INVALID;
	if (status)
		(void)weir_fail(err, status, "certificate %s: %s does not vouch for it: %s; give the authority that signed it",
		                s->certificate, s->ca, c ? X509_verify_cert_error_string(X509_STORE_CTX_get_error(c)) : "out of memory");
	X509_STORE_CTX_free(c);
	X509_STORE_free(store);
	return status;
}

bool certificate_peer_identity(const X509 *x, struct peer_identity *out)
{
	GENERAL_NAMES *names = X509_get_ext_d2i(x, NID_subject_alt_name, NULL, NULL);
	bool found = false;
	for (int i = 0; !found && i < sk_GENERAL_NAME_num(names); i++) {
		const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, i);
		if (name->type == GEN_URI)
			found = peer_identity_parse(out, (const char *)ASN1_STRING_get0_data(name->d.uniformResourceIdentifier),
			                            (size_t)ASN1_STRING_length(name->d.uniformResourceIdentifier));
	}
	GENERAL_NAMES_free(names);
	return found;
}

static weir_status find_peer_identity(const weir_security *s, const X509 *x, struct peer_identity *out, weir_error *err)
{
	if (!certificate_peer_identity(x, out))
		return weir_fail(err, WEIR_E_INVALID,
		                 "certificate %s: does not say who it is of; expected the URI " PEER_IDENTITY_SCHEME
		                 "JOB/ROLE/NAME among its alternative names, ROLE being server, worker, evaluator or admin",
		                 s->certificate);
	if (s->job && strcmp(s->job, out->job) != 0) {
		char uri[PEER_IDENTITY_URI_BYTES_MAX];
		peer_identity_uri(out, uri);
		return weir_fail(err, WEIR_E_INVALID, "certificate %s: is %s, of the job %s; this one is %s", s->certificate, uri,
		                 out->job, s->job);
	}
	return WEIR_OK;
}

static weir_status check(const weir_security *s, struct certificates *c, struct own *o, weir_error *err)
{
	weir_status status = certificate_parse(c->certificate, s->certificate, &o->chain, err);
	if (!status)
		status = certificate_parse_key(c->key, s->key, &o->key, err);
	if (!status)
		status = certificate_parse(c->ca, s->ca, &o->trusted, err);
	X509 *x = status ? NULL : sk_X509_value(o->chain, 0);
	if (!status && X509_check_private_key(x, o->key) != 1)
		status = weir_fail(err, WEIR_E_INVALID, "key %s: is not that of certificate %s", s->key, s->certificate);
	if (!status)
		status = check_time(s, x, err);
	if (!status)
		status = check_chain(s, o, x, err);
	ERR_clear_error();
	return status ? status : find_peer_identity(s, x, &c->who, err);
}

weir_status certificates_load(struct certificates *out, const weir_security *security, weir_error *err)
{
	struct own o = {0};
	*out = (struct certificates){0};
	weir_status status = certificate_read(security->certificate, &out->certificate, err);
	if (!status)
		status = certificate_read(security->key, &out->key, err);
	if (!status)
		status = certificate_read(security->ca, &out->ca, err);
	if (!status)
		status = check(security, out, &o, err);
	sk_X509_pop_free(o.chain, X509_free);
	sk_X509_pop_free(o.trusted, X509_free);
	EVP_PKEY_free(o.key);
	if (status)
		certificates_destroy(out);
	return status;
}

void certificates_destroy(struct certificates *c)
{
	free(c->certificate);
	certificate_forget(c->key);
	free(c->ca);
	*c = (struct certificates){0};
}

/* The items of the sequence that is item i; NULL: item i is not a sequence. */
static ASN1_SEQUENCE_ANY *items_of(const ASN1_SEQUENCE_ANY *of, int i)
{
	const ASN1_TYPE *item = sk_ASN1_TYPE_value(of, i);
	if (!item || item->type != V_ASN1_SEQUENCE)
		return NULL;
	const unsigned char *at = item->value.sequence->data;
	return d2i_ASN1_SEQUENCE_ANY(NULL, &at, item->value.sequence->length);
}

/* Runs at every call, so it avoids OpenSSL's certificate parser, which takes a tenth of a
 * millisecond, nearly all of it for the key. All certificates that name an identity have version 3;
 * their fifth item is the validity. */
uint64_t certificate_seconds_left(const char *pem, size_t bytes)
{
	unsigned char *der = NULL;
	long der_bytes = 0;
	int days = 0, seconds = 0; /* both have the same sign */
	BIO *in = BIO_new_mem_buf(pem, (int)bytes);
	const bool read = in && PEM_bytes_read_bio(&der, &der_bytes, NULL, PEM_STRING_X509, in, NULL, NULL) == 1;
	const unsigned char *at = der;
	ASN1_SEQUENCE_ANY *whole = read ? d2i_ASN1_SEQUENCE_ANY(NULL, &at, der_bytes) : NULL, *says = items_of(whole, 0),
	                  *when = items_of(says, 4);
	const ASN1_TYPE *end = sk_ASN1_TYPE_value(when, 1);
	const bool known = end && (end->type == V_ASN1_UTCTIME || end->type == V_ASN1_GENERALIZEDTIME) &&
	                   ASN1_TIME_diff(&days, &seconds, NULL, end->value.asn1_string) == 1 && days >= 0 && seconds >= 0;
	sk_ASN1_TYPE_pop_free(when, ASN1_TYPE_free);
	sk_ASN1_TYPE_pop_free(says, ASN1_TYPE_free);
	sk_ASN1_TYPE_pop_free(whole, ASN1_TYPE_free);
	OPENSSL_free(der);
	BIO_free(in);
	ERR_clear_error();
	return known ? (uint64_t)days * 86400 + (uint64_t)seconds : 0;
}

weir_status certificates_check(const weir_security *security, weir_error *err)
{
	struct certificates c;
	const weir_status status = certificates_load(&c, security, err);
	certificates_destroy(&c);
	return status;
}
