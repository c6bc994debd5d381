/* Checks across several keys. A request that this release does not support is E_UNSUPPORTED, and
 * the message states what is supported. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/address.h"
#include "common/base/web_endpoint.h"
#include "common/job/job_column_schema.h"

const struct raw *job_raw(const struct reading *r, const char *path)
{
	uint32_t count;
	return &r->raws[job_schema_find(path) - job_schema(&count)];
}

/* --- Names, addresses, folders */

static weir_status check_names(struct reading *r, struct job *job)
{
	if (!peer_identity_is_name(job->name))
		return FAIL(r, "job", WEIR_E_INVALID,
		            "is '%.60s'; expected a name of letters, digits, '_', '-' and '.', not starting with '.'", job->name);
	if (job->run_dir[0] == 0)
		snprintf(job->run_dir, sizeof job->run_dir, "runs/%s", job->name);
	for (const char *c = job->run_dir; *c; c++)
		if ((unsigned char)*c < 0x20 || *c == 0x7f)
			return FAIL(r, "run_dir", WEIR_E_INVALID,
			            "has the character %d, which files of one line cannot have; expected none below 32", *c);
	return WEIR_OK;
}

/* --- The device of a worker */

static bool is_device(const char *device)
{
	if (strcmp(device, "auto") == 0 || strcmp(device, "cpu") == 0 || strcmp(device, "cuda") == 0)
		return true;
	if (strncmp(device, "cuda:", 5) != 0)
		return false;
	const char *which = device + 5;
	const size_t digits = strspn(which, "0123456789"), named = strspn(which, "0123456789abcdefABCDEFGPUMIG-/");
	if (strncmp(which, "GPU-", 4) == 0 || strncmp(which, "MIG-", 4) == 0)
		return named > 4 && which[named] == 0;
	return digits > 0 && digits < 10 && which[digits] == 0;
}

static weir_status check_device(struct reading *r, const struct job *job)
{
	static const char *const precisions[] = {"fp32", "tf32", "bf16", "fp16"};
	if (!is_device(job->device))
		FAIL(r, "device", WEIR_E_INVALID,
		     "is '%s'; expected auto, cpu, cuda, cuda:N, or cuda: and what nvidia-smi -L calls the device, GPU-... or MIG-...",
		     job->device);
	if (job->train.precision != TRAIN_FP32 && strcmp(job->device, "cpu") == 0)
		FAIL(r, "train.precision", WEIR_E_UNSUPPORTED,
		     "is %s, and device is cpu, which computes in fp32 alone; expected fp32, or device: cuda",
		     precisions[job->train.precision]);
	return WEIR_OK;
}

/* Elsewhere a batch does not wait for the dense table, and nothing is to be hidden. */
static weir_status check_overlap(struct reading *r, const struct job *job)
{
	const weir_mode *mode = &job->tables.dense.mode;
	if (job->train.overlap != OVERLAP_LAYERS)
		return WEIR_OK;
	if (mode->kind != WEIR_SYNC || mode->local_steps > 0)
		FAIL(r, "train.overlap", WEIR_E_UNSUPPORTED,
		     "is layers, which is for a synchronous dense table; expected auto or off, or tables.dense.mode.kind: sync");
	if (strncmp(job->device, "cuda", 4) == 0)
		FAIL(r, "train.overlap", WEIR_E_UNSUPPORTED, "is layers, which is for device: cpu; expected auto or off");
	return WEIR_OK;
}

