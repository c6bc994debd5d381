/* gRPC over TLS: trusted peers, permitted calls, refusal messages, and certificate files replaced
 * at run time. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/system/disk.h"
#include "tests/await.h"
#include "tests/unit/common/tls_fixture.h"
#include "tests/unit/proto/rpc_fixture.h"

#define CALL_MS 3000u

/* A process: a transport with one certificate or none. */
struct process {
	struct tls_files files;
	struct fixture f;
	FILE *log;
	struct logger *logger;
};

static void process_begin(struct process *p, const weir_security *s)
{
	weir_error err = {0};
	memset(&p->f, 0, sizeof p->f);
	p->f.transport = "tcp";
	p->log = tmpfile();
	p->logger = logger_create(&(struct logger_options){.out = p->log, .who = "test"});
	p->f.rpc = rpc_grpc_create(p->logger);
	assert_non_null(p->f.rpc);
	if (s)
		CHECK_OK(rpc_grpc_secure(p->f.rpc, s, &err), err);
	p->f.loop = rpc_loop_create(p->f.rpc, "client", &err);
	assert_non_null(p->f.loop);
}

/* The identity `uri`, with a certificate of `by`, trusting `trusted`. */
static void process_as(struct process *p, const char *uri, const struct tls_folder *by, const struct tls_folder *trusted)
{
	tls_issue(&p->files, by, trusted, uri, 3600);
	process_begin(p, &p->files.security);
}

static void process_end(struct process *p)
{
	host_stop(&p->f.node, 0);
	rpc_loop_destroy(p->f.loop);
	rpc_destroy(p->f.rpc);
	logger_destroy(p->logger);
	fclose(p->log);
}

static bool says(const struct process *p, const char *part)
{
	char text[16384];
	const ssize_t n = pread(fileno(p->log), text, sizeof text - 1, 0);
	text[n > 0 ? n : 0] = '\0';
	return strstr(text, part) != NULL;
}

static const char *address_of(const struct process *server)
{
	return rpc_server_address(server->f.node.server);
}

static weir_status stream_once(struct rpc_channel *channel, struct rpc_loop *loop, enum rpc_method method, weir_error *err)
{
	static const size_t sizes[] = {100, 3 << 20, 70000};
	struct probe p;
	probe_open(&p, channel, loop, method, 5, sizes, 3);
	probe_send(&p, 3);
	probe_wait_received(&p, 3);
	const uint32_t received = p.received;
	if (received == 3)
		probe_finish(&p);
	const weir_status status = probe_wait_closed(&p);
	if (!status)
		assert_int_equal(received, 3);
	assert_int_equal(p.wrong, 0);
	return status ? weir_fail(err, status, "%s", p.text) : WEIR_OK;
}

static weir_status call_over(struct rpc_channel *channel, struct rpc_loop *loop, enum rpc_method method, weir_error *err)
{
	struct message *reply = NULL;
	if (rpc_method_is_stream(method))
		return stream_once(channel, loop, method, err);
	const weir_status status = rpc_call_wait(channel, method, pattern_message(3, 1000), CALL_MS, &reply, err);
	assert_true(status || pattern_is(reply, 3, 1000));
	message_release(reply);
	return status;
}

/* Makes a call over a new connection. */
static weir_status call_once(struct process *from, const char *address, enum rpc_method method, weir_error *err)
{
	struct rpc_channel *channel;
	CHECK_OK(rpc_channel_open(&channel, from->f.rpc, from->f.loop, address, err), *err);
	const weir_status status = call_over(channel, from->f.loop, method, err);
	rpc_channel_close(channel);
	return status;
}

static void check_outcome(enum rpc_method method, weir_status got, weir_status expected, const char *text, const char *part)
{
	if (got != expected)
		fail_msg("%s: %s, not %s: %s", rpc_method_path(method), weir_status_name(got), weir_status_name(expected), text);
	CHECK_CONTAINS(text, part);
}

