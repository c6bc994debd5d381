/* Interposed functions, and the table of connections by descriptor. A connection belongs to the
 * thread that reads it, one at a time. One lock guards the lists and counts; it is taken when a
 * connection arrives, has proven itself, or ends. */
#include "proto/rpc/ingress.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <openssl/ssl.h>

#include "common/base/clock.h"
#include "common/base/hash.h"
#include "common/base/limits.h"
#include "common/tls/certificate_internal.h"
#include "proto/rpc/h2_scan.h"
#include "proto/rpc/refused.h"

/* So that libraries find it before their own. */
#define INTERPOSED __attribute__((visibility("default")))

enum {
	/* Higher descriptors are refused; they cannot occur, as the server's own limit is lower. */
	DESCRIPTORS_MAX = 1 << 20,
	LISTENERS_MAX = 4,
	ADDRESSES = 1024 /* hash buckets; addresses in one bucket share its counts */
};

/* An accepted connection. */
struct connection {
	struct connection *prev, *next; /* in ingress.fresh, while it is new */
	int fd;
	uint32_t address; /* bucket */
	bool is_new;
	uint64_t received;
	struct h2_scan scan;
	char from[INET6_ADDRSTRLEN];
};

struct address {
	uint32_t connections, fresh;
	double spent; /* connects beyond the rate so far */
	int64_t at_ns;
};

static struct {
	atomic_bool armed, tls;
	_Atomic int listeners[LISTENERS_MAX];
	atomic_uint listeners_count;
	char job[WEIR_NAME_BYTES_MAX];
	struct logger *logger;
	pthread_mutex_t lock;    /* guards the fields below */
	struct connection fresh; /* new connections, oldest first; a ring */
	uint32_t fresh_count, connections;
	struct address addresses[ADDRESSES];
	atomic_ullong cut, refused, wrong_peer;
} ingress = {.lock = PTHREAD_MUTEX_INITIALIZER, .fresh = {.prev = &ingress.fresh, .next = &ingress.fresh}};

static struct connection *_Atomic connections[DESCRIPTORS_MAX];
/* The descriptor that this thread read last: gRPC decrypts what it has read before it reads on. */
static _Thread_local int last_read = -1;

static struct connection *connection_of(int fd)
{
	return fd >= 0 && fd < DESCRIPTORS_MAX ? atomic_load_explicit(&connections[fd], memory_order_acquire) : NULL;
}

static void tell(const char *event, const char *from, const char *why)
{
	LOG_AT(ingress.logger, LOG_WARN, event, "from=%s why=\"%s\"", from, why);
}

void ingress_begin(const struct ingress_options *options)
{
	atomic_store(&ingress.tls, options->job);
	snprintf(ingress.job, sizeof ingress.job, "%s", options->job ? options->job : "");
	ingress.logger = options->logger;
	atomic_store(&ingress.armed, true);
}

void ingress_stop(void)
{
	atomic_store(&ingress.armed, false);
}

void ingress_counts(struct ingress_counts *out)
{
	pthread_mutex_lock(&ingress.lock);
	out->connections = ingress.connections;
	pthread_mutex_unlock(&ingress.lock);
	out->cut = atomic_load(&ingress.cut);
	out->refused = atomic_load(&ingress.refused);
	out->wrong_peer = atomic_load(&ingress.wrong_peer);
}

/* --- The table. Needs the lock, except charge, which takes it. */

static void leave_fresh(struct connection *c)
{
	if (!c->is_new)
		return;
	c->is_new = false;
	c->prev->next = c->next;
	c->next->prev = c->prev;
	ingress.fresh_count--;
	ingress.addresses[c->address].fresh--;
}

static void enter(struct connection *c)
{
	c->is_new = true;
	c->prev = ingress.fresh.prev;
	c->next = &ingress.fresh;
	c->prev->next = c->next->prev = c;
	ingress.fresh_count++;
	ingress.connections++;
	ingress.addresses[c->address].fresh++;
	ingress.addresses[c->address].connections++;
	atomic_store_explicit(&connections[c->fd], c, memory_order_release);
}

/* gRPC, which owns the descriptor, sees the end and closes it. */
static void drop_oldest(uint32_t address, bool of_address)
{
	for (struct connection *c = ingress.fresh.next; c != &ingress.fresh; c = c->next)
		if (!of_address || c->address == address) {
			leave_fresh(c);
			shutdown(c->fd, SHUT_RDWR);
			return;
		}
}

static void refill(struct address *a)
{
	const int64_t now_ns = clock_ns(clock_system());
	a->spent -= (double)(now_ns - a->at_ns) / 1e9 * WEIR_CONNECTS_PER_S;
	a->spent = a->spent > 0 ? a->spent : 0;
	a->at_ns = now_ns;
}

static bool take_token(struct address *a)
{
	refill(a);
	if (a->spent + 1 > WEIR_CONNECTS_BURST)
		return false;
	a->spent++;
	return true;
}

