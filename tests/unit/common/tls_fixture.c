#include "tests/unit/common/tls_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/system/disk.h"
#include "tests/cmocka_check.h"

struct tls_folder mine, other;

void tls_folder_make(struct tls_folder *f)
{
	weir_error err = {0};
	snprintf(f->path, sizeof f->path, "/tmp/weir-tls-XXXXXX");
	assert_non_null(mkdtemp(f->path));
	CHECK_OK(certificate_authority(f->path, 86400, &err), err);
}

static weir_status remove_one(void *arg, const char *name)
{
	const struct tls_folder *f = arg;
	char path[320];
	weir_error err = {0};
	snprintf(path, sizeof path, "%s/%s", f->path, name);
	return disk_system()->ops->remove(disk_system(), path, &err);
}

void tls_folder_remove(struct tls_folder *f)
{
	weir_error err = {0};
	CHECK_OK(disk_system()->ops->list(disk_system(), f->path, remove_one, f, &err), err);
	assert_int_equal(remove(f->path), 0);
}

int tls_folders_make(void **state)
{
	(void)state;
	tls_folder_make(&mine);
	tls_folder_make(&other);
	return 0;
}

int tls_folders_remove(void **state)
{
	(void)state;
	tls_folder_remove(&mine);
	tls_folder_remove(&other);
	return 0;
}

void tls_issue(struct tls_files *out, const struct tls_folder *f, const struct tls_folder *trusted, const char *uri,
               uint64_t valid_s)
{
	struct certificate_order order = {.valid_s = valid_s};
	weir_error err = {0};
	assert_true(peer_identity_parse(&order.who, uri, strlen(uri)));
	CHECK_OK(certificate_issue(f->path, &order, &err), err);
	snprintf(out->certificate, sizeof out->certificate, "%s/%s.crt", f->path, order.who.name);
	snprintf(out->key, sizeof out->key, "%s/%s.key", f->path, order.who.name);
	snprintf(out->ca, sizeof out->ca, "%s/ca.crt", trusted->path);
	out->security = (weir_security){.certificate = out->certificate, .key = out->key, .ca = out->ca, .reload_s = 1};
}
