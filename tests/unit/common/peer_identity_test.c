/* peer_identity.c: the identity in a certificate's URI. address.c: loopback addresses. */
#include "common/base/peer_identity.h"

#include <string.h>

#include "common/base/address.h"
#include "tests/cmocka_check.h"

static void parts_are_read_and_written(void **state)
{
	static const char text[] = "weir://demo-1/worker/worker_7.a";
	struct peer_identity p;
	char uri[PEER_IDENTITY_URI_BYTES_MAX];
	(void)state;
	assert_true(peer_identity_parse(&p, text, strlen(text)));
	assert_string_equal(p.job, "demo-1");
	assert_int_equal(p.role, ROLE_WORKER);
	assert_string_equal(p.name, "worker_7.a");
	peer_identity_uri(&p, uri);
	assert_string_equal(uri, text);
}

static void any_other_name_is_no_peer(void **state)
{
	static const char longest[] = "weir://123456789012345678901234567890123456789012345678901234567890123/admin/a";
	static const char *const wrong[] = {
	    "",
	    "weir://",
	    "weir://demo",
	    "weir://demo/",
	    "weir://demo/worker",
	    "weir://demo/worker/",
	    "weir://demo/worker/a/",
	    "weir://demo/worker/a/b",
	    "weir:///worker/a",
	    "weir://demo/workers/a",
	    "weir://demo/Worker/a",
	    "weir://de mo/worker/a",
	    "weir://.demo/worker/a",
	    "spiffe://demo/worker/a",
	    "weir://demo/worker//",
	    "weir://1234567890123456789012345678901234567890123456789012345678901234/admin/a",
	};
	struct peer_identity p;
	(void)state;
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
		if (peer_identity_parse(&p, wrong[i], strlen(wrong[i])))
			fail_msg("'%s' is taken for somebody", wrong[i]);
	assert_true(peer_identity_parse(&p, longest, strlen(longest)));
	assert_false(peer_identity_parse(&p, "weir://a/admin/b\0c", sizeof "weir://a/admin/b\0c" - 1));
}

static void roles_are_named(void **state)
{
	char roles[PEER_ROLES_BYTES];
	(void)state;
	peer_roles(ROLE_SERVER | ROLE_WORKER | ROLE_ADMIN, roles);
	assert_string_equal(roles, "server or worker or admin");
	peer_roles(ROLE_ADMIN, roles);
	assert_string_equal(roles, "admin");
}

static void loopback_is_this_machine(void **state)
{
	static const char *const here[] = {"127.0.0.1:1", "127.9.9.9:0", "localhost:5", "[::1]:7", "unix:/a", "memory:a"};
	static const char *const elsewhere[] = {"10.0.0.1:1",          "0.0.0.0:1", "[::]:1",  "weir-0.weir:5",
	                                        "127.0.0.1.example:1", "localhost", "127.1:5", ""};
	(void)state;
	for (size_t i = 0; i < sizeof here / sizeof *here; i++)
		if (!address_is_local(here[i]))
			fail_msg("%s is said to be elsewhere", here[i]);
	for (size_t i = 0; i < sizeof elsewhere / sizeof *elsewhere; i++)
		if (address_is_local(elsewhere[i]))
			fail_msg("%s is said to be here", elsewhere[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(parts_are_read_and_written),
	    cmocka_unit_test(any_other_name_is_no_peer),
	    cmocka_unit_test(roles_are_named),
	    cmocka_unit_test(loopback_is_this_machine),
	};
	return cmocka_run_group_tests_name("peer_identity", tests, NULL, NULL);
}
