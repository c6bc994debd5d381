/* The parts of coord_etcd.h beyond coord.h: endpoints, and behaviour of etcd itself. */
#include "proto/coord/coord_etcd.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/cmocka_check.h"
#include "tests/unit/proto/coord_fixture.h"

#define LEASE_MS 6000

static void a_url_that_is_none_is_refused(void **state)
{
	(void)state;
	static const struct {
		const char *url;
		weir_status status;
		const char *text;
	} cases[] = {
	    {"static", WEIR_E_INVALID, "'static': expected etcd://HOST:PORT"},
	    {"etcd://", WEIR_E_INVALID, "endpoint 1"},
	    {"etcd://[::1]:2379,b", WEIR_E_INVALID, "endpoint 2: address 'b'"},
	    {"etcd://[::1]:2379,", WEIR_E_INVALID, "endpoint 2"},
	    {"etcd://[::1]:1,[::1]:2,[::1]:3,[::1]:4,[::1]:5,[::1]:6,[::1]:7,[::1]:8,[::1]:9", WEIR_E_LIMIT, "more than 8 endpoints"},
	};
	struct rpc *rpc = rpc_grpc_create(NULL);
	weir_error err = {0};
	struct rpc_loop *loop = rpc_loop_create(rpc, "coord", &err);
	struct coord_options options = {.lease_ms = LEASE_MS};
	struct coord *c;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		assert_int_equal(coord_etcd_open(&c, rpc, loop, cases[i].url, &options, &err), cases[i].status);
		CHECK_CONTAINS(err.text, cases[i].url);
		CHECK_CONTAINS(err.text, cases[i].text);
		assert_null(c);
	}
	options.lease_ms = WEIR_COORD_LEASE_MS_MIN - 1;
	assert_int_equal(coord_etcd_open(&c, rpc, loop, "etcd://[::1]:2379", &options, &err), WEIR_E_INVALID);
	CHECK_CONTAINS(err.text, "999 ms");
	rpc_loop_destroy(loop);
	rpc_destroy(rpc);
}

/* A socket that accepts connections and never reads. */
static int black_hole(uint16_t *port)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t n = sizeof a;
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	assert_true(fd >= 0 && bind(fd, (struct sockaddr *)&a, n) == 0 && listen(fd, 16) == 0 &&
	            getsockname(fd, (struct sockaddr *)&a, &n) == 0);
	*port = ntohs(a.sin_port);
	return fd;
}

static void endpoints_that_refuse_or_are_silent_are_passed_over(void **state)
{
	(void)state;
	struct world w;
	static struct answer a;
	uint16_t silent_port;
	int silent = black_hole(&silent_port);
	world_open(&w, true);
	struct session *direct = session_open(&w, LEASE_MS);
	session_wait_state(direct, COORD_CONNECTED);
	snprintf(w.endpoints, sizeof w.endpoints, "127.0.0.1:%u,127.0.0.1:%u,%s", free_port(), silent_port, w.process.address);
	struct session *s = session_open(&w, 1000);
	session_wait_state(s, COORD_CONNECTED);
	assert_int_equal(s->states, 1); /* never away: one endpoint of three answers */
	assert_int_not_equal(put_text(s, "/t/k", "v", 0, true, &a), 0);
	read_now(direct, "/t/k", &a);
	assert_int_equal(a.count, 1);
	world_close(&w);
	close(silent);
}

/* etcd comes back at the session's other endpoint, and then at the first one again. */
static void a_session_moves_to_the_endpoint_that_answers(void **state)
{
	(void)state;
	struct world w;
	static struct answer a;
	static struct watched watched;
	char text[16];
	world_open(&w, true);
	snprintf(w.endpoints, sizeof w.endpoints, "%s,%s", w.process.address, w.process.spare_address);
	struct session *s = session_open(&w, LEASE_MS);
	session_wait_state(s, COORD_CONNECTED);
	uint64_t revision = put_text(s, "/t/k", "0", 0, true, &a);
	watch_begin(s, "/t/", revision + 1, &watched);
	for (unsigned move = 1; move <= 4; move++) {
		world_down(&w);
		w.process.on_client_port = move % 2 == 0;
		w.process.on_spare_port = !w.process.on_client_port;
		world_up(&w);
		read_now(s, "/t/k", &a);
		assert_int_equal(a.status, WEIR_OK);
		assert_int_equal(a.records[0].mod_revision, revision);
		snprintf(text, sizeof text, "%u", move);
		revision = put_text(s, "/t/k", text, revision, true, &a);
		assert_int_equal(a.status, WEIR_OK);
		assert_true(a.applied);
	}
	watched_wait(&watched, 4);
	for (unsigned move = 1; move <= 4; move++)
		assert_int_equal(watched.events[move - 1].value[0], '0' + move);
	assert_int_equal(watched.count, 4);
	assert_int_equal(s->losses, 0);
	world_close(&w);
}

