/* A small certificate authority: P-256 keys, certificates of version 3 (RFC 5280). */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/system/disk.h"
#include "common/tls/certificate_internal.h"

#define CLOCK_SKEW_S    300 /* clocks of other machines may be behind */
#define SERIAL_BITS     120
#define NAMES_BYTES_MAX 8192u

/* --- Files, readable by their owner alone */

/* Writes a file atomically: others may read the old one meanwhile. */
static weir_status write_file(const char *path, BIO *from, weir_error *err)
{
	char temporary[WEIR_PATH_BYTES_MAX + 8], *data;
	const long bytes = BIO_get_mem_data(from, &data);
	snprintf(temporary, sizeof temporary, "%s.new", path);
	const int fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	bool written = fd >= 0 && fchmod(fd, 0600) == 0 && write(fd, data, (size_t)bytes) == bytes && fsync(fd) == 0;
	const int code = errno;
	if (fd >= 0)
		close(fd);
	if (!written)
		return weir_fail(err, WEIR_E_IO, "%s: cannot be written: %s", temporary, strerror(code));
	return disk_system()->ops->rename(disk_system(), temporary, path, err);
}

static weir_status write_pair(const char *dir, const char *name, X509 *x, EVP_PKEY *key, weir_error *err)
{
	char path[WEIR_PATH_BYTES_MAX];
	BIO *certificate = BIO_new(BIO_s_mem()), *secret = BIO_new(BIO_s_secmem());
	weir_status status = WEIR_OK;
	if (!certificate || !secret || PEM_write_bio_X509(certificate, x) != 1 ||
	    PEM_write_bio_PrivateKey(secret, key, NULL, NULL, 0, NULL, NULL) != 1)
		status = weir_fail(err, WEIR_E_MEMORY, "%s/%s: out of memory", dir, name);
	snprintf(path, sizeof path, "%s/%s.key", dir, name);
	if (!status)
		status = write_file(path, secret, err);
	snprintf(path, sizeof path, "%s/%s.crt", dir, name);
	if (!status)
		status = write_file(path, certificate, err);
	BIO_free(certificate);
	BIO_free(secret);
	return status;
}

/* --- Certificates */

static bool add_extension(X509 *x, X509 *issuer, int nid, const char *value)
{
	X509V3_CTX context;
	X509V3_set_ctx_nodb(&context);
	X509V3_set_ctx(&context, issuer, x, NULL, NULL, 0);
	X509_EXTENSION *e = X509V3_EXT_conf_nid(NULL, &context, nid, value);
	const bool added = e && X509_add_ext(x, e, -1) == 1;
	X509_EXTENSION_free(e);
	return added;
}

static bool set_serial(X509 *x)
{
	BIGNUM *n = BN_new();
	const bool set =
	    n && BN_rand(n, SERIAL_BITS, BN_RAND_TOP_ANY, BN_RAND_BOTTOM_ANY) == 1 && BN_to_ASN1_INTEGER(n, X509_get_serialNumber(x));
	BN_free(n);
	return set;
}

/* Creates a certificate without its extensions and signature. NULL: out of memory, or no random
 * numbers. */
static X509 *begin(const char *name, const char *organisation, uint64_t valid_s, EVP_PKEY *key)
{
	X509 *x = X509_new();
	X509_NAME *subject = x ? X509_get_subject_name(x) : NULL;
	if (!x || X509_set_version(x, X509_VERSION_3) != 1 || !set_serial(x) ||
	    !X509_gmtime_adj(X509_getm_notBefore(x), -CLOCK_SKEW_S) || !X509_gmtime_adj(X509_getm_notAfter(x), (long)valid_s) ||
	    X509_NAME_add_entry_by_txt(subject, "O", MBSTRING_UTF8, (const unsigned char *)organisation, -1, -1, 0) != 1 ||
	    X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8, (const unsigned char *)name, -1, -1, 0) != 1 ||
	    X509_set_pubkey(x, key) != 1) {
		X509_free(x);
		return NULL;
	}
	return x;
}

weir_status certificate_authority(const char *dir, uint64_t valid_s, weir_error *err)
{
	char path[WEIR_PATH_BYTES_MAX];
	snprintf(path, sizeof path, "%s/ca.key", dir);
	if (access(path, F_OK) == 0)
		return weir_fail(err, WEIR_E_EXISTS,
		                 "%s: there is an authority already, and a new one would vouch for none of its certificates; "
		                 "choose another folder",
		                 path);
	weir_status status = disk_system()->ops->make_dirs(disk_system(), dir, err);
	if (status)
		return status;
	EVP_PKEY *key = EVP_EC_gen("P-256");
	X509 *x = key ? begin("authority", "weir", valid_s, key) : NULL;
	if (x && X509_set_issuer_name(x, X509_get_subject_name(x)) == 1 &&
	    add_extension(x, x, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
	    add_extension(x, x, NID_key_usage, "critical,keyCertSign,cRLSign") &&
	    add_extension(x, x, NID_subject_key_identifier, "hash") && X509_sign(x, key, EVP_sha256()))
		status = write_pair(dir, "ca", x, key, err);
	else
		status = weir_fail(err, WEIR_E_MEMORY, "%s: no certificate can be made", dir);
	X509_free(x);
	EVP_PKEY_free(key);
	return status;
}

/* --- Orders */

static bool is_address(const char *host)
{
	unsigned char bytes[16];
	return inet_pton(AF_INET, host, bytes) == 1 || inet_pton(AF_INET6, host, bytes) == 1;
}

static bool is_host(const char *host)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-*";
	return is_address(host) || (host[0] && strlen(host) < WEIR_ADDRESS_BYTES_MAX && host[strspn(host, letters)] == '\0');
}

