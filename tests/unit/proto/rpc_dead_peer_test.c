/* A killed or stopped server: calls and streams end with E_UNAVAILABLE within WEIR_DEAD_PEER_MS.
 * The error names the address and the method. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/limits.h"
#include "tests/unit/proto/rpc_fixture.h"

struct child {
	pid_t pid;
	int hold; /* closing it ends the child */
	char address[WEIR_ADDRESS_BYTES_MAX];
};

static void child_start(struct child *c, const char *listen)
{
	int in[2], out[2];
	assert_int_equal(pipe(in), 0);
	assert_int_equal(pipe(out), 0);
	c->pid = vfork();
	if (c->pid == 0) {
		dup2(in[0], 0);
		dup2(out[1], 1);
		close(in[1]);
		execl(DEAD_PEER_SERVER, DEAD_PEER_SERVER, listen, (char *)NULL);
		_exit(127);
	}
	assert_true(c->pid > 0);
	close(in[0]);
	close(out[1]);
	c->hold = in[1];
	FILE *f = fdopen(out[0], "r");
	assert_non_null(fgets(c->address, sizeof c->address, f));
	c->address[strcspn(c->address, "\n")] = '\0';
	fclose(f);
}

static void child_end(struct child *c)
{
	kill(c->pid, SIGKILL);
	waitpid(c->pid, NULL, 0);
	close(c->hold);
}

struct result {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool done;
	weir_status status;
	double at;
	char text[WEIR_ERROR_TEXT_BYTES];
};

static void result_done(void *arg, weir_status status, const char *text, struct message *reply)
{
	struct result *r = arg;
	(void)reply;
	pthread_mutex_lock(&r->lock);
	r->done = true;
	r->status = status;
	r->at = seconds_now();
	snprintf(r->text, sizeof r->text, "%s", text);
	pthread_cond_signal(&r->changed);
	pthread_mutex_unlock(&r->lock);
}

static void result_wait(struct result *r)
{
	pthread_mutex_lock(&r->lock);
	while (!r->done)
		pthread_cond_wait(&r->changed, &r->lock);
	pthread_mutex_unlock(&r->lock);
}

/* A live stream and a parked call, then the signal, then a call to the dead server. */
static void lose_peer(const char *listen, int signal)
{
	static const size_t sizes[] = {1000};
	struct rpc *rpc;
	struct rpc_loop *loop;
	struct rpc_channel *channel;
	struct child child;
	struct probe p;
	weir_error err = {0};
	struct result parked = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
	struct result late = parked;
	child_start(&child, listen);
	rpc = rpc_grpc_create(NULL);
	loop = rpc_loop_create(rpc, "client", &err);
	assert_non_null(loop);
	assert_int_equal(rpc_channel_open(&channel, rpc, loop, child.address, &err), WEIR_OK);
	probe_open(&p, channel, loop, RPC_PUSH_STREAM, 0, sizes, 1);
	probe_send(&p, 5);
	probe_wait_received(&p, 5);
	assert_int_equal(rpc_call_start(channel, RPC_LEASE, pattern_message(0, 10), 60000, result_done, &parked), WEIR_OK);
	struct message *reply;
	assert_int_equal(rpc_call_wait(channel, RPC_STATUS, pattern_message(0, 10), 5000, &reply, &err), WEIR_OK);
	message_release(reply);

	double before = seconds_now();
	assert_int_equal(kill(child.pid, signal), 0);
	probe_send(&p, 1);
	assert_int_equal(probe_wait_closed(&p), WEIR_E_UNAVAILABLE);
	assert_true(seconds_now() - before < WEIR_DEAD_PEER_MS * 1e-3);
	assert_non_null(strstr(p.text, child.address));
	assert_non_null(strstr(p.text, "PushStream"));
	result_wait(&parked);
	assert_int_equal(parked.status, WEIR_E_UNAVAILABLE);
	assert_true(parked.at - before < WEIR_DEAD_PEER_MS * 1e-3);
	assert_non_null(strstr(parked.text, child.address));
	assert_non_null(strstr(parked.text, "Lease"));
	print_message("%s: stream: %s; call after %.2f s: %s\n", listen, p.text, parked.at - before, parked.text);

	before = seconds_now();
	assert_int_equal(rpc_call_start(channel, RPC_STATUS, pattern_message(0, 10), 60000, result_done, &late), WEIR_OK);
	result_wait(&late);
	assert_int_equal(late.status, WEIR_E_UNAVAILABLE);
	assert_true(late.at - before < WEIR_DEAD_PEER_MS * 1e-3);
	assert_non_null(strstr(late.text, child.address));
	print_message("%s: later call after %.2f s: %s\n", listen, late.at - before, late.text);
	rpc_channel_close(channel);
	rpc_loop_destroy(loop);
	rpc_destroy(rpc);
	child_end(&child);
}