static void a_lease_that_another_ended_is_told_by_the_first_refusal(void **state)
{
	(void)state;
	struct world w;
	static struct answer a;
	char body[64];
	world_open(&w, true);
	/* found before the next renewal is due */
	struct session *s = session_open(&w, 10 * WORLD_PATIENCE_MS);
	session_wait_state(s, COORD_CONNECTED);
	put_text(s, "/t/alive", "yes", 0, true, &a);
	read_now(s, "/t/alive", &a);
	snprintf(body, sizeof body, "{\"ID\":\"%llu\"}", (unsigned long long)a.records[0].lease);
	etcd_process_post(&w.process, "/v3/lease/revoke", body);
	assert_int_not_equal(put_text(s, "/t/free", "yes", 0, false, &a), 0);
	assert_int_equal(s->losses, 0);
	put_text(s, "/t/zombie", "boo", 0, true, &a);
	assert_int_equal(a.status, WEIR_E_STALE);
	CHECK_CONTAINS(a.text, "/t/zombie");
	CHECK_CONTAINS(a.text, w.process.address);
	put_text(s, "/t/late", "boo", 0, false, &a);
	assert_int_equal(a.status, WEIR_E_STALE);
	assert_int_equal(s->losses, 1);
	world_close(&w);
}

/* An abandoned attempt may have obtained the lease. The next attempt finds out. */
static void a_session_opened_in_silence_gets_its_lease(void **state)
{
	(void)state;
	struct world w;
	static struct answer a;
	world_open(&w, true);
	session_wait_state(session_open(&w, LEASE_MS), COORD_CONNECTED);
	world_silent(&w, true);
	struct session *s = session_open(&w, LEASE_MS / 2);
	session_wait_state(s, COORD_AWAY);
	CHECK_CONTAINS(s->text, "LeaseGrant");
	world_silent(&w, false);
	session_wait_state(s, COORD_CONNECTED);
	assert_int_not_equal(put_text(s, "/t/alive", "yes", 0, true, &a), 0);
	assert_int_equal(s->losses, 0);
	world_close(&w);
}

/* The records exceed a message. A read is refused and a watch reports a gap; both work with fewer
 * records. */
static void more_than_one_message_holds_is_said(void **state)
{
	(void)state;
	enum { ROUNDS = 3 }; /* of the largest transaction, 512 KiB each */
	struct world w;
	static struct answer a;
	static struct watched watched;
	static char value[WEIR_COORD_VALUE_BYTES_MAX], keys[WEIR_COORD_TXN_MAX][32];
	static struct coord_change changes[WEIR_COORD_TXN_MAX];
	world_open(&w, true);
	struct session *writer = session_open(&w, LEASE_MS), *reader = session_open(&w, LEASE_MS);
	session_wait_state(writer, COORD_CONNECTED);
	session_wait_state(reader, COORD_CONNECTED);
	uint64_t revision = put_text(writer, "/t/k", "0", ANY, false, &a);
	watch_begin(reader, "/t/", revision + 1, &watched);
	put_text(writer, "/t/k", "1", ANY, false, &a);
	watched_wait(&watched, 1);
	session_part(reader);
	read_now(writer, "/t/k", &a); /* the session has reconnected */
	for (unsigned round = 0; round < ROUNDS; round++) {
		for (unsigned i = 0; i < WEIR_COORD_TXN_MAX; i++) {
			snprintf(keys[i], sizeof keys[i], "/t/large/%u/%u", round, i);
			changes[i] = (struct coord_change){.key = keys[i], .value = value, .value_bytes = sizeof value};
		}
		txn_now(writer, &(struct coord_txn){.changes = changes, .changes_count = WEIR_COORD_TXN_MAX}, &a);
		assert_int_equal(a.status, WEIR_OK);
	}
	session_rejoin(reader);
	watched_wait_missed(&watched);
	watch_end(&watched);
	read_now(reader, "/t/", &a);
	assert_int_equal(a.status, WEIR_E_LIMIT);
	CHECK_CONTAINS(a.text, "/t/");
	read_now(reader, "/t/large/1/", &a);
	assert_int_equal(a.count, WEIR_COORD_TXN_MAX);
	watch_begin(reader, "/t/", a.revision + 1, &watched);
	put_text(writer, "/t/k", "2", ANY, false, &a);
	watched_wait(&watched, 1);
	assert_string_equal(watched.events[0].value, "2");
	assert_int_equal(reader->losses, 0);
	world_close(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_url_that_is_none_is_refused),
	    cmocka_unit_test(endpoints_that_refuse_or_are_silent_are_passed_over),
	    cmocka_unit_test(a_session_moves_to_the_endpoint_that_answers),
	    cmocka_unit_test(a_lease_that_another_ended_is_told_by_the_first_refusal),
	    cmocka_unit_test(a_session_opened_in_silence_gets_its_lease),
	    cmocka_unit_test(more_than_one_message_holds_is_said),
	};
	return cmocka_run_group_tests_name("coord_etcd_endpoints", tests, NULL, NULL);
}
