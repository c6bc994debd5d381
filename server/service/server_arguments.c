#include "server/service/server_arguments.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/limits.h"
#include "common/system/program_help.h"

static const char usage[] =
    "usage: weir-server --job FILE --index I [--uuid HEX32] [--generation N] [--restore CHECKPOINT]\n"
    "                   [--listen ADDRESS] [--advertise ADDRESS]\n"
    "                   [--servers ADDRESS,ADDRESS,...] [--ready-fd N] [--http [HOST:]PORT] [--set a.b=c]...\n"
    "                   [--log-level debug|info|warn|error] [--log-format human|json]\n";
/* scripts/manual.sh reads it. */
static const char options_help[] =
    "  serve a job's partitions, and its ledger\n"
    "\n"
    "  --job JOB.yaml           the job file\n"
    "  --index I                which of the job's servers this is, from 0 on\n"
    "  --uuid HEX32             the job's identity (a hash of its name)\n"
    "  --generation N           the job's generation, which `weir restore` raises (1)\n"
    "  --restore CHECKPOINT     the checkpoint that this generation begins with\n"
    "  --listen ADDRESS         listen here: HOST:PORT, or unix:PATH (cluster.listen)\n"
    "  --advertise ADDRESS      HOST:PORT at which others reach this server\n"
    "  --servers ADDRESS,...    the addresses of all servers, in order (cluster.servers_at or cluster.listen)\n"
    "  --ready-fd N             write READY and the address to this descriptor once the server serves\n"
    "  --http [HOST:]PORT       show metrics and health at this port, on loopback unless HOST is given (metrics.port)\n"
    "  --set A.B=C              another value for a key of the job file; may be given again and again\n"
    "  --log-level LEVEL        debug, info, warn or error (info)\n"
    "  --log-format FORMAT      human or json (human)\n"
    "  --help                   show this text\n"
    "  --version                show the version\n";

bool server_arguments_number(const char *text, uint64_t max, uint64_t *out)
{
	char *end;
	errno = 0;
	unsigned long long v = strtoull(text, &end, 10);
	if (errno || *text < '0' || *text > '9' || *end || v > max)
		return false;
	*out = v;
	return true;
}

static bool parse_uuid(const char *text, uint8_t out[16])
{
	if (strlen(text) != 32 || strspn(text, "0123456789abcdefABCDEF") != 32)
		return false;
	for (uint32_t i = 0; i < 16; i++) {
		char byte[3] = {text[2 * i], text[2 * i + 1], '\0'};
		out[i] = (uint8_t)strtoul(byte, NULL, 16);
	}
	return true;
}

static bool parse_option(struct server_arguments *a, int option, const char *value)
{
	uint64_t n = 0;
	switch (option) {
	case 'j':
		a->job_path = value;
		return true;
	case 's':
		return a->sets_count < SERVER_SETS_MAX && (a->sets[a->sets_count++] = value);
	case 'i':
		a->has_index = server_arguments_number(value, WEIR_SERVERS_MAX - 1, &n);
		a->index = (uint32_t)n;
		return a->has_index;
	case 'u':
		return a->has_uuid = parse_uuid(value, a->uuid);
	case 'g':
		return server_arguments_number(value, UINT64_MAX, &a->generation) && a->generation > 0;
	case 'R':
		a->restore = value;
		return true;
	case 'a':
		a->listen = value;
		return true;
	case 'A':
		a->advertise = value;
		return strlen(value) < WEIR_ADDRESS_BYTES_MAX && strchr(value, ':');
	case 'S':
		a->servers = value;
		return true;
	case 'h':
		a->http = value;
		return true;
	case 'r':
		if (!server_arguments_number(value, INT32_MAX, &n))
			return false;
		a->ready_fd = (int)n;
		return true;
	case 'l':
		return log_level_from(value, &a->level);
	case 'f':
		a->format = strcmp(value, "json") == 0 ? LOG_JSON : LOG_HUMAN;
		return a->format == LOG_JSON || strcmp(value, "human") == 0;
	default:
		return false;
	}
}

/* Prints the error for a value that parse_option refuses. */
static void print_refused(int option, const char *name, const char *value)
{
	fprintf(stderr, "weir-server: --%s: '%s' is not allowed; expected ", name, value);
	switch (option) {
	case 's':
		fprintf(stderr, "at most %u of them\n", SERVER_SETS_MAX);
		break;
	case 'i':
		fprintf(stderr, "a number from 0 to %u\n", WEIR_SERVERS_MAX - 1);
		break;
	case 'u':
		fprintf(stderr, "32 hex digits\n");
		break;
	case 'g':
		fprintf(stderr, "a number from 1 on\n");
		break;
	case 'A':
		fprintf(stderr, "HOST:PORT\n");
		break;
	case 'r':
		fprintf(stderr, "an open file's descriptor\n");
		break;
	case 'l':
		fprintf(stderr, "debug, info, warn or error\n");
		break;
	default:
		fprintf(stderr, "human or json\n");
		break;
	}
}

static bool parse(struct server_arguments *a, int argc, char **argv)
{
	static const struct option options[] = {
	    {"job", required_argument, NULL, 'j'},        {"set", required_argument, NULL, 's'},
	    {"index", required_argument, NULL, 'i'},      {"uuid", required_argument, NULL, 'u'},
	    {"generation", required_argument, NULL, 'g'}, {"restore", required_argument, NULL, 'R'},
	    {"listen", required_argument, NULL, 'a'},     {"servers", required_argument, NULL, 'S'},
	    {"advertise", required_argument, NULL, 'A'},  {"ready-fd", required_argument, NULL, 'r'},
	    {"log-level", required_argument, NULL, 'l'},  {"log-format", required_argument, NULL, 'f'},
	    {"http", required_argument, NULL, 'h'},       {NULL, 0, NULL, 0},
	};
	*a = (struct server_arguments){.generation = 1, .ready_fd = -1, .level = LOG_INFO, .format = LOG_HUMAN};
	int which = 0;
	for (int option; (option = getopt_long(argc, argv, "", options, &which)) != -1;) {
		if (option == '?')
			return false; /* getopt has printed the reason */
		if (!parse_option(a, option, optarg)) {
			print_refused(option, options[which].name, optarg);
			return false;
		}
	}
	if (optind < argc)
		fprintf(stderr, "weir-server: unexpected '%s'\n", argv[optind]);
	else if (!a->job_path)
		fprintf(stderr, "weir-server: --job is needed\n");
	else if (!a->has_index)
		fprintf(stderr, "weir-server: --index is needed\n");
	return optind == argc && a->job_path && a->has_index;
}

bool server_arguments_parse(struct server_arguments *a, int argc, char **argv)
{
	const bool well = parse(a, argc, argv);
	if (!well)
		fputs(usage, stderr);
	return well;
}

int server_arguments_help(int argc, char **argv)
{
	return program_help(argc, argv, &(struct program_help){"weir-server", usage, options_help});
}