static void expect_call(struct process *from, const struct process *to, enum rpc_method method, weir_status status,
                        const char *part)
{
	weir_error err = {0};
	check_outcome(method, call_once(from, address_of(to), method, &err), status, err.text, part);
}

/* --- Clients that a server accepts */

static void each_role_calls_what_is_its_own(void **state)
{
	static const struct {
		enum rpc_method method;
		const char *may;
	} rows[] = {
	    {RPC_PUSH_STREAM, "wae"},
	    {RPC_PUSH, "wa"},
	    {RPC_PULL, "wae"},
	    {RPC_STEP, "w"},
	    {RPC_CLOCK, "w"},
	    {RPC_JOIN, "wae"},
	    {RPC_GATE, "we"},
	    {RPC_SEAL, "wa"},
	    {RPC_ASSIGN, "wa"},
	    {RPC_PROGRESS, "wae"},
	    {RPC_LAYOUT, "a"},
	    {RPC_PLACE, "a"},
	    {RPC_REWIND, "a"},
	    {RPC_CHECKPOINT, "a"},
	    {RPC_LINK, "s"},
	    {RPC_HEARTBEAT, "s"},
	    {RPC_LEDGER_STATE, "s"},
	    {RPC_CHECKPOINT_BEGIN, "s"},
	    {RPC_HEALTH_CHECK, "swae"},
	};
	static const char *const uris[] = {"weir://demo/server/peer", "weir://demo/worker/w", "weir://demo/admin/a",
	                                   "weir://demo/evaluator/e"};
	struct process server, from;
	struct rpc_channel *channel;
	weir_error err = {0};
	(void)state;
	process_as(&server, "weir://demo/server/s", &mine, &mine);
	host_start(&server.f, &server.f.node);
	for (size_t u = 0; u < sizeof uris / sizeof *uris; u++) {
		process_as(&from, uris[u], &mine, &mine);
		CHECK_OK(rpc_channel_open(&channel, from.f.rpc, from.f.loop, address_of(&server), &err), err);
		for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
			const bool may = strchr(rows[i].may, "swae"[u]) != NULL;
			err = (weir_error){0};
			check_outcome(rows[i].method, call_over(channel, from.f.loop, rows[i].method, &err), may ? WEIR_OK : WEIR_E_DENIED,
			              err.text, may ? "" : uris[u]);
		}
		rpc_channel_close(channel);
		process_end(&from);
	}
	process_as(&from, uris[1], &mine, &mine);
	expect_call(
	    &from, &server, RPC_HEARTBEAT, WEIR_E_DENIED,
	    "/weir.v1.Replica/Heartbeat: the certificate shown is weir://demo/worker/w; expected the role server, of the job demo");
	process_end(&from);
	process_end(&server);
}

static void others_are_told_why_not(void **state)
{
	struct process server, from;
	(void)state;
	process_as(&server, "weir://demo/server/s", &mine, &mine);
	host_start(&server.f, &server.f.node);
	process_begin(&from, NULL);
	expect_call(&from, &server, RPC_MAP, WEIR_E_UNAVAILABLE, "in plain text");
	process_end(&from);
	process_as(&from, "weir://demo/worker/w", &other, &other);
	expect_call(&from, &server, RPC_MAP, WEIR_E_UNAVAILABLE,
	            "certificate verify failed; the server's certificate has expired, or");
	process_end(&from);
	process_end(&server);
}

/* The client trusts both authorities and has a certificate of the wrong one. Its own check passes;
 * the server's does not. */
