#include "proto/lane/lane_listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/prng.h"

enum { BACKLOG = 1024 };

struct issued {
	struct lane_ticket ticket;
	uint8_t token[LANE_TOKEN_BYTES];
	int64_t until_ns; /* 0: the place is free */
};

/* A connection that has not shown its ticket. */
struct visitor {
	struct lane_watch watch;
	struct lane_listener *listener;
	struct visitor *prev, *next;
	uint8_t greeting[LANE_GREETING_BYTES];
	size_t got;
	int64_t until_ns;
};

struct lane_listener {
	struct lane_watch watch;
	struct lane_poll *poll; /* NULL before start and after stop */
	struct lane_listener_options options;
	char path[sizeof((struct sockaddr_un *)NULL)->sun_path]; /* of a unix socket, or "" */
	uint32_t port;
	struct visitor visitors; /* a ring, oldest first */
	uint32_t visitors_count;
	pthread_mutex_t lock; /* guards issued */
	struct issued issued[WEIR_LANE_TICKETS_MAX];
};

static int64_t soon_ns(void)
{
	return clock_ns(clock_system()) + WEIR_LANE_OPEN_MS * INT64_C(1000000);
}

/* --- Tickets */

weir_status lane_listener_issue(struct lane_listener *l, const struct lane_ticket *ticket, uint8_t token[LANE_TOKEN_BYTES])
{
	struct entropy *entropy = entropy_system();
	const uint64_t random[] = {entropy->ops->u64(entropy), entropy->ops->u64(entropy)};
	const int64_t now_ns = clock_ns(clock_system());
	struct issued *free_place = NULL;
	memcpy(token, random, LANE_TOKEN_BYTES);
	pthread_mutex_lock(&l->lock);
	for (uint32_t i = 0; i < WEIR_LANE_TICKETS_MAX && !free_place; i++)
		if (l->issued[i].until_ns < now_ns)
			free_place = &l->issued[i];
	if (free_place) {
		*free_place = (struct issued){.ticket = *ticket, .until_ns = soon_ns()};
		memcpy(free_place->token, token, LANE_TOKEN_BYTES);
	}
	pthread_mutex_unlock(&l->lock);
	return free_place ? WEIR_OK : WEIR_E_BUSY;
}

/* Takes as long for a token that is nearly right as for any other. */
static bool is_equal(const uint8_t *a, const uint8_t *b, size_t n)
{
	uint8_t different = 0;
	for (size_t i = 0; i < n; i++)
		different |= a[i] ^ b[i];
	return different == 0;
}

static bool redeem(struct lane_listener *l, const uint8_t token[LANE_TOKEN_BYTES], struct lane_ticket *out)
{
	const int64_t now_ns = clock_ns(clock_system());
	bool found = false;
	pthread_mutex_lock(&l->lock);
	for (uint32_t i = 0; i < WEIR_LANE_TICKETS_MAX; i++) {
		struct issued *t = &l->issued[i];
		if (t->until_ns < now_ns || !is_equal(t->token, token, LANE_TOKEN_BYTES))
			continue;
		found = true;
		*out = t->ticket;
		*t = (struct issued){0};
	}
	pthread_mutex_unlock(&l->lock);
	return found;
}

/* --- Visitors */

void lane_peer_address(int fd, char out[WEIR_ADDRESS_BYTES_MAX])
{
	struct sockaddr_storage peer = {.ss_family = AF_UNSPEC};
	socklen_t bytes = sizeof peer;
	const struct in6_addr *six = &((const struct sockaddr_in6 *)&peer)->sin6_addr;
	(void)getpeername(fd, (struct sockaddr *)&peer, &bytes);
	snprintf(out, WEIR_ADDRESS_BYTES_MAX, "unix");
	if (peer.ss_family == AF_INET)
		inet_ntop(AF_INET, &((const struct sockaddr_in *)&peer)->sin_addr, out, WEIR_ADDRESS_BYTES_MAX);
	else if (peer.ss_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(six))
		inet_ntop(AF_INET, six->s6_addr + 12, out, WEIR_ADDRESS_BYTES_MAX);
	else if (peer.ss_family == AF_INET6)
		inet_ntop(AF_INET6, six, out, WEIR_ADDRESS_BYTES_MAX);
}