static weir_status check_addresses(struct reading *r, const struct job *job)
{
	const char *listen = job->cluster.listen;
	const uint32_t count = job->cluster.servers_at_count;
	long port = address_port(listen);
	if (strcmp(listen, "auto") != 0 && port < 0)
		FAIL(r, "cluster.listen", WEIR_E_INVALID,
		     "is '%.60s'; expected auto, HOST:PORT or [IPV6]:PORT (server i adds i; port 0: any free one)", listen);
	if (strcmp(listen, "auto") == 0 && strchr(job->run_dir, ',') && count == 0)
		FAIL(r, "run_dir", WEIR_E_INVALID,
		     "is '%.60s', whose comma would part the addresses of its sockets; expected none, or cluster.listen: 127.0.0.1:0",
		     job->run_dir);
	if (port > 0 && port + job->cluster.servers - 1 > 65535)
		FAIL(r, "cluster.listen", WEIR_E_INVALID,
		     "is '%.60s': the last of %u servers would need port %ld; expected at most 65535", listen, job->cluster.servers,
		     port + job->cluster.servers - 1);
	if (count > 0 && count != job->cluster.servers)
		return FAIL(r, "cluster.servers_at", WEIR_E_INVALID, "names %u addresses; expected one for each of cluster.servers: %u",
		            count, job->cluster.servers);
	for (uint32_t i = 0; i < count; i++) {
		const char *address = job->cluster.servers_at[i];
		if ((strncmp(address, "unix:", 5) != 0 || address[5] == 0) && address_port(address) <= 0)
			return FAIL(r, "cluster.servers_at", WEIR_E_INVALID, "has '%.60s'; expected HOST:PORT, [IPV6]:PORT or unix:PATH",
			            address);
		if (strchr(address, ','))
			return FAIL(r, "cluster.servers_at", WEIR_E_INVALID, "has '%.60s', whose comma would part it; expected none",
			            address);
	}
	return WEIR_OK;
}

/* The part after etcd:// or etcds://; NULL: neither. */
static const char *endpoints_of(const char *coord, bool *tls)
{
	*tls = strncmp(coord, "etcds://", strlen("etcds://")) == 0;
	if (*tls)
		return coord + strlen("etcds://");
	return strncmp(coord, "etcd://", strlen("etcd://")) == 0 ? coord + strlen("etcd://") : NULL;
}

/* Checks that plain text is allowed to the address. */
static weir_status check_plain(struct reading *r, const struct job *job, const char *key, const char *address)
{
	if (job->security.insecure || address_is_local(address))
		return WEIR_OK;
	return FAIL(r, key, WEIR_E_INVALID,
	            "has '%.60s', which other machines reach, and there are no certificates; expected security.certificate, key and "
	            "ca, or security.insecure: true, for plain text that others may read and change",
	            address);
}

/* HOST:PORT[,HOST:PORT...] */
static weir_status check_etcd(struct reading *r, const struct job *job, const char *endpoints_at, bool tls)
{
	uint32_t endpoints = 0;
	for (const char *at = endpoints_at, *end;; at = end + 1) {
		char endpoint[WEIR_ADDRESS_BYTES_MAX];
		end = at + strcspn(at, ",");
		const int n = snprintf(endpoint, sizeof endpoint, "%.*s", (int)(end - at), at);
		if (n >= (int)sizeof endpoint || address_port(endpoint) <= 0)
			return FAIL(r, "cluster.coord", WEIR_E_INVALID, "has the endpoint '%.60s'; expected etcd://HOST:PORT[,HOST:PORT...]",
			            endpoint);
		if (++endpoints > WEIR_COORD_ENDPOINTS_MAX)
			return FAIL(r, "cluster.coord", WEIR_E_LIMIT, "names more than %u endpoints; expected at most that",
			            WEIR_COORD_ENDPOINTS_MAX);
		weir_status status = tls ? WEIR_OK : check_plain(r, job, "cluster.coord", endpoint);
		if (status || !*end)
			return status;
	}
}

static weir_status check_coord(struct reading *r, const struct job *job)
{
	const char *coord = job->cluster.coord;
	bool tls;
	const char *etcd = endpoints_of(coord, &tls);
	if (!etcd && strcmp(coord, "static") != 0)
		return FAIL(r, "cluster.coord", WEIR_E_INVALID, "is '%.60s'; expected static or etcd://HOST:PORT[,HOST:PORT...]", coord);
	if (etcd && job->cluster.replicas == 1)
		return FAIL(r, "cluster.coord", WEIR_E_UNSUPPORTED,
		            "is etcd, and cluster.replicas is 1: there are no replicas to agree; expected static, or more replicas");
	if (!etcd && job->cluster.replicas > 1 && job->cluster.servers_at_count > 0)
		return FAIL(
		    r, "cluster.coord", WEIR_E_INVALID,
		    "is static, and cluster.servers_at names servers started by other means: their %u replicas agree through etcd; "
		    "expected etcd://HOST:PORT[,HOST:PORT...]",
		    job->cluster.replicas);
	if (tls && !*job->security.certificate)
		return FAIL(r, "cluster.coord", WEIR_E_INVALID,
		            "is by TLS, and there is no certificate; expected security.certificate, key and ca");
	return etcd ? check_etcd(r, job, etcd, tls) : WEIR_OK;
}