static void a_stranger_is_refused_by_the_server(void **state)
{
	struct process server, from;
	char *text[2];
	size_t bytes;
	char both[96];
	weir_error err = {0};
	(void)state;
	process_as(&server, "weir://demo/server/s", &mine, &mine);
	host_start(&server.f, &server.f.node);
	tls_issue(&from.files, &other, &mine, "weir://demo/admin/a", 3600);
	for (int i = 0; i < 2; i++) {
		char path[96];
		snprintf(path, sizeof path, "%s/ca.crt", i ? other.path : mine.path);
		CHECK_OK(disk_read_file(disk_system(), path, CERTIFICATE_BYTES_MAX, &text[i], &bytes, &err), err);
	}
	char *joined = NULL;
	assert_true(asprintf(&joined, "%s%s", text[0], text[1]) > 0);
	snprintf(both, sizeof both, "%s/both.crt", other.path);
	CHECK_OK(disk_write_file(disk_system(), both, joined, strlen(joined), &err), err);
	from.files.security.ca = both;
	process_begin(&from, &from.files.security);
	expect_call(&from, &server, RPC_MAP, WEIR_E_UNAVAILABLE, "weir://demo/admin/a");
	process_end(&from);
	process_end(&server);
	free(joined);
	free(text[0]);
	free(text[1]);
}

static void another_jobs_server_is_not_believed(void **state)
{
	struct process server, from;
	(void)state;
	process_as(&server, "weir://demo/server/s", &mine, &mine);
	host_start(&server.f, &server.f.node);
	process_as(&from, "weir://other/worker/w", &mine, &mine);
	expect_call(&from, &server, RPC_MAP, WEIR_E_UNAVAILABLE,
	            "the certificate shown is weir://demo/server/s; expected that of a server of the job other");
	process_end(&from);
	process_end(&server);
}

/* The client trusts the server by its host name, as it trusts an etcd. */
static void another_job_is_refused_by_the_server_itself(void **state)
{
	const struct certificate_order order = {
	    .who = {"demo", ROLE_SERVER, "s"}, .hosts = {"127.0.0.1"}, .hosts_count = 1, .valid_s = 3600};
	struct process server, from;
	struct rpc_channel *channel;
	struct message *reply = NULL;
	weir_error err = {0};
	(void)state;
	tls_issue(&server.files, &mine, &mine, "weir://demo/server/s", 3600);
	CHECK_OK(certificate_issue(mine.path, &order, &err), err);
	process_begin(&server, &server.files.security);
	host_start(&server.f, &server.f.node);
	process_as(&from, "weir://other/worker/w", &mine, &mine);
	CHECK_OK(rpc_channel_open_foreign(&channel, from.f.rpc, from.f.loop, address_of(&server), true, &err), err);
	assert_int_equal(rpc_call_wait(channel, RPC_MAP, pattern_message(3, 1000), CALL_MS, &reply, &err), WEIR_E_DENIED);
	CHECK_CONTAINS(
	    err.text,
	    "the certificate shown is weir://other/worker/w; expected the role worker or admin or evaluator, of the job demo");
	rpc_channel_close(channel);
	process_end(&from);
	process_end(&server);
}

static void only_a_servers_certificate_serves(void **state)
{
	struct process p;
	struct rpc_server *server;
	weir_error err = {0};
	static const struct rpc_service none = {0};
	(void)state;
	process_as(&p, "weir://demo/worker/w", &mine, &mine);
	assert_int_equal(rpc_server_start(&server, p.f.rpc, "127.0.0.1:0", &p.f.loop, 1, &none, NULL, &err), WEIR_E_INVALID);
	CHECK_CONTAINS(err.text, "this server's certificate is weir://demo/worker/w; expected the role server");
	process_end(&p);
}