/* Counts connection c, which may be NULL, as `connects`, so that the address of a repeated offender
 * is soon refused. The charge is bounded, so that the address is admitted again after a moment. */
static void charge(const struct connection *c, unsigned connects)
{
	if (!c)
		return;
	pthread_mutex_lock(&ingress.lock);
	struct address *a = &ingress.addresses[c->address];
	refill(a);
	a->spent += connects;
	a->spent = a->spent < WEIR_CONNECTS_BURST ? a->spent : WEIR_CONNECTS_BURST;
	pthread_mutex_unlock(&ingress.lock);
}

/* Returns NULL if there is room, otherwise the reason. */
static const char *make_room(uint32_t address)
{
	struct address *a = &ingress.addresses[address];
	if (ingress.connections >= WEIR_SOCKETS_MAX)
		return "there are as many connections as a server takes";
	if (a->connections >= WEIR_SOCKETS_PER_ADDRESS_MAX)
		return "there are as many connections as a server takes from one address";
	if (!take_token(a))
		return "too many connections in a second from one address";
	if (a->fresh >= WEIR_CONNECTIONS_NEW_PER_ADDRESS)
		drop_oldest(address, true);
	else if (ingress.fresh_count >= WEIR_CONNECTIONS_NEW_MAX)
		drop_oldest(address, false);
	return NULL;
}

/* --- Arrival and end */

static void name_of(const struct sockaddr_storage *peer, char out[INET6_ADDRSTRLEN])
{
	const struct in6_addr *six = &((const struct sockaddr_in6 *)peer)->sin6_addr;
	snprintf(out, INET6_ADDRSTRLEN, "unix");
	if (peer->ss_family == AF_INET)
		inet_ntop(AF_INET, &((const struct sockaddr_in *)peer)->sin_addr, out, INET6_ADDRSTRLEN);
	else if (peer->ss_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(six))
		inet_ntop(AF_INET, six->s6_addr + 12, out, INET6_ADDRSTRLEN);
	else if (peer->ss_family == AF_INET6)
		inet_ntop(AF_INET6, six, out, INET6_ADDRSTRLEN);
}

/* False: the connection is refused. */
static bool admit(int fd)
{
	struct sockaddr_storage peer = {.ss_family = AF_UNSPEC};
	socklen_t bytes = sizeof peer;
	struct connection *c = fd < DESCRIPTORS_MAX ? calloc(1, sizeof *c) : NULL;
	const char *why = "out of memory";
	if (c) {
		(void)getpeername(fd, (struct sockaddr *)&peer, &bytes);
		name_of(&peer, c->from);
		c->fd = fd;
		c->address = (uint32_t)(hash_bytes(c->from, strlen(c->from), 0) % ADDRESSES);
		pthread_mutex_lock(&ingress.lock);
		why = make_room(c->address);
		if (!why)
			enter(c);
		pthread_mutex_unlock(&ingress.lock);
	}
	if (!why)
		return true;
	atomic_fetch_add(&ingress.refused, 1);
	tell("connection refused", c ? c->from : "", why);
	free(c);
	return false;
}

static void forget(int fd)
{
	struct connection *c = connection_of(fd);
	if (!c)
		return;
	atomic_store_explicit(&connections[fd], NULL, memory_order_release);
	pthread_mutex_lock(&ingress.lock);
	leave_fresh(c);
	ingress.connections--;
	ingress.addresses[c->address].connections--;
	pthread_mutex_unlock(&ingress.lock);
	free(c);
}

/* Accounts for a connection that is cut for its frames; c may be NULL. */
static void cut(const struct connection *c, const char *why)
{
	atomic_fetch_add(&ingress.cut, 1);
	tell("connection cut", c ? c->from : "", why);
	charge(c, WEIR_CONNECTS_OF_A_CUT);
}

static void prove(struct connection *c)
{
	pthread_mutex_lock(&ingress.lock);
	leave_fresh(c);
	pthread_mutex_unlock(&ingress.lock);
}

void ingress_trust(int fd)
{
	struct connection *c = connection_of(fd);
	if (c)
		prove(c);
}

/* Scans bytes read from a connection. False: cut the connection. */
static bool take(struct connection *c, const struct msghdr *m, size_t bytes)
{
	const char *why;
	const int64_t now_ns = clock_ns(clock_system());
	c->received += bytes;
	for (size_t i = 0; i < m->msg_iovlen && bytes > 0 && !atomic_load_explicit(&ingress.tls, memory_order_relaxed); i++) {
		const size_t n = bytes < m->msg_iov[i].iov_len ? bytes : m->msg_iov[i].iov_len;
		if (!h2_scan_take(&c->scan, m->msg_iov[i].iov_base, n, now_ns, &why)) {
			cut(c, why);
			return false;
		}
		bytes -= n;
	}
	if (c->is_new && (c->scan.blocks > 0 || (atomic_load(&ingress.tls) && c->received >= WEIR_TLS_HANDSHAKE_BYTES)))
		prove(c);
	return true;
}

