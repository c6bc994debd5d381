/* certificate.h: issued certificates hold their names; a bad file is refused by its name. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/system/disk.h"
#include "tests/cmocka_check.h"
#include "tests/unit/common/tls_fixture.h"

static void expect_refused(const weir_security *s, weir_status status, const char *part)
{
	weir_error err = {0};
	const weir_status got = certificates_check(s, &err);
	if (got != status)
		fail_msg("%s, not %s: %s", weir_status_name(got), weir_status_name(status), err.text);
	CHECK_CONTAINS(err.text, part);
}

static void an_issued_certificate_names_its_peer(void **state)
{
	struct tls_files f;
	struct certificates c;
	weir_error err = {0};
	(void)state;
	tls_issue(&f, &mine, &mine, "weir://demo/worker/w7", 60);
	f.security.job = "demo";
	CHECK_OK(certificates_load(&c, &f.security, &err), err);
	assert_string_equal(c.who.job, "demo");
	assert_int_equal(c.who.role, ROLE_WORKER);
	assert_string_equal(c.who.name, "w7");
	assert_in_range(certificate_seconds_left(c.certificate, strlen(c.certificate)), 1, 60);
	/* a longer cut removes only dashes of the end line */
	for (size_t cut = 0; cut + 40 < strlen(c.certificate); cut += 7)
		assert_int_equal(certificate_seconds_left(c.certificate, cut), 0);
	assert_int_equal(certificate_seconds_left(c.key, strlen(c.key)), 0);
	certificates_destroy(&c);
	f.security.job = "other";
	expect_refused(&f.security, WEIR_E_INVALID, "is weir://demo/worker/w7, of the job demo; this one is other");
}

static void files_are_their_owners_alone(void **state)
{
	static const char *const names[] = {"ca.crt", "ca.key", "a.crt", "a.key"};
	struct tls_files f;
	(void)state;
	tls_issue(&f, &mine, &mine, "weir://demo/admin/a", 60);
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		char path[96];
		struct stat st;
		snprintf(path, sizeof path, "%s/%s", mine.path, names[i]);
		assert_int_equal(stat(path, &st), 0);
		assert_int_equal(st.st_mode & 0777, 0600);
	}
}

static void wrong_files_are_named(void **state)
{
	static const char text[] = "not a certificate\n";
	struct tls_files f, g;
	char junk[96];
	weir_error err = {0};
	(void)state;
	tls_issue(&f, &mine, &mine, "weir://demo/worker/a", 60);
	tls_issue(&g, &mine, &mine, "weir://demo/worker/b", 60);
	snprintf(junk, sizeof junk, "%s/junk", mine.path);
	CHECK_OK(disk_write_file(disk_system(), junk, text, strlen(text), &err), err);
	weir_security s = f.security;
	s.certificate = "/nowhere/a.crt";
	expect_refused(&s, WEIR_E_NOT_FOUND, "/nowhere/a.crt");
	s.certificate = junk;
	expect_refused(&s, WEIR_E_PARSE, "no certificate in it");
	s = f.security;
	s.key = junk;
	expect_refused(&s, WEIR_E_PARSE, "no private key in it");
	s.key = g.key;
	expect_refused(&s, WEIR_E_INVALID, "is not that of certificate");
	s = f.security;
	s.ca = junk;
	expect_refused(&s, WEIR_E_PARSE, junk);
}

static void another_authority_does_not_vouch(void **state)
{
	struct tls_files f;
	(void)state;
	tls_issue(&f, &mine, &other, "weir://demo/server/s", 60);
	expect_refused(&f.security, WEIR_E_INVALID, "does not vouch for it");
	CHECK_CONTAINS(f.ca, other.path);
}

static void one_that_has_expired_is_refused_with_its_time(void **state)
{
	struct tls_files f;
	(void)state;
	tls_issue(&f, &mine, &mine, "weir://demo/server/s", 0);
	expect_refused(&f.security, WEIR_E_INVALID, "expired on 20");
}

/* X.509 writes years from 2050 on in another format. */
static void how_long_is_told(void **state)
{
	static const uint64_t lives[] = {1000, 90 * 86400, 40ull * 365 * 86400};
	(void)state;
	for (size_t i = 0; i < sizeof lives / sizeof *lives; i++) {
		struct tls_files f;
		char *text;
		size_t bytes;
		weir_error err = {0};
		tls_issue(&f, &mine, &mine, "weir://demo/worker/long", lives[i]);
		CHECK_OK(disk_read_file(disk_system(), f.certificate, CERTIFICATE_BYTES_MAX, &text, &bytes, &err), err);
		assert_in_range(certificate_seconds_left(text, bytes), lives[i] - 900, lives[i]);
		free(text);
	}
}

static void a_certificate_of_hosts_alone_names_no_peer(void **state)
{
	const struct certificate_order order = {
	    .who.name = "etcd", .hosts = {"etcd-0.etcd", "127.0.0.1"}, .hosts_count = 2, .valid_s = 60};
	struct tls_files f;
	char certificate[96], key[96];
	weir_error err = {0};
	(void)state;
	tls_issue(&f, &mine, &mine, "weir://demo/server/s", 60);
	CHECK_OK(certificate_issue(mine.path, &order, &err), err);
	snprintf(certificate, sizeof certificate, "%s/etcd.crt", mine.path);
	snprintf(key, sizeof key, "%s/etcd.key", mine.path);
	f.security.certificate = certificate;
	f.security.key = key;
	expect_refused(&f.security, WEIR_E_INVALID, "does not say who it is of");
}

static void wrong_orders_are_refused(void **state)
{
	static const struct {
		struct certificate_order order;
		const char *part;
	} wrong[] = {
	    {{.who = {"demo", ROLE_SERVER, "../a"}, .valid_s = 1}, "the name '../a'"},
	    {{.who = {"demo", ROLE_SERVER, "ca"}, .valid_s = 1}, "the name 'ca'"},
	    {{.who = {"d/e", ROLE_SERVER, "a"}, .valid_s = 1}, "the job 'd/e'"},
	    {{.who = {"", 0, "a"}, .valid_s = 1}, "needs a host"},
	    {{.who = {"demo", ROLE_SERVER, "a"}, .hosts = {"a,URI:weir://demo/admin/x"}, .hosts_count = 1, .valid_s = 1}, "the host"},
	};
	weir_error err = {0};
	(void)state;
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		assert_int_equal(certificate_issue(mine.path, &wrong[i].order, &err), WEIR_E_INVALID);
		CHECK_CONTAINS(err.text, wrong[i].part);
	}
	assert_int_equal(certificate_authority(mine.path, 60, &err), WEIR_E_EXISTS);
	assert_int_equal(certificate_issue("/nowhere", &(struct certificate_order){.who = {"demo", ROLE_SERVER, "a"}}, &err),
	                 WEIR_E_NOT_FOUND);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(an_issued_certificate_names_its_peer),
	    cmocka_unit_test(files_are_their_owners_alone),
	    cmocka_unit_test(wrong_files_are_named),
	    cmocka_unit_test(another_authority_does_not_vouch),
	    cmocka_unit_test(one_that_has_expired_is_refused_with_its_time),
	    cmocka_unit_test(how_long_is_told),
	    cmocka_unit_test(a_certificate_of_hosts_alone_names_no_peer),
	    cmocka_unit_test(wrong_orders_are_refused),
	};
	return cmocka_run_group_tests_name("certificate", tests, tls_folders_make, tls_folders_remove);
}