/* "URI:weir://...,DNS:...,IP:..." */
static void name_all(const struct certificate_order *o, char out[NAMES_BYTES_MAX])
{
	char uri[PEER_IDENTITY_URI_BYTES_MAX];
	peer_identity_uri(&o->who, uri);
	out[0] = '\0';
	size_t n = o->who.role ? (size_t)snprintf(out, NAMES_BYTES_MAX, "URI:%s", uri) : 0;
	for (uint32_t i = 0; i < o->hosts_count; i++)
		n += (size_t)snprintf(out + n, NAMES_BYTES_MAX - n, "%s%s:%s", n ? "," : "", is_address(o->hosts[i]) ? "IP" : "DNS",
		                      o->hosts[i]);
}
_Static_assert(PEER_IDENTITY_URI_BYTES_MAX + CERTIFICATE_HOSTS_MAX * (WEIR_ADDRESS_BYTES_MAX + 8) < NAMES_BYTES_MAX,
               "all names of a certificate must fit");

static weir_status check_order(const struct certificate_order *o, weir_error *err)
{
	if (!peer_identity_is_name(o->who.name) || strcmp(o->who.name, "ca") == 0)
		return weir_fail(err, WEIR_E_INVALID,
		                 "the name '%.60s': expected letters, digits, '_', '-' and '.', not starting with '.', and not ca",
		                 o->who.name);
	if (o->who.role && !peer_identity_is_name(o->who.job))
		return weir_fail(err, WEIR_E_INVALID, "the job '%.60s': expected its name", o->who.job);
	if (!o->who.role && o->hosts_count == 0)
		return weir_fail(err, WEIR_E_INVALID, "a certificate without a role needs a host");
	for (uint32_t i = 0; i < o->hosts_count; i++)
		if (!is_host(o->hosts[i]))
			return weir_fail(err, WEIR_E_INVALID, "the host '%.60s': expected a name or an IP address", o->hosts[i]);
	return WEIR_OK;
}

static weir_status issue(const char *dir, const struct certificate_order *o, X509 *authority, EVP_PKEY *signer, weir_error *err)
{
	char names[NAMES_BYTES_MAX];
	weir_status status;
	name_all(o, names);
	EVP_PKEY *key = EVP_EC_gen("P-256");
	X509 *x = key ? begin(o->who.name, o->who.role ? o->who.job : "weir", o->valid_s, key) : NULL;
	if (x && X509_set_issuer_name(x, X509_get_subject_name(authority)) == 1 &&
	    add_extension(x, authority, NID_basic_constraints, "critical,CA:FALSE") &&
	    add_extension(x, authority, NID_key_usage, "critical,digitalSignature") &&
	    add_extension(x, authority, NID_ext_key_usage, "serverAuth,clientAuth") &&
	    add_extension(x, authority, NID_authority_key_identifier, "keyid") &&
	    add_extension(x, authority, NID_subject_alt_name, names) && X509_sign(x, signer, EVP_sha256()))
		status = write_pair(dir, o->who.name, x, key, err);
	else
		status = weir_fail(err, WEIR_E_MEMORY, "%s/%s: no certificate can be made", dir, o->who.name);
	X509_free(x);
	EVP_PKEY_free(key);
	return status;
}

weir_status certificate_issue(const char *dir, const struct certificate_order *order, weir_error *err)
{
	char path[WEIR_PATH_BYTES_MAX], *text = NULL, *secret = NULL;
	STACK_OF(X509) *authority = NULL;
	EVP_PKEY *signer = NULL;
	weir_status status = check_order(order, err);
	snprintf(path, sizeof path, "%s/ca.crt", dir);
	if (!status)
		status = certificate_read(path, &text, err);
	if (!status)
		status = certificate_parse(text, path, &authority, err);
	snprintf(path, sizeof path, "%s/ca.key", dir);
	if (!status)
		status = certificate_read(path, &secret, err);
	if (!status)
		status = certificate_parse_key(secret, path, &signer, err);
	if (!status)
		status = issue(dir, order, sk_X509_value(authority, 0), signer, err);
	sk_X509_pop_free(authority, X509_free);
	EVP_PKEY_free(signer);
	free(text);
	certificate_forget(secret);
	return status;
}
