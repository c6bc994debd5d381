/* The command line of weir-server: docs/PROGRAMS.md. */
#ifndef WEIR_SERVER_ARGUMENTS_H
#define WEIR_SERVER_ARGUMENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/system/logger.h"

#define SERVER_SETS_MAX 256u

struct server_arguments {
	const char *job_path;
	const char *sets[SERVER_SETS_MAX];
	uint32_t sets_count;
	bool has_index, has_uuid;
	uint32_t index;
	uint8_t uuid[16];
	uint64_t generation;
	const char *restore;                             /* a checkpoint's name; NULL: none */
	const char *listen, *advertise, *servers, *http; /* NULL: from the job file */
	int ready_fd;                                    /* -1: none, or written already */
	enum log_level level;
	enum log_format format;
};

/* Borrows from argv. False: the error and the usage were printed to stderr. */
bool server_arguments_parse(struct server_arguments *a, int argc, char **argv);
/* Answers --help and --version. Returns the exit status; -1: neither was given. */
int server_arguments_help(int argc, char **argv);
/* Parses a decimal number of at most max. */
bool server_arguments_number(const char *text, uint64_t max, uint64_t *out);

#endif