static weir_status check_replicas(struct reading *r, const struct job *job)
{
	const uint32_t replicas = job->cluster.replicas;
	if (replicas > job->cluster.servers)
		FAIL(r, "cluster.replicas", WEIR_E_INVALID, "is %u; expected at most one for each of cluster.servers: %u", replicas,
		     job->cluster.servers);
	if (job->cluster.min_isr > replicas)
		FAIL(r, "cluster.min_isr", WEIR_E_INVALID, "is %u; expected at most cluster.replicas: %u, or auto", job->cluster.min_isr,
		     replicas);
	return check_coord(r, job);
}

static weir_status check_endpoint(struct reading *r, const char *key, const char *endpoint)
{
	size_t bytes;
	if (*endpoint && !web_endpoint_check(endpoint, &bytes))
		return FAIL(r, key, WEIR_E_INVALID, "is '%.200s'; " WEB_ENDPOINT_EXPECTED, endpoint);
	return WEIR_OK;
}

static weir_status check_endpoints(struct reading *r, const struct job *job)
{
	const weir_status status = check_endpoint(r, "checkpoint.endpoint", job->checkpoint.endpoint);
	return status == WEIR_OK ? check_endpoint(r, "data.endpoint", job->data.endpoint) : status;
}

static weir_status check_track(struct reading *r, struct job *job)
{
	const char *uri = job->track.mlflow.uri, *host = strstr(uri, "://");
	char server[WEIR_ADDRESS_BYTES_MAX];
	size_t bytes = 0;
	snprintf(server, sizeof server, "%.*s", host ? (int)(host - uri + 3 + strcspn(host + 3, "/")) : 0, uri);
	if (*uri && !web_endpoint_check(server, &bytes))
		FAIL(r, "track.mlflow.uri", WEIR_E_INVALID,
		     "is '%.200s'; expected http://HOST:PORT or https://HOST[/PATH] of a tracking server", uri);
	for (uint32_t i = 0; i < job->track.mlflow.tags_count; i++)
		if (strcspn(job->track.mlflow.tags[i], "=") == 0 || !strchr(job->track.mlflow.tags[i], '='))
			FAIL(r, "track.mlflow.tags", WEIR_E_INVALID, "has '%.60s'; expected KEY=VALUE", job->track.mlflow.tags[i]);
	if (!*job->track.dir)
		snprintf(job->track.dir, sizeof job->track.dir, "%s", job->run_dir);
	if (!*job->track.mlflow.experiment)
		snprintf(job->track.mlflow.experiment, sizeof job->track.mlflow.experiment, "%s", job->name);
	if (!*job->track.mlflow.run_name)
		snprintf(job->track.mlflow.run_name, sizeof job->track.mlflow.run_name, "%s", job->name);
	return WEIR_OK;
}

static weir_status check_cluster(struct reading *r, const struct job *job)
{
	if (job->cluster.ack == JOB_ACK_DISK && job->cluster.log != JOB_LOG_DISK)
		FAIL(r, "cluster.ack", WEIR_E_INVALID, "is disk; that needs cluster.log: disk");
	if (job->cluster.partitions < job->cluster.servers)
		FAIL(r, "cluster.partitions", WEIR_E_INVALID, "is %u; expected at least one for each of %u servers",
		     job->cluster.partitions, job->cluster.servers);
	if (strncmp(job->checkpoint.dir, "s3://", 5) != 0 && (*job->checkpoint.endpoint || *job->checkpoint.region))
		FAIL(r, *job->checkpoint.endpoint ? "checkpoint.endpoint" : "checkpoint.region", WEIR_E_INVALID,
		     "is given, and checkpoint.dir is no s3://BUCKET/PREFIX; expected both or neither");
	(void)check_endpoints(r, job);
	(void)check_replicas(r, job);
	return check_addresses(r, job);
}

