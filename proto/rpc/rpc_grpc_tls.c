/* TLS for gRPC: credentials of both ends, from files that are checked repeatedly, and the identity
 * of peers.
 *
 * A client trusts a server whose certificate the client's `ca` vouches for and that names a server
 * of the same job. The host name is ignored, because processes move between machines. A server
 * trusts a client's certificate likewise, and checks at each call that its role may make the call.
 *
 * Files: certificates in use are in memory. A check, at a call or a handshake and at most every
 * reload_s seconds, replaces them if the files have changed and are valid. While they are not, for
 * example between the replacements of two files, the old ones stay in use. (gRPC's own file watcher
 * ends the process when a file is empty.) Servers check at each handshake. A client's channel
 * reconnects at its next call, and leaves calls and streams in progress alone. */
#include "proto/rpc/rpc_grpc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <grpc/grpc_security.h>
#include <grpc/support/alloc.h>
#include <grpc/support/string_util.h>

#include "common/base/limits.h"
#include "common/tls/certificate.h"

#define FILES 3u

struct stamp { /* of a file, to detect its replacement */
	struct timespec changed;
	off_t bytes;
	ino_t inode;
};

struct grpc_tls {
	/* This process; constant even when files are replaced. */
	struct peer_identity own;
	weir_security files;                    /* with own copies of the paths */
	struct logger *logger;                  /* may be NULL */
	grpc_tls_certificate_verifier *servers; /* which servers this process's clients trust */
	pthread_mutex_t lock;                   /* guards the fields below */
	struct certificates now;
	uint32_t version; /* of `now`, from 1 */
	int64_t looked_ns;
	struct stamp stamps[FILES];
};

/* --- Files */

static void look_at(const weir_security *s, struct stamp out[FILES])
{
	const char *const paths[FILES] = {s->certificate, s->key, s->ca};
	memset(out, 0, FILES * sizeof *out);
	for (uint32_t i = 0; i < FILES; i++) {
		struct stat st;
		/* Set single fields, because memcmp also compares padding. */
		if (stat(paths[i], &st) == 0) {
			out[i].changed = st.st_mtim;
			out[i].bytes = st.st_size;
			out[i].inode = st.st_ino;
		}
	}
}

static weir_status check_same(const struct grpc_tls *t, const struct peer_identity *p, weir_error *err)
{
	char was[PEER_IDENTITY_URI_BYTES_MAX], is[PEER_IDENTITY_URI_BYTES_MAX];
	if (p->role == t->own.role)
		return WEIR_OK;
	peer_identity_uri(&t->own, was);
	peer_identity_uri(p, is);
	return weir_fail(err, WEIR_E_INVALID, "certificate %s: is %s; this process is %s", t->files.certificate, is, was);
}

/* Needs the lock. */
static void look_again(struct grpc_tls *t)
{
	struct stamp stamps[FILES];
	struct certificates next;
	weir_error err = {0};
	if (rpc_now_ns() - t->looked_ns < (int64_t)t->files.reload_s * 1000000000)
		return;
	t->looked_ns = rpc_now_ns();
	look_at(&t->files, stamps);
	if (memcmp(stamps, t->stamps, sizeof stamps) == 0)
		return;
	memcpy(t->stamps, stamps, sizeof stamps);
	weir_status status = certificates_load(&next, &t->files, &err);
	if (!status)
		status = check_same(t, &next.who, &err);
	if (status) {
		certificates_destroy(&next);
		logger_write(t->logger, LOG_WARN, NULL, "certificates not taken up", "%s", err.text);
		return;
	}
	certificates_destroy(&t->now);
	t->now = next;
	t->version++;
	logger_write(t->logger, LOG_INFO, NULL, "certificates replaced", "certificate=%s", t->files.certificate);
}

uint32_t grpc_tls_current(struct grpc_tls *t)
{
	pthread_mutex_lock(&t->lock);
	look_again(t);
	const uint32_t version = t->version;
	pthread_mutex_unlock(&t->lock);
	return version;
}

/* --- A client's trust */

struct verifier {
	grpc_tls_certificate_verifier_external base;
	char job[WEIR_NAME_BYTES_MAX];
};

