/* The records that a server takes on a data stream, by the role in the client's certificate. */
#include <stdio.h>

#include "tests/cmocka_check.h"

#include "tests/unit/common/tls_fixture.h"
#include "tests/unit/server/service/service_fixture.h"

static struct rpc *transport_as(struct tls_files *files, const char *uri)
{
	weir_error err = {0};
	struct rpc *rpc = rpc_grpc_create(NULL);
	assert_non_null(rpc);
	tls_issue(files, &mine, &mine, uri, 3600);
	CHECK_OK(rpc_grpc_secure(rpc, &files->security, &err), err);
	return rpc;
}

/* Sends a record of a kind and returns the reply's status. Its unit and step do not exist. */
static weir_status answer_to(struct client *c, uint8_t kind, uint64_t id)
{
	const struct record r = {.kind = kind, .request_id = id, .pass = 1, .unit = 1, .attempt = 1};
	const uint32_t before = client_answers(c);
	client_send(c, cluster_frame(&r, CLUSTER_ASYNC, cluster_key(CLUSTER_ASYNC, 0, 0), 1, kind == RECORD_PUSH));
	client_wait(c, before + 1);
	return client_answer(c, id, FRAME_PARTITION_ALL)->record.status;
}

static void an_evaluator_changes_nothing(void **state)
{
	(void)state;
	static const uint8_t changes[] = {RECORD_PUSH, RECORD_SEAL, RECORD_ASSIGN, RECORD_CLOSE_STEP, RECORD_RETIRE};
	static const char *const uris[] = {"weir://demo/worker/worker", "weir://demo/evaluator/evaluator"};
	static const char *const anywhere[] = {"127.0.0.1:0"};
	struct tls_files files;
	struct cluster k;
	cluster_open_over(&k, transport_as(&files, "weir://demo/server/server"), anywhere, 1, 1);
	for (uint32_t u = 0; u < 2; u++) {
		struct client c;
		struct rpc *rpc = transport_as(&files, uris[u]);
		client_open(&c, rpc, server_address(k.servers[0]), RPC_PUSH_STREAM);
		(void)cluster_register(&c);
		for (uint32_t i = 0; i < sizeof changes; i++) {
			const bool denied = answer_to(&c, changes[i], i + 1) == WEIR_E_DENIED;
			if (denied != (u == 1))
				fail_msg("record kind %u by %s is %s", changes[i], uris[u], denied ? "denied" : "taken");
		}
		client_close(&c);
		rpc_destroy(rpc);
	}
	cluster_close(&k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(an_evaluator_changes_nothing),
	};
	return cmocka_run_group_tests_name("service_roles", tests, tls_folders_make, tls_folders_remove);
}
