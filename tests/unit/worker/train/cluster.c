#include "tests/unit/worker/train/cluster.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/key_partition.h"
#include "common/base/prng.h"
#include "server/service/server.h"
#include "tests/cmocka_check.h"
#include "tests/folder.h"

enum { FIELDS = 4, IDS = 60, PARTITIONS = 4, LETTERS = 16 };

/* libsvm lines. An id of field f is f * IDS + n; its weight is a pure function of it. */
static void write_data(const char *path, uint32_t rows)
{
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	struct prng r;
	prng_seed(&r, 11);
	for (uint32_t i = 0; i < rows; i++) {
		double logit = 0.0;
		unsigned ids[FIELDS];
		for (unsigned k = 0; k < FIELDS; k++) {
			ids[k] = k * IDS + (unsigned)prng_below(&r, IDS);
			logit += (double)prng_normal_from(prng_mix(5, ids[k], 0));
		}
		fprintf(f, "%d", prng_unit(&r) < 1.0 / (1.0 + exp(-logit)));
		for (unsigned k = 0; k < FIELDS; k++)
			fprintf(f, " %u:1", ids[k]);
		fputc('\n', f);
	}
	fclose(f);
}

/* Letters. In seven of eight cases the two previous ones determine a letter; otherwise it is
 * random. */
static void write_text(const char *path, uint32_t bytes)
{
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	struct prng r;
	prng_seed(&r, 13);
	uint64_t before = 0, last = 0;
	for (uint32_t i = 0; i < bytes; i++) {
		const uint64_t next = prng_below(&r, 8) > 0 ? prng_mix(6, before, last) % LETTERS : prng_below(&r, LETTERS);
		before = last;
		last = next;
		fputc('a' + (int)next, f);
	}
	fclose(f);
}

static void start_servers(struct cluster *c)
{
	char addresses[CLUSTER_SERVERS][96];
	const char *list[CLUSTER_SERVERS];
	uint32_t partition_server[PARTITIONS];
	for (uint32_t i = 0; i < CLUSTER_SERVERS; i++) {
		snprintf(addresses[i], sizeof addresses[i], "unix:%s/server-%u.sock", c->folder, i);
		list[i] = addresses[i];
	}
	for (uint32_t p = 0; p < PARTITIONS; p++)
		partition_server[p] = placement_server(p, CLUSTER_SERVERS);
	const struct job *job = c->job;
	const struct ledger_options ledger = {
	    .clock = clock_system(),
	    .entropy = entropy_system(),
	    .uuid = {7},
	    .lease_ms = 4000,
	    .passes = job->train.passes,
	    .partitions = PARTITIONS,
	    .servers_count = CLUSTER_SERVERS,
	    .seed = job->data.seed,
	    .shuffle = job->data.shuffle,
	    .gate = job_waits_for_evaluation(job),
	    .servers = list,
	    .partition_server = partition_server,
	};
	for (uint32_t i = 0; i < CLUSTER_SERVERS; i++) {
		const struct server_options options = {
		    .rpc = c->rpc,
		    .clock = clock_system(),
		    .name = i == 0 ? "server-0" : "server-1",
		    .listen = addresses[i],
		    .uuid = {7},
		    .index = i,
		    .servers = CLUSTER_SERVERS,
		    .partitions = PARTITIONS,
		    .addresses = list,
		    .executors = 1,
		    .ledger = i == 0 ? &ledger : NULL,
		};
		weir_error err = {0};
		CHECK_OK(server_create(&c->servers[i], &options, &err), err);
	}
	snprintf(c->ledger, sizeof c->ledger, "%s", addresses[0]);
}

/* Writes the data to folder/data and starts the job; `format` is its data format. */
static void start(struct cluster *c, uint32_t size, void (*write)(const char *path, uint32_t size), const char *format,
                  const char *settings)
{
	static const char job[] = "job: test\n"
	                          "cluster: {servers: %u, workers: 1, partitions: %u}\n"
	                          "data:\n"
	                          "  train: '%s/data'\n"
	                          "%s"
	                          "%s";
	char path[96], text[4096], run_dir[96];
	weir_error err = {0};
	*c = (struct cluster){0};
	snprintf(c->folder, sizeof c->folder, "/tmp/weir-train-XXXXXX");
	assert_non_null(mkdtemp(c->folder));
	snprintf(path, sizeof path, "%s/data", c->folder);
	write(path, size);
	snprintf(text, sizeof text, job, CLUSTER_SERVERS, PARTITIONS, c->folder, format, settings);
	snprintf(run_dir, sizeof run_dir, "run_dir=%s", c->folder);
	const char *const sets[] = {run_dir};
	CHECK_OK(job_parse(text, "test", sets, 1, &c->job, &err), err);
	c->rpc = rpc_grpc_create(NULL);
	assert_non_null(c->rpc);
	start_servers(c);
}

void cluster_start(struct cluster *c, uint32_t rows, const char *settings)
{
	_Static_assert(FIELDS == 4, "of the lines that are written");
	start(c, rows, write_data, "  format: libsvm\n  fields: 4\n  cache: 'off'\n", settings);
}

void cluster_start_text(struct cluster *c, uint32_t bytes, const char *settings)
{
	start(c, bytes, write_text, "  format: text\n", settings);
}

void cluster_stop(struct cluster *c)
{
	for (uint32_t i = 0; i < CLUSTER_SERVERS; i++)
		if (c->servers[i] != NULL)
			server_destroy(c->servers[i]);
	rpc_destroy(c->rpc);
	job_destroy(c->job);
	folder_remove(c->folder);
}