/* On one of gRPC's threads, after gRPC has verified the certificate. */
static int verify(void *arg, grpc_tls_custom_verification_check_request *request,
                  grpc_tls_on_custom_verification_check_done_cb done, void *done_arg, grpc_status_code *status, char **details)
{
	const struct verifier *v = arg;
	struct peer_identity p;
	const char *uri = "of nobody (" PEER_IDENTITY_SCHEME ")";
	char text[WEIR_ERROR_TEXT_BYTES];
	(void)done, (void)done_arg;
	TAKEN_OVER(v);
	*status = GRPC_STATUS_UNAUTHENTICATED;
	for (size_t i = 0; i < request->peer_info.san_names.uri_names_size && *status != GRPC_STATUS_OK; i++) {
		const char *name = request->peer_info.san_names.uri_names[i];
		if (!peer_identity_parse(&p, name, strlen(name)))
			continue;
		uri = name;
		if (p.role == ROLE_SERVER && strcmp(p.job, v->job) == 0)
			*status = GRPC_STATUS_OK;
	}
	snprintf(text, sizeof text, "the certificate shown is %s; expected that of a server of the job %s", uri, v->job);
	if (*status != GRPC_STATUS_OK)
		*details = gpr_strdup(text);
	HANDED_OVER(v);
	return 1;
}

static void verifier_cancel(void *arg, grpc_tls_custom_verification_check_request *request)
{
	(void)arg, (void)request; /* verify has finished when it returns */
}

/* The last connection may end after the transport. */
static void verifier_destruct(void *arg)
{
	TAKEN_OVER(arg);
	free(arg);
}

static grpc_tls_certificate_verifier *verifier_create(const struct peer_identity *own)
{
	struct verifier *v = calloc(1, sizeof *v);
	if (!v)
		return NULL;
	v->base = (grpc_tls_certificate_verifier_external){v, verify, verifier_cancel, verifier_destruct};
	memcpy(v->job, own->job, sizeof v->job);
	HANDED_OVER(v);
	return grpc_tls_certificate_verifier_external_create(&v->base);
}

/* --- Lifetime */

weir_status grpc_tls_create(struct grpc_tls **out, const weir_security *s, struct logger *logger, weir_error *err)
{
	struct grpc_tls *t = calloc(1, sizeof *t);
	if (!t)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory for certificates");
	pthread_mutex_init(&t->lock, NULL);
	t->logger = logger;
	/* Before the files are read, so that a file replaced meanwhile is read again. */
	look_at(s, t->stamps);
	weir_status status = certificates_load(&t->now, s, err);
	t->own = t->now.who;
	t->version = 1;
	t->looked_ns = rpc_now_ns();
	t->files = (weir_security){.certificate = strdup(s->certificate),
	                           .key = strdup(s->key),
	                           .ca = strdup(s->ca),
	                           .job = t->own.job,
	                           .reload_s = s->reload_s ? s->reload_s : WEIR_CERTIFICATE_RELOAD_S};
	if (!status && (!t->files.certificate || !t->files.key || !t->files.ca || !(t->servers = verifier_create(&t->own))))
		status = weir_fail(err, WEIR_E_MEMORY, "out of memory for certificates");
	if (status) {
		grpc_tls_destroy(t);
		return status;
	}
	*out = t;
	return WEIR_OK;
}

void grpc_tls_destroy(struct grpc_tls *t)
{
	if (!t)
		return;
	if (t->servers)
		grpc_tls_certificate_verifier_release(t->servers);
	certificates_destroy(&t->now);
	free((char *)(uintptr_t)t->files.certificate);
	free((char *)(uintptr_t)t->files.key);
	free((char *)(uintptr_t)t->files.ca);
	pthread_mutex_destroy(&t->lock);
	free(t);
}

const struct peer_identity *grpc_tls_own(const struct grpc_tls *t)
{
	return &t->own;
}

/* --- Credentials */

grpc_channel_credentials *grpc_tls_client(struct grpc_tls *t, bool foreign)
{
	grpc_tls_identity_pairs *pair = grpc_tls_identity_pairs_create();
	pthread_mutex_lock(&t->lock);
	grpc_tls_identity_pairs_add_pair(pair, t->now.key, t->now.certificate);
	grpc_tls_certificate_provider *shown = grpc_tls_certificate_provider_static_data_create(t->now.ca, pair);
	pthread_mutex_unlock(&t->lock);
	grpc_tls_credentials_options *o = grpc_tls_credentials_options_create();
	grpc_tls_credentials_options_set_certificate_provider(o, shown);
	grpc_tls_certificate_provider_release(shown);
	grpc_tls_credentials_options_watch_root_certs(o);
	grpc_tls_credentials_options_watch_identity_key_cert_pairs(o);
	if (!foreign) { /* for foreign servers gRPC checks the host name in the certificate */
		grpc_tls_credentials_options_set_certificate_verifier(o, t->servers);
		grpc_tls_credentials_options_set_check_call_host(o, 0);
	}
	return grpc_tls_credentials_create(o);
}