/* --- Replacements of libc functions */

INTERPOSED int listen(int fd, int backlog)
{
	const int result = (int)syscall(SYS_listen, fd, backlog);
	if (result == 0 && atomic_load(&ingress.armed)) {
		const unsigned n = atomic_load(&ingress.listeners_count);
		if (n < LISTENERS_MAX) {
			atomic_store(&ingress.listeners[n], fd);
			atomic_store(&ingress.listeners_count, n + 1);
		}
	}
	return result;
}

static bool is_listener(int listener)
{
	for (unsigned i = 0; i < atomic_load(&ingress.listeners_count); i++)
		if (atomic_load(&ingress.listeners[i]) == listener)
			return true;
	return false;
}

INTERPOSED int accept4(int listener, struct sockaddr *peer, socklen_t *bytes, int flags)
{
	const socklen_t room = bytes ? *bytes : 0;
	for (;;) {
		if (bytes)
			*bytes = room;
		const int fd = (int)syscall(SYS_accept4, listener, peer, bytes, flags);
		if (fd < 0 || !is_listener(listener) || admit(fd))
			return fd;
		refused_hold(fd);
	}
}

INTERPOSED ssize_t recvmsg(int fd, struct msghdr *m, int flags)
{
	const ssize_t n = syscall(SYS_recvmsg, fd, m, flags);
	struct connection *c = n > 0 ? connection_of(fd) : NULL;
	last_read = c ? fd : -1;
	if (!c || take(c, m, (size_t)n))
		return n;
	shutdown(fd, SHUT_RDWR);
	errno = ECONNRESET;
	return -1;
}

INTERPOSED int close(int fd)
{
	forget(fd);
	for (unsigned i = 0; i < atomic_load(&ingress.listeners_count); i++)
		if (atomic_load(&ingress.listeners[i]) == fd)
			atomic_store(&ingress.listeners[i], -1);
	return (int)syscall(SYS_close, fd);
}

/* --- Replacements of OpenSSL functions. Here a connection is its SSL, which has no descriptor:
 * gRPC feeds it. */

static struct {
	pthread_once_t once;
	int (*handshake)(SSL *ssl);
	int (*read)(SSL *ssl, void *out, int bytes);
	int scans; /* index of the struct h2_scan in an SSL's extra data */
} real = {.once = PTHREAD_ONCE_INIT};

static void free_scan(void *parent, void *scan, CRYPTO_EX_DATA *data, int at, long n, void *arg)
{
	(void)parent, (void)data, (void)at, (void)n, (void)arg;
	free(scan);
}

static void find_real(void)
{
	*(void **)&real.handshake = dlsym(RTLD_NEXT, "SSL_do_handshake");
	*(void **)&real.read = dlsym(RTLD_NEXT, "SSL_read");
	real.scans = SSL_get_ex_new_index(0, NULL, NULL, NULL, free_scan);
}

static bool is_of_job(const SSL *ssl)
{
	struct peer_identity p;
	char uri[PEER_IDENTITY_URI_BYTES_MAX] = "of nobody", why[WEIR_ERROR_TEXT_BYTES];
	X509 *x = SSL_get1_peer_certificate(ssl);
	const bool known = x && certificate_peer_identity(x, &p);
	X509_free(x);
	if (known && strcmp(p.job, ingress.job) == 0)
		return true;
	if (known)
		peer_identity_uri(&p, uri);
	snprintf(why, sizeof why, "the certificate shown is %s; expected one of the job %s", uri, ingress.job);
	const struct connection *c = connection_of(last_read);
	atomic_fetch_add(&ingress.wrong_peer, 1);
	tell("denied", c ? c->from : "", why);
	return false;
}

static bool is_ours(const SSL *ssl)
{
	return SSL_is_server(ssl) && atomic_load(&ingress.tls);
}

INTERPOSED int SSL_do_handshake(SSL *ssl)
{
	pthread_once(&real.once, find_real);
	const int result = real.handshake(ssl);
	if (!is_ours(ssl) || (result == 1 ? is_of_job(ssl) : SSL_get_error(ssl, result) != SSL_ERROR_SSL))
		return result;
	charge(connection_of(last_read), WEIR_CONNECTS_OF_A_REFUSED_TLS);
	return -1;
}

INTERPOSED int SSL_read(SSL *ssl, void *out, int bytes)
{
	pthread_once(&real.once, find_real);
	const int n = real.read(ssl, out, bytes);
	if (n <= 0 || !is_ours(ssl))
		return n;
	const char *why = "out of memory";
	struct h2_scan *scan = SSL_get_ex_data(ssl, real.scans);
	if (!scan && (scan = calloc(1, sizeof *scan)) && !SSL_set_ex_data(ssl, real.scans, scan)) {
		free(scan);
		scan = NULL;
	}
	if (scan && h2_scan_take(scan, out, (size_t)n, clock_ns(clock_system()), &why))
		return n;
	cut(connection_of(last_read), why);
	return -1;
}
