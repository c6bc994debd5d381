/* Which sockets a forked child gives up: those that are connected to the given addresses. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/cmocka_check.h"
#include "tests/folder.h"

#include "proto/rpc/rpc_fork.h"

struct connection {
	int near, far;
	char address[128];
};

static void connect_to(struct connection *c, const struct sockaddr *at, socklen_t bytes)
{
	struct sockaddr_storage bound;
	socklen_t n = sizeof bound;
	const int listener = socket(at->sa_family, SOCK_STREAM, 0);
	assert_int_equal(bind(listener, at, bytes), 0);
	assert_int_equal(listen(listener, 1), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&bound, &n), 0);
	c->near = socket(at->sa_family, SOCK_STREAM, 0);
	assert_int_equal(connect(c->near, (struct sockaddr *)&bound, n), 0);
	c->far = accept(listener, NULL, NULL);
	assert_true(c->far >= 0);
	close(listener);
	if (at->sa_family == AF_INET)
		snprintf(c->address, sizeof c->address, "127.0.0.1:%d", ntohs(((struct sockaddr_in *)&bound)->sin_port));
	else if (at->sa_family == AF_INET6)
		snprintf(c->address, sizeof c->address, "[::1]:%d", ntohs(((struct sockaddr_in6 *)&bound)->sin6_port));
}

static void connect_v4(struct connection *c)
{
	const struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	connect_to(c, (const struct sockaddr *)&at, sizeof at);
}

/* Whether the near end was given up, so that the far one has come to the end. */
static void check_is_given_up(const struct connection *c, int expected)
{
	char byte;
	assert_int_equal(recv(c->far, &byte, 1, MSG_DONTWAIT) == 0, expected);
	close(c->near);
	close(c->far);
}

static void give_up(const char *address)
{
	rpc_fork_give_up(&address, 1);
}

static void tcp_by_number_and_by_name(void **state)
{
	(void)state;
	struct connection ours, other, named;
	char name[160];
	connect_v4(&ours);
	connect_v4(&other);
	connect_v4(&named);
	give_up(ours.address);
	snprintf(name, sizeof name, "server.example%s", strchr(named.address, ':'));
	give_up(name);
	check_is_given_up(&ours, 1);
	check_is_given_up(&other, 0);
	check_is_given_up(&named, 1);
}

static void another_host_at_the_same_port_stays(void **state)
{
	(void)state;
	struct connection c;
	char other[160];
	connect_v4(&c);
	snprintf(other, sizeof other, "10.0.0.1%s", strchr(c.address, ':'));
	give_up(other);
	snprintf(other, sizeof other, "unix:%s", c.address);
	give_up(other);
	check_is_given_up(&c, 0);
}

static void ipv6(void **state)
{
	(void)state;
	struct connection c;
	const struct sockaddr_in6 at = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
	const int probe = socket(AF_INET6, SOCK_STREAM, 0);
	const int has_none = probe < 0 || bind(probe, (const struct sockaddr *)&at, sizeof at);
	close(probe);
	if (has_none)
		skip();
	connect_to(&c, (const struct sockaddr *)&at, sizeof at);
	give_up(c.address);
	check_is_given_up(&c, 1);
}

static void unix_path(void **state)
{
	(void)state;
	struct connection ours, other;
	char folder[FOLDER_BYTES];
	folder_create(folder);
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	snprintf(at.sun_path, sizeof at.sun_path, "%s/a", folder);
	connect_to(&ours, (const struct sockaddr *)&at, sizeof at);
	snprintf(ours.address, sizeof ours.address, "unix:/%s", at.sun_path); /* two slashes are one */
	snprintf(at.sun_path, sizeof at.sun_path, "%s/ab", folder);
	connect_to(&other, (const struct sockaddr *)&at, sizeof at);
	give_up(ours.address);
	check_is_given_up(&ours, 1);
	check_is_given_up(&other, 0);
	folder_remove(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(tcp_by_number_and_by_name),
	    cmocka_unit_test(another_host_at_the_same_port_stays),
	    cmocka_unit_test(ipv6),
	    cmocka_unit_test(unix_path),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