static weir_status check_security(struct reading *r, const struct job *job)
{
	static const char *const keys[] = {"security.certificate", "security.key", "security.ca"};
	const char *const files[] = {job->security.certificate, job->security.key, job->security.ca};
	weir_status status = WEIR_OK;
	const bool any = *files[0] || *files[1] || *files[2];
	for (uint32_t i = 0; any && i < 3; i++)
		if (!*files[i])
			return FAIL(r, keys[i], WEIR_E_INVALID, "missing; expected all of security.certificate, key and ca, or none");
	if (any)
		return WEIR_OK;
	if (strcmp(job->cluster.listen, "auto") != 0)
		status = check_plain(r, job, "cluster.listen", job->cluster.listen);
	for (uint32_t i = 0; i < job->cluster.servers_at_count && !status; i++)
		status = check_plain(r, job, "cluster.servers_at", job->cluster.servers_at[i]);
	return status;
}

static weir_status check_read(struct reading *r, const struct job *job)
{
	const bool any = job->read.from == READ_ANY;
	if (any && job->cluster.replicas == 1)
		FAIL(r, "read.from", WEIR_E_INVALID,
		     "is any, and there is one copy of everything (cluster.replicas: 1); expected primary, or more replicas");
	if (any && job->tables.embedding.mode.kind == WEIR_SYNC && job->tables.dense.mode.kind == WEIR_SYNC)
		FAIL(r, "read.from", WEIR_E_INVALID,
		     "is any, and all tables are synchronous: primaries alone answer their pulls; expected primary");
	if (any && job->read.max_staleness_ms == 0)
		FAIL(r, "read.max_staleness_ms", WEIR_E_INVALID,
		     "is 0, which no copy but the primary can keep (read.from: any); expected a whole number from 1 (milliseconds)");
	if (!any && job->read.max_staleness_ms > 0)
		FAIL(r, "read.max_staleness_ms", WEIR_E_INVALID, "is %u, but read.from is primary; expected 0",
		     job->read.max_staleness_ms);
	if (!any && job->read.max_staleness_entries > 0)
		FAIL(r, "read.max_staleness_entries", WEIR_E_INVALID, "is %llu, but read.from is primary; expected 0",
		     (unsigned long long)job->read.max_staleness_entries);
	return WEIR_OK;
}

/* --- Data */

/* Checks the keys of line parsing: packed data is already parsed, and texts are not parsed. */
static weir_status check_parsing(struct reading *r, const struct job *job)
{
	const enum data_format format = job->data.format;
	if (format == DATA_CRITEO || format == DATA_LIBSVM || format == DATA_LIBFFM || data_format_has_columns(format))
		return WEIR_OK;
	const char *why = format == DATA_PACKED ? "data.format is packed, whose rows are as they were made"
	                                        : "data.format has neither ids nor labels";
	if (job->data.hash_buckets > 0)
		return FAIL(r, "data.hash_buckets", WEIR_E_INVALID, "is %llu, and %s; expected 0",
		            (unsigned long long)job->data.hash_buckets, why);
	if (!isnan(job->data.positive_above))
		return FAIL(r, "data.positive_above", WEIR_E_INVALID, "is %g, and %s; expected auto", (double)job->data.positive_above,
		            why);
	return WEIR_OK;
}

/* Packed rows may have been made with groups. */
static bool may_have_groups(const struct job *job)
{
	for (uint32_t i = 0; i < job->data.columns_count; i++)
		if (job->data.columns[i].kind == COLUMN_GROUP)
			return true;
	return job->data.format == DATA_LIBSVM || job->data.format == DATA_PACKED;
}

static weir_status check_data(struct reading *r, const struct job *job)
{
	bool generated = job->data.generate.rows > 0, split = job->data.split.by != SPLIT_NONE;
	if (job->data.train_count == 0 && !generated)
		FAIL(r, "data.train", WEIR_E_INVALID, "missing; expected a file, a glob or a list of them (or data.generate.rows)");
	if (generated && job->data.format != DATA_CRITEO)
		FAIL(r, "data.format", WEIR_E_INVALID, "generated data (data.generate.rows) is in the criteo format; expected criteo");
	if (split && job->data.valid_count > 0)
		FAIL(r, "data.valid", WEIR_E_INVALID, "files are given and data.split cuts data.train too; expected one of the two");
	if (split && job->data.test_count > 0)
		FAIL(r, "data.test", WEIR_E_INVALID, "files are given and data.split cuts data.train too; expected one of the two");
	const enum eval_metric best_by = job_best_by(job);
	const bool by_list = best_by == METRIC_NDCG || best_by == METRIC_RECALL || best_by == METRIC_HIT_RATE;
	const bool lists = may_have_groups(job) || model_kind_has(job->model.kind, PART_RETRIEVAL);
	if ((by_list || best_by == METRIC_GAUC) && !lists && !job_columns_any_wrong(r))
		FAIL(r, "train.best_by", WEIR_E_INVALID,
		     "is a figure of groups, which the rows do not have; expected early_stop, auc, logloss or pr_auc, or data.format "
		     "libsvm "
		     "with qid, or csv with a column of kind: group");
	if (by_list && job->train.rank_at_count == 0)
		FAIL(r, "train.rank_at", WEIR_E_INVALID, "is empty, and train.best_by is taken at its first; expected such as [10]");
	const bool validated = generated || job_has_valid(job);
	if (job->train.early_stop.patience > 0 && !validated)
		FAIL(r, "train.early_stop.patience", WEIR_E_INVALID,
		     "is %u, but there is no validation part to watch; expected data.valid, data.split or 0",
		     job->train.early_stop.patience);
	(void)job_check_columns(r, job);
	return check_parsing(r, job);
}

