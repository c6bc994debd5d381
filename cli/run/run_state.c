#include "cli/run/run_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/web/json.h"

#define RUN_STATE_VERSION 1u
#define PATH_BYTES        (WEIR_PATH_BYTES_MAX + 16)

void run_state_uuid_text(const struct run_state *state, char out[33])
{
	for (unsigned i = 0; i < sizeof state->uuid; i++)
		snprintf(out + 2 * i, 3, "%02x", state->uuid[i]);
}

static bool parse_uuid(const char *text, uint8_t out[16])
{
	if (!text || strlen(text) != 32 || strspn(text, "0123456789abcdef") != 32)
		return false;
	for (unsigned i = 0; i < 16; i++) {
		char byte[3] = {text[2 * i], text[2 * i + 1], '\0'};
		out[i] = (uint8_t)strtoul(byte, NULL, 16);
	}
	return true;
}

static weir_status take(const struct json *j, const char *path, struct run_state *out, weir_error *err)
{
	uint64_t version = 0, servers = 0, replicas = 0;
	const char *restore = json_get_text(j, "restore"), *warm_start = json_get_text(j, "warm_start");
	if (json_get_count(j, "version", &version) && version > RUN_STATE_VERSION)
		return weir_fail(err, WEIR_E_VERSION, "%s is of version %llu, this program knows %u: use a newer one", path,
		                 (unsigned long long)version, RUN_STATE_VERSION);
	if (version == 0 || !parse_uuid(json_get_text(j, "uuid"), out->uuid) || !json_get_count(j, "generation", &out->generation) ||
	    out->generation == 0 || (restore && strlen(restore) >= sizeof out->restore) ||
	    (warm_start && strlen(warm_start) >= sizeof out->warm_start))
		return weir_fail(err, WEIR_E_CORRUPT, "%s: expected a version, a uuid of 32 hex digits, a generation and a restore name",
		                 path);
	if (json_get_count(j, "servers", &servers) && servers > WEIR_SERVERS_MAX)
		return weir_fail(err, WEIR_E_CORRUPT, "%s: %llu servers, there are at most %u", path, (unsigned long long)servers,
		                 WEIR_SERVERS_MAX);
	if (json_get_count(j, "replicas", &replicas) && replicas > WEIR_REPLICAS_MAX)
		return weir_fail(err, WEIR_E_CORRUPT, "%s: %llu replicas, there are at most %u", path, (unsigned long long)replicas,
		                 WEIR_REPLICAS_MAX);
	out->servers = (uint32_t)servers;
	out->replicas = (uint32_t)replicas;
	out->finished = json_get_bool(j, "finished");
	snprintf(out->restore, sizeof out->restore, "%s", restore ? restore : "");
	snprintf(out->warm_start, sizeof out->warm_start, "%s", warm_start ? warm_start : "");
	return WEIR_OK;
}

weir_status run_state_read(const char *run_dir, struct run_state *out, weir_error *err)
{
	char path[PATH_BYTES];
	struct json *j = NULL;
	*out = (struct run_state){0};
	snprintf(path, sizeof path, "%s/run.json", run_dir);
	if (access(path, F_OK) != 0)
		return weir_fail(err, WEIR_E_NOT_FOUND, "there is no %s", path);
	weir_status status = json_read_file(path, &j, err);
	if (status == WEIR_OK)
		status = take(j, path, out, err);
	json_destroy(j);
	return status;
}

weir_status run_state_write(const char *run_dir, const struct run_state *state, weir_error *err)
{
	char path[PATH_BYTES], uuid[33];
	struct json *j = json_create();
	snprintf(path, sizeof path, "%s/run.json", run_dir);
	run_state_uuid_text(state, uuid);
	json_set_count(j, "version", RUN_STATE_VERSION);
	json_set_text(j, "uuid", uuid);
	json_set_count(j, "generation", state->generation);
	json_set_text(j, "restore", state->restore);
	json_set_text(j, "warm_start", state->warm_start);
	json_set_count(j, "servers", state->servers);
	json_set_count(j, "replicas", state->replicas);
	json_set_bool(j, "finished", state->finished);
	weir_status status = j ? json_write_file(j, path, err) : weir_fail(err, WEIR_E_MEMORY, "no memory for %s", path);
	json_destroy(j);
	return status;
}