static void forget(struct visitor *v, bool hang_up)
{
	lane_poll_remove(v->listener->poll, &v->watch);
	v->prev->next = v->next;
	v->next->prev = v->prev;
	v->listener->visitors_count--;
	if (hang_up)
		close(v->watch.fd);
	free(v);
}

static void admit(struct visitor *v)
{
	const struct lane_listener_options *o = &v->listener->options;
	uint8_t token[LANE_TOKEN_BYTES];
	char address[WEIR_ADDRESS_BYTES_MAX];
	struct lane_ticket ticket;
	const int fd = v->watch.fd;
	lane_peer_address(fd, address);
	/* 32 bytes fit the buffer of a new connection */
	const bool welcome = lane_get_greeting(v->greeting, token, NULL) == WEIR_OK && redeem(v->listener, token, &ticket) &&
	                     strcmp(ticket.address, address) == 0 &&
	                     send(fd, v->greeting, sizeof v->greeting, MSG_NOSIGNAL) == (ssize_t)sizeof v->greeting;
	forget(v, !welcome);
	if (welcome && o->trust)
		o->trust(fd);
	if (welcome)
		o->arrived(o->arg, fd, &ticket);
}

static struct visitor *visitor_of(struct lane_watch *w)
{
	return (struct visitor *)(void *)((char *)w - offsetof(struct visitor, watch));
}

static void visitor_ready(struct lane_watch *w, uint32_t events)
{
	struct visitor *v = visitor_of(w);
	(void)events;
	while (v->got < sizeof v->greeting) {
		const ssize_t n = read(w->fd, v->greeting + v->got, sizeof v->greeting - v->got);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return;
		if (n <= 0) {
			forget(v, true);
			return;
		}
		v->got += (size_t)n;
	}
	admit(v);
}

static void visitor_tick(struct lane_watch *w, int64_t now_ns, bool slept)
{
	struct visitor *v = visitor_of(w);
	if (now_ns > v->until_ns && !slept)
		forget(v, true);
}

static void visitor_drop(struct lane_watch *w)
{
	close(w->fd);
	free(visitor_of(w));
}