static void unix_address(char *out, size_t size, char *directory)
{
	assert_non_null(mkdtemp(directory));
	snprintf(out, size, "unix:%s/s", directory);
}

static void lose_unix_peer(int signal)
{
	char address[128], directory[] = "/tmp/weir-dead-XXXXXX";
	unix_address(address, sizeof address, directory);
	lose_peer(address, signal);
	unlink(address + 5);
	assert_int_equal(rmdir(directory), 0);
}

static void killed_unix(void **state)
{
	(void)state;
	lose_unix_peer(SIGKILL);
}
static void killed_tcp(void **state)
{
	(void)state;
	lose_peer("127.0.0.1:0", SIGKILL);
}
static void stopped_unix(void **state)
{
	(void)state;
	lose_unix_peer(SIGSTOP);
}
static void stopped_tcp(void **state)
{
	(void)state;
	lose_peer("127.0.0.1:0", SIGSTOP);
}

/* The connection is full, for pings too. A cancelled stream does not wait for the peer. */
static void cancel_when_full(const char *listen)
{
	static const size_t sizes[] = {1 << 20};
	struct rpc *rpc;
	struct rpc_loop *loop;
	struct rpc_channel *channel;
	struct child child;
	struct probe p;
	weir_error err = {0};
	child_start(&child, listen);
	rpc = rpc_grpc_create(NULL);
	loop = rpc_loop_create(rpc, "client", &err);
	assert_non_null(loop);
	assert_int_equal(rpc_channel_open(&channel, rpc, loop, child.address, &err), WEIR_OK);
	probe_open(&p, channel, loop, RPC_PUSH_STREAM, 0, sizes, 1);
	probe_send(&p, 2);
	probe_wait_received(&p, 2);
	assert_int_equal(kill(child.pid, SIGSTOP), 0);
	probe_send(&p, 32);
	const double before = seconds_now();
	probe_cancel(&p);
	assert_int_equal(probe_wait_closed(&p), WEIR_E_CANCELLED);
	assert_true(seconds_now() - before < WEIR_DEAD_PEER_MS * 1e-3);
	rpc_channel_close(channel);
	child_end(&child); /* until here the kernel has a part of a message, and gRPC the rest */
	rpc_loop_destroy(loop);
	rpc_destroy(rpc);
}

static void cancelled_when_full(void **state)
{
	(void)state;
	char address[128], directory[] = "/tmp/weir-dead-XXXXXX";
	unix_address(address, sizeof address, directory);
	cancel_when_full(address);
	unlink(address + 5);
	assert_int_equal(rmdir(directory), 0);
	cancel_when_full("127.0.0.1:0");
}

/* A killed server leaves its socket behind. The next server takes it over, but never from a live
 * one. */
static void stale_socket_is_taken_over(void **state)
{
	(void)state;
	static const struct rpc_service none = {0};
	char address[128], directory[] = "/tmp/weir-dead-XXXXXX";
	struct child child;
	struct rpc_server *server;
	weir_error err = {0};
	unix_address(address, sizeof address, directory);
	child_start(&child, address);
	struct rpc *rpc = rpc_grpc_create(NULL);
	struct rpc_loop *loop = rpc_loop_create(rpc, "server", &err);
	assert_int_equal(rpc_server_start(&server, rpc, address, &loop, 1, &none, NULL, &err), WEIR_E_EXISTS);
	child_end(&child);
	assert_int_equal(access(address + 5, F_OK), 0);
	assert_int_equal(rpc_server_start(&server, rpc, address, &loop, 1, &none, NULL, &err), WEIR_OK);
	rpc_server_stop(server, 0);
	assert_int_equal(rpc_server_start(&server, rpc, "unix:/nowhere-at-all/s", &loop, 1, &none, NULL, &err), WEIR_E_IO);
	assert_non_null(strstr(err.text, "/nowhere-at-all"));
	assert_int_equal(rpc_server_start(&server, rpc, "nonsense", &loop, 1, &none, NULL, &err), WEIR_E_INVALID);
	assert_int_equal(rpc_server_start(&server, rpc, "192.0.2.1:0", &loop, 1, &none, NULL, &err), WEIR_E_IO);
	assert_non_null(strstr(err.text, "192.0.2.1"));
	rpc_loop_destroy(loop);
	rpc_destroy(rpc);
	assert_int_equal(rmdir(directory), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(stale_socket_is_taken_over),
	    cmocka_unit_test(killed_unix),
	    cmocka_unit_test(killed_tcp),
	    cmocka_unit_test(stopped_unix),
	    cmocka_unit_test(stopped_tcp),
	    cmocka_unit_test(cancelled_when_full),
	};
	return cmocka_run_group_tests_name("rpc_dead_peer", tests, NULL, NULL);
}