/* At each handshake, on one of gRPC's threads. */
static grpc_ssl_certificate_config_reload_status fetch(void *arg, grpc_ssl_server_certificate_config **out)
{
	struct grpc_tls_served *served = arg;
	struct grpc_tls *t = served->tls;
	TAKEN_OVER(served);
	pthread_mutex_lock(&t->lock);
	look_again(t);
	const bool is_new = served->version != t->version;
	const grpc_ssl_pem_key_cert_pair pair = {t->now.key, t->now.certificate};
	if (is_new)
		*out = grpc_ssl_server_certificate_config_create(t->now.ca, &pair, 1);
	served->version = t->version;
	pthread_mutex_unlock(&t->lock);
	return is_new ? GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW : GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
}

grpc_server_credentials *grpc_tls_server(struct grpc_tls_served *served)
{
	HANDED_OVER(served);
	return grpc_ssl_server_credentials_create_with_options(grpc_ssl_server_credentials_create_options_using_config_fetcher(
	    GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY, fetch, served));
}

/* --- Explanations of failed connections */

struct grpc_tls *grpc_tls_of(const struct rpc_channel *to)
{
	return to->foreign && !to->tls ? NULL : ((const struct grpc_rpc *)to->rpc)->tls;
}

void grpc_tls_explain(const struct rpc_channel *to, char *text, size_t text_bytes)
{
	const struct grpc_tls *t = grpc_tls_of(to);
	const size_t n = strlen(text);
	weir_error err = {0};
	char uri[PEER_IDENTITY_URI_BYTES_MAX];
	const bool dropped = strstr(text, "Socket closed") || strstr(text, "Connection reset") || strstr(text, "Broken pipe");
	if (t && strstr(text, "certificate verify failed"))
		snprintf(text + n, text_bytes - n, "; the server's certificate has expired, or %s does not vouch for it", t->files.ca);
	if (!dropped || !strstr(text, "failed to connect"))
		return;
	if (!t) {
		snprintf(text + n, text_bytes - n, "; it was spoken to in plain text, and may want TLS (security.certificate)");
	} else if (certificates_check(&t->files, &err)) {
		snprintf(text + n, text_bytes - n, "; %s", err.text);
	} else {
		peer_identity_uri(&t->own, uri);
		snprintf(text + n, text_bytes - n, "; it was shown %s (%s), and may not trust who signed that", t->files.certificate,
		         uri);
	}
}

/* --- A server's trust */

#define LEFT_S_MAX (10ull * 365 * 86400) /* a longer validity is checked again after this time */

/* False: the peer's certificate names nobody in a job. *left_s: remaining validity. */
static bool find_peer(grpc_call *call, struct peer_identity *out, uint64_t *left_s)
{
	grpc_auth_context *context = grpc_call_auth_context(call);
	grpc_auth_property_iterator names = grpc_auth_context_find_properties_by_name(context, GRPC_PEER_URI_PROPERTY_NAME),
	                            whole = grpc_auth_context_find_properties_by_name(context, GRPC_X509_PEM_CERT_PROPERTY_NAME);
	const grpc_auth_property *certificate = grpc_auth_property_iterator_next(&whole);
	bool found = false;
	for (const grpc_auth_property *p; !found && (p = grpc_auth_property_iterator_next(&names));)
		found = peer_identity_parse(out, p->value, p->value_length);
	*left_s = certificate ? certificate_seconds_left(certificate->value, certificate->value_length) : 0;
	grpc_auth_context_release(context);
	return found;
}

bool grpc_tls_peer(grpc_call *call, struct peer_identity *out)
{
	uint64_t left_s;
	return find_peer(call, out, &left_s);
}

weir_status grpc_tls_admit(const struct grpc_tls *t, grpc_call *call, enum rpc_method method, unsigned *role, int64_t *until_ns,
                           char text[WEIR_ERROR_TEXT_BYTES])
{
	struct peer_identity p;
	char uri[PEER_IDENTITY_URI_BYTES_MAX] = "of nobody (" PEER_IDENTITY_SCHEME ")", roles[PEER_ROLES_BYTES];
	uint64_t left_s;
	const bool known = find_peer(call, &p, &left_s);
	*until_ns = rpc_now_ns() + (int64_t)(left_s < LEFT_S_MAX ? left_s : LEFT_S_MAX) * 1000000000;
	*role = known ? p.role : 0;
	if (known)
		peer_identity_uri(&p, uri);
	if (!known || !(p.role & rpc_method_roles(method)) || strcmp(p.job, t->own.job) != 0) {
		peer_roles(rpc_method_roles(method), roles);
		snprintf(text, WEIR_ERROR_TEXT_BYTES, "%s: the certificate shown is %s; expected the role %s, of the job %s",
		         rpc_method_path(method), uri, roles, t->own.job);
		return WEIR_E_DENIED;
	}
	if (left_s > 0)
		return WEIR_OK;
	snprintf(text, WEIR_ERROR_TEXT_BYTES, "the certificate shown, %s, has expired since; replace it and its key", uri);
	return WEIR_E_UNAVAILABLE;
}
