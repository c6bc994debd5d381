/* weir certs: creates an authority for development and small clusters, and the certificates that
 * security.* of jobs name. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/core/options.h"
#include "cli/core/verbs.h"
#include "common/tls/certificate.h"

#define COORD_RECORDS_LIFETIME "3650d"
#define CERTIFICATE_LIFETIME   "90d"
#define LIFETIME_S_MAX         (100ull * 365 * 86400)

struct certs_verb {
	const char *dir, *job, *role, *name, *lifetime;
	struct option_list hosts;
};

/* Parses "90d", "12h", "30m", "5s". */
static weir_status parse_lifetime(const char *text, uint64_t *out, weir_error *err)
{
	static const struct {
		char unit;
		uint64_t seconds;
	} units[] = {{'d', 86400}, {'h', 3600}, {'m', 60}, {'s', 1}};
	char *end = NULL;
	errno = 0;
	const unsigned long long n = strtoull(text, &end, 10);
	for (unsigned i = 0; i < sizeof units / sizeof *units && end != text && text[0] != '-' && !errno; i++)
		if (end[0] == units[i].unit && !end[1] && n > 0 && n <= LIFETIME_S_MAX / units[i].seconds) {
			*out = n * units[i].seconds;
			return WEIR_OK;
		}
	return weir_fail(err, WEIR_E_INVALID,
	                 "--lifetime is '%s': expected days, hours, minutes or seconds such as 90d, 12h, 30m, 5s", text);
}

static weir_status order_of(const struct certs_verb *v, struct certificate_order *o, weir_error *err)
{
	*o = (struct certificate_order){.hosts_count = v->hosts.count};
	if (v->hosts.count > CERTIFICATE_HOSTS_MAX)
		return weir_fail(err, WEIR_E_LIMIT, "--host is given more than %u times", CERTIFICATE_HOSTS_MAX);
	memcpy(o->hosts, v->hosts.items, v->hosts.count * sizeof *o->hosts);
	if (!v->role != !v->job)
		return weir_fail(err, WEIR_E_INVALID, "--job and --role belong together: there is no --%s", v->role ? "job" : "role");
	if (v->role && !peer_role_parse(&o->who.role, v->role, strlen(v->role)))
		return weir_fail(err, WEIR_E_INVALID, "--role is '%s': expected server, worker, evaluator or admin", v->role);
	const char *name = v->name ? v->name : v->role;
	if (!name || strlen(name) >= sizeof o->who.name || (v->job && strlen(v->job) >= sizeof o->who.job))
		return weir_fail(err, WEIR_E_INVALID, "needs --job and --role, or, without them, --host and --name; of at most %zu bytes",
		                 sizeof o->who.name - 1);
	snprintf(o->who.name, sizeof o->who.name, "%s", name);
	snprintf(o->who.job, sizeof o->who.job, "%s", v->job ? v->job : "");
	return parse_lifetime(v->lifetime ? v->lifetime : CERTIFICATE_LIFETIME, &o->valid_s, err);
}

static int issue(const struct certs_verb *v)
{
	struct certificate_order order;
	weir_error err = {0};
	char uri[PEER_IDENTITY_URI_BYTES_MAX] = "of no job";
	if (order_of(v, &order, &err) != WEIR_OK)
		return verb_usage("certs issue", &err);
	if (certificate_issue(v->dir, &order, &err) != WEIR_OK)
		return verb_fail("certs issue", &err);
	if (order.who.role)
		peer_identity_uri(&order.who, uri);
	printf("%s/%s.crt and .key: %s, for %s\n", v->dir, order.who.name, uri, v->lifetime ? v->lifetime : CERTIFICATE_LIFETIME);
	return EXIT_SUCCESS;
}

static int init(const struct certs_verb *v)
{
	uint64_t valid_s = 0;
	weir_error err = {0};
	if (parse_lifetime(v->lifetime ? v->lifetime : COORD_RECORDS_LIFETIME, &valid_s, &err) != WEIR_OK)
		return verb_usage("certs init", &err);
	if (certificate_authority(v->dir, valid_s, &err) != WEIR_OK)
		return verb_fail("certs init", &err);
	printf("%s/ca.crt is what processes trust. %s/ca.key signs: who has it can be anybody, so keep it where no process of a job "
	       "runs\n",
	       v->dir, v->dir);
	return EXIT_SUCCESS;
}

int verb_certs(int count, char **args)
{
	struct certs_verb v = {0};
	const char *word = NULL;
	weir_error err = {0};
	const struct option options[] = {
	    {"--dir", OPTION_TEXT, &v.dir, "DIR", "the authority's folder; certificates are written there, too"},
	    {"--job", OPTION_TEXT, &v.job, "JOB", "issue: the name of the job that it is of"},
	    {"--role", OPTION_TEXT, &v.role, "ROLE", "issue: server, worker, evaluator or admin"},
	    {"--name", OPTION_TEXT, &v.name, "NAME", "issue: who it is, and the files' name (ROLE)"},
	    {"--host", OPTION_LIST, &v.hosts, "HOST", "issue: a host name or IP address, for an etcd; may be given again"},
	    {"--lifetime", OPTION_TEXT, &v.lifetime, "90d",
	     "how long it is valid: d, h, m or s (" CERTIFICATE_LIFETIME "; init: " COORD_RECORDS_LIFETIME ")"}};
	weir_status status = options_parse(count, args, options, sizeof options / sizeof *options, &word, 1, &err);
	if (status == WEIR_OK && (!word || (strcmp(word, "init") != 0 && strcmp(word, "issue") != 0)))
		status = weir_fail(&err, WEIR_E_INVALID, "needs init or issue");
	if (status == WEIR_OK && !v.dir)
		status = weir_fail(&err, WEIR_E_INVALID, "needs --dir DIR");
	if (status != WEIR_OK)
		return verb_usage("certs", &err);
	return strcmp(word, "init") == 0 ? init(&v) : issue(&v);
}