/* Names the generated data: one file in the run directory, split by line. Later code treats it like
 * any other data. */
static weir_status place_generated(struct reading *r, struct job *job)
{
	if (job->data.generate.rows == 0)
		return WEIR_OK;
	if (job->data.train_count + job->data.valid_count + job->data.test_count > 0)
		return FAIL(r, "data.generate.rows", WEIR_E_INVALID,
		            "data is to be generated, and files are named too; expected one of the two");
	static const char name[] = "generated.tsv";
	size_t bytes = strlen(job->run_dir) + 1 + sizeof name;
	free(job->data.train);
	job->data.train = calloc(1, sizeof *job->data.train);
	char *path = malloc(bytes);
	if (!job->data.train || !path) {
		free(path);
		return weir_fail(r->err, WEIR_E_MEMORY, "no memory for the path of the generated data");
	}
	snprintf(path, bytes, "%s/%s", job->run_dir, name);
	job->data.train[0] = path;
	job->data.train_count = 1;
	job->data.split.by = SPLIT_CRC32;
	return WEIR_OK;
}

/* --- Jobs of other programs' trainers */

/* data.seed and data.shuffle order the units of any trainers. */
static bool is_of_own_trainers(const char *path)
{
	if (strcmp(path, "data.seed") == 0 || strcmp(path, "data.shuffle") == 0)
		return false;
	return strncmp(path, "data.", 5) == 0 || strncmp(path, "model.", 6) == 0;
}

static bool is_foreign(const struct reading *r)
{
	uint32_t count;
	const struct key *keys = job_schema(&count);
	for (uint32_t i = 0; i < count; i++)
		if ((r->raws[i].given || r->raws[i].wrong) && is_of_own_trainers(keys[i].path))
			return false;
	return true;
}

static weir_status check_foreign(struct reading *r, struct job *job)
{
	uint32_t count;
	const struct key *keys = job_schema(&count);
	for (uint32_t i = 0; i < count; i++)
		if (r->raws[i].given && strncmp(keys[i].path, "tables.", 7) == 0)
			return FAIL(
			    r, keys[i].path, WEIR_E_INVALID,
			    "is given, and there is neither data nor a model, whose tables it describes; expected nothing: trainers of "
			    "other programs describe their own tables");
	if (job->train.warm_start[0])
		return FAIL(r, "train.warm_start", WEIR_E_INVALID,
		            "is given, and there is neither data nor a model; expected nothing: the trainers set their weights");
	if (!job_raw(r, "train.passes")->given)
		job->train.passes = 0;
	return WEIR_OK;
}

/* --- All checks */

/* Each check records its mistakes; the next ones run anyway. */
weir_status job_check(struct reading *r, struct job *job)
{
	(void)check_names(r, job);
	(void)check_device(r, job);
	(void)check_cluster(r, job);
	job->foreign = is_foreign(r);
	if (job->foreign)
		(void)check_foreign(r, job);
	else
		(void)check_data(r, job);
	const weir_status placed = job->foreign ? WEIR_OK : place_generated(r, job);
	if (!job->foreign) {
		(void)job_check_model(r, job);
		(void)job_check_tables(r, job);
		(void)check_overlap(r, job);
	}
	(void)check_read(r, job);
	(void)check_track(r, job);
	(void)check_security(r, job);
	return placed;
}