static void plain_text_stays_on_this_machine(void **state)
{
	struct process p;
	struct rpc_channel *channel;
	struct rpc_server *server;
	weir_error err = {0};
	static const struct rpc_service none = {0};
	(void)state;
	process_begin(&p, NULL);
	assert_int_equal(rpc_channel_open(&channel, p.f.rpc, p.f.loop, "192.0.2.1:9", &err), WEIR_E_INVALID);
	CHECK_CONTAINS(err.text, "192.0.2.1:9: would be spoken to in plain text");
	assert_int_equal(rpc_server_start(&server, p.f.rpc, "0.0.0.0:0", &p.f.loop, 1, &none, NULL, &err), WEIR_E_INVALID);
	assert_int_equal(rpc_channel_open_foreign(&channel, p.f.rpc, p.f.loop, "192.0.2.1:9", false, &err), WEIR_E_INVALID);
	assert_int_equal(rpc_channel_open_foreign(&channel, p.f.rpc, p.f.loop, "127.0.0.1:9", true, &err), WEIR_E_INVALID);
	CHECK_CONTAINS(err.text, "give certificates");
	process_end(&p);
	process_begin(&p, &(weir_security){.insecure = 1});
	CHECK_OK(rpc_channel_open(&channel, p.f.rpc, p.f.loop, "192.0.2.1:9", &err), err);
	rpc_channel_close(channel);
	process_end(&p);
	p.f.rpc = rpc_grpc_create(NULL);
	assert_int_equal(rpc_grpc_secure(p.f.rpc, &(weir_security){.certificate = "a", .ca = "b"}, &err), WEIR_E_INVALID);
	CHECK_CONTAINS(err.text, "there is no key");
	rpc_destroy(p.f.rpc);
}

/* --- Replaced files */

/* Overwrites the file `name` of `to` with the one of `from`. */
static void replace(const struct tls_folder *to, const struct tls_folder *from, const char *name)
{
	char a[128], b[128];
	weir_error err = {0};
	for (int i = 0; i < 2; i++) {
		snprintf(a, sizeof a, "%s/%s.%s", from->path, name, i ? "key" : "crt");
		snprintf(b, sizeof b, "%s/%s.%s", to->path, name, i ? "key" : "crt");
		CHECK_OK(disk_copy_file(disk_system(), a, b, &err), err);
	}
}

/* A temporarily empty file changes nothing. Then all processes switch to another authority; open
 * streams continue. */
static void replaced_files_serve_what_connects_from_then_on(void **state)
{
	static const size_t sizes[] = {1000};
	struct tls_folder here;
	struct tls_files unused;
	struct process server, worker, late;
	struct rpc_channel *channel;
	struct probe open;
	char key[128];
	weir_error err = {0};
	(void)state;
	tls_folder_make(&here);
	process_as(&server, "weir://demo/server/s", &here, &here);
	host_start(&server.f, &server.f.node);
	process_as(&worker, "weir://demo/worker/w", &here, &here);
	CHECK_OK(rpc_channel_open(&channel, worker.f.rpc, worker.f.loop, address_of(&server), &err), err);
	probe_open(&open, channel, worker.f.loop, RPC_PUSH_STREAM, 9, sizes, 1);
	probe_send(&open, 1);
	probe_wait_received(&open, 1);

	snprintf(key, sizeof key, "%s/s.key", here.path);
	CHECK_OK(disk_write_file(disk_system(), key, "", 0, &err), err);
	while (!says(&server, "certificates not taken up"))
		CHECK_OK(call_once(&worker, address_of(&server), RPC_MAP, &err), err);

	process_as(&late, "weir://demo/worker/late", &other, &other);
	expect_call(&late, &server, RPC_MAP, WEIR_E_UNAVAILABLE, "");
	tls_issue(&unused, &other, &other, "weir://demo/server/s", 3600);
	tls_issue(&unused, &other, &other, "weir://demo/worker/w", 3600);
	replace(&here, &other, "s");
	replace(&here, &other, "w");
	replace(&here, &other, "ca");
	AWAIT(call_once(&late, address_of(&server), RPC_MAP, &err) == WEIR_OK, "the server does not take up its files: %s", err.text);
	AWAIT(call_once(&worker, address_of(&server), RPC_MAP, &err) == WEIR_OK, "the worker does not take up its files: %s",
	      err.text);
	/* over the channel's next connection */
	CHECK_OK(stream_once(channel, worker.f.loop, RPC_PUSH_STREAM, &err), err);
	/* and over its old one */
	probe_send(&open, 2);
	probe_wait_received(&open, 3);

	process_end(&late);
	probe_finish(&open);
	assert_int_equal(probe_wait_closed(&open), WEIR_OK);
	rpc_channel_close(channel);
	process_end(&worker);
	process_end(&server);
	tls_folder_remove(&here);
}