static void receive_visitor(struct lane_listener *l, int fd)
{
	const int one = 1;
	struct visitor *v = calloc(1, sizeof *v);
	if (l->visitors_count >= WEIR_LANE_VISITORS_MAX)
		forget(l->visitors.next, true);
	if (!l->path[0])
		(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	if (v)
		*v = (struct visitor){.watch = {.ready = visitor_ready, .tick = visitor_tick, .drop = visitor_drop, .fd = fd},
		                      .listener = l,
		                      .until_ns = soon_ns()};
	if (!v || !lane_poll_add(l->poll, &v->watch)) {
		close(fd);
		free(v);
		return;
	}
	v->prev = l->visitors.prev;
	v->next = &l->visitors;
	v->prev->next = v->next->prev = v;
	l->visitors_count++;
	lane_poll_soon(l->poll, &v->watch);
}

/* --- The listening socket */

static struct lane_listener *listener_of(struct lane_watch *w)
{
	return (struct lane_listener *)(void *)((char *)w - offsetof(struct lane_listener, watch));
}

static void listener_ready(struct lane_watch *w, uint32_t events)
{
	(void)events;
	for (;;) {
		const int fd = accept4(w->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd >= 0)
			receive_visitor(listener_of(w), fd);
		else if (errno != EINTR && errno != ECONNABORTED)
			return;
	}
}

/* Accepts again after a shortage of descriptors, of which no event tells. */
static void listener_tick(struct lane_watch *w, int64_t now_ns, bool slept)
{
	(void)now_ns, (void)slept;
	listener_ready(w, 0);
}

static void listener_drop(struct lane_watch *w)
{
	listener_of(w)->poll = NULL;
}

static bool listen_at(struct lane_listener *l, const struct sockaddr *at, socklen_t bytes)
{
	const int one = 1;
	l->watch.fd = socket(at->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (l->watch.fd < 0)
		return false;
	if (at->sa_family != AF_UNIX)
		(void)setsockopt(l->watch.fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
	return bind(l->watch.fd, at, bytes) == 0 && listen(l->watch.fd, BACKLOG) == 0;
}

static weir_status listen_unix(struct lane_listener *l, const char *path, weir_error *err)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	const int n = snprintf(at.sun_path, sizeof at.sun_path, "%s" LANE_SOCKET_ENDING, path);
	if (n < 0 || n >= (int)sizeof at.sun_path)
		return weir_fail(err, WEIR_E_LIMIT, "%s" LANE_SOCKET_ENDING ": a socket path has 1 to %zu bytes", path,
		                 sizeof at.sun_path - 1);
	(void)unlink(at.sun_path); /* of a server that is gone: the socket beside it is ours */
	if (!listen_at(l, (const struct sockaddr *)&at, sizeof at))
		return weir_fail(err, WEIR_E_IO, "%s: cannot listen for lanes: %s", at.sun_path, strerror(errno));
	memcpy(l->path, at.sun_path, sizeof l->path);
	return WEIR_OK;
}

static uint32_t port_of(int fd)
{
	struct sockaddr_storage at;
	socklen_t bytes = sizeof at;
	if (getsockname(fd, (struct sockaddr *)&at, &bytes))
		return 0;
	return ntohs(at.ss_family == AF_INET6 ? ((const struct sockaddr_in6 *)&at)->sin6_port
	                                      : ((const struct sockaddr_in *)&at)->sin_port);
}

static weir_status listen_tcp(struct lane_listener *l, const char *address, uint32_t port, weir_error *err)
{
	char host[WEIR_ADDRESS_BYTES_MAX], service[16];
	const char *colon = strrchr(address, ':');
	const bool brackets = address[0] == '[' && colon && colon[-1] == ']';
	struct addrinfo hints = {.ai_flags = AI_PASSIVE | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM}, *info = NULL;
	snprintf(host, sizeof host, "%.*s", (int)(colon - address) - 2 * brackets, address + brackets);
	snprintf(service, sizeof service, "%u", port);
	const int code = getaddrinfo(host, service, &hints, &info);
	if (code)
		return weir_fail(err, WEIR_E_IO, "host '%s' does not resolve: %s", host, gai_strerror(code));
	const bool listens = listen_at(l, info->ai_addr, info->ai_addrlen);
	const int why = errno;
	freeaddrinfo(info);
	if (!listens)
		return weir_fail(
		    err, WEIR_E_IO,
		    "%s, port %u: cannot listen for lanes: %s: set cluster.lane_port to a port of this server's own, or to any", host,
		    port, strerror(why));
	l->port = port_of(l->watch.fd);
	return WEIR_OK;
}

weir_status lane_listener_create(struct lane_listener **out, const struct lane_listener_options *options, weir_error *err)
{
	struct lane_listener *l = *out = calloc(1, sizeof *l);
	if (!l)
		return weir_fail(err, WEIR_E_MEMORY, "out of memory for a lane");
	l->watch = (struct lane_watch){.ready = listener_ready, .tick = listener_tick, .drop = listener_drop, .fd = -1};
	l->options = *options;
	l->visitors.prev = l->visitors.next = &l->visitors;
	pthread_mutex_init(&l->lock, NULL);
	const bool is_unix = strncmp(options->address, "unix:", 5) == 0;
	const weir_status status =
	    is_unix ? listen_unix(l, options->address + 5, err) : listen_tcp(l, options->address, options->port, err);
	if (status) {
		lane_listener_destroy(l);
		*out = NULL;
	}
	return status;
}

weir_status lane_listener_start(struct lane_listener *l, struct lane_poll *poll, weir_error *err)
{
	if (!lane_poll_add(poll, &l->watch))
		return weir_fail(err, WEIR_E_LIMIT, "cannot watch the socket of the lane: %s", strerror(errno));
	l->poll = poll;
	return WEIR_OK;
}

void lane_listener_stop(struct lane_listener *l)
{
	if (!l->poll)
		return;
	while (l->visitors.next != &l->visitors)
		forget(l->visitors.next, true);
	lane_poll_remove(l->poll, &l->watch);
	l->poll = NULL;
}

void lane_listener_destroy(struct lane_listener *l)
{
	if (!l)
		return;
	if (l->watch.fd >= 0)
		close(l->watch.fd);
	if (l->path[0])
		(void)unlink(l->path);
	pthread_mutex_destroy(&l->lock);
	free(l);
}

uint32_t lane_listener_port(const struct lane_listener *l)
{
	return l->port;
}