/* Opens a stream and a call on a new connection, with a certificate of two seconds. Returns false
 * if a busy machine takes longer. */
static bool opens_in_time(struct process *brief, const char *address, struct rpc_channel **channel, struct probe *open)
{
	static const size_t sizes[] = {1000};
	weir_error err = {0};
	do
		tls_issue(&brief->files, &mine, &mine, "weir://demo/worker/brief", 2);
	while (certificates_check(&brief->files.security, &err));
	process_begin(brief, &brief->files.security);
	CHECK_OK(rpc_channel_open(channel, brief->f.rpc, brief->f.loop, address, &err), err);
	const weir_status called = call_over(*channel, brief->f.loop, RPC_MAP, &err);
	probe_open(open, *channel, brief->f.loop, RPC_PUSH_STREAM, 9, sizes, 1);
	probe_send(open, 1);
	probe_wait_received(open, 1);
	if (!called && open->received == 1)
		return true;
	(void)probe_wait_closed(open);
	rpc_channel_close(*channel);
	process_end(brief);
	return false;
}

/* Expiry ends a client's streams, and its connections are useless until it has a new
 * certificate. */
static void an_open_connection_ends_with_its_certificate(void **state)
{
	struct process server, brief;
	struct rpc_channel *channel;
	struct probe open;
	weir_error err = {0};
	(void)state;
	process_as(&server, "weir://demo/server/s", &mine, &mine);
	host_start(&server.f, &server.f.node);
	while (!opens_in_time(&brief, address_of(&server), &channel, &open))
		;
	assert_int_equal(probe_wait_closed(&open), WEIR_E_UNAVAILABLE);
	CHECK_CONTAINS(open.text, "the certificate that it was opened with has expired");
	assert_int_equal(call_over(channel, brief.f.loop, RPC_MAP, &err), WEIR_E_UNAVAILABLE);
	CHECK_CONTAINS(err.text, "weir://demo/worker/brief, has expired since");
	assert_int_equal(stream_once(channel, brief.f.loop, RPC_PUSH_STREAM, &err), WEIR_E_UNAVAILABLE);
	assert_true(says(&server, "weir://demo/worker/brief, has expired since"));
	assert_int_equal(call_once(&brief, address_of(&server), RPC_MAP, &err), WEIR_E_UNAVAILABLE);
	CHECK_CONTAINS(err.text, "brief.crt: expired on 20");
	tls_issue(&brief.files, &mine, &mine, "weir://demo/worker/brief", 3600);
	AWAIT(stream_once(channel, brief.f.loop, RPC_PUSH_STREAM, &err) == WEIR_OK, "the new certificate is not shown: %s", err.text);
	CHECK_OK(call_over(channel, brief.f.loop, RPC_MAP, &err), err);
	rpc_channel_close(channel);
	process_end(&brief);
	process_end(&server);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(each_role_calls_what_is_its_own),
	    cmocka_unit_test(others_are_told_why_not),
	    cmocka_unit_test(a_stranger_is_refused_by_the_server),
	    cmocka_unit_test(another_jobs_server_is_not_believed),
	    cmocka_unit_test(another_job_is_refused_by_the_server_itself),
	    cmocka_unit_test(only_a_servers_certificate_serves),
	    cmocka_unit_test(plain_text_stays_on_this_machine),
	    cmocka_unit_test(replaced_files_serve_what_connects_from_then_on),
	    cmocka_unit_test(an_open_connection_ends_with_its_certificate),
	};
	return cmocka_run_group_tests_name("rpc_tls", tests, tls_folders_make, tls_folders_remove);
}
