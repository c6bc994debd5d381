/* weir: one program with one verb per task. This file only dispatches. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/core/options.h"
#include "cli/core/verbs.h"
#include "common/job/job.h"

struct verb {
	const char *name, *arguments, *what;
	int (*run)(int count, char **args);
};

static const struct verb verbs[] = {
#define VERB_ROW(name, arguments, what) {#name, arguments, what, verb_##name},
    VERB_MAP(VERB_ROW)
#undef VERB_ROW
};
enum { VERBS = sizeof verbs / sizeof *verbs };

static void print_help(FILE *out)
{
	fprintf(out, "usage: weir VERB [arguments]\n\n");
	for (unsigned i = 0; i < VERBS; i++)
		fprintf(out, "  weir %s %s\n      %s\n", verbs[i].name, verbs[i].arguments, verbs[i].what);
	fprintf(out, "  weir help [VERB] | version\n      this list, or a verb's options\n\n--job JOB.yaml says the same as "
	             "JOB.yaml. Every key of a job file is explained in "
	             "config/reference.yaml.\n");
}

static bool is_help(const char *word)
{
	return strcmp(word, "help") == 0 || strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

/* Words behind "--" are another program's. */
static bool asks_for_help(int count, char **args)
{
	for (int i = 1; i < count && strcmp(args[i], "--") != 0; i++)
		if (strcmp(args[i], "--help") == 0 || strcmp(args[i], "-h") == 0)
			return true;
	return false;
}

static int show_verb(const struct verb *v)
{
	char name[32], help[] = "--help", *only_help[] = {name, help, NULL};
	snprintf(name, sizeof name, "%s", v->name);
	printf("usage: weir %s %s\n\n  %s\n\n", v->name, v->arguments, v->what);
	return v->run(2, only_help); /* options_parse prints its options and exits */
}

static int run_verb(const struct verb *v, int count, char **args)
{
	return asks_for_help(count, args) ? show_verb(v) : v->run(count, args);
}

static const struct verb *find_verb(const char *word)
{
	for (unsigned i = 0; i < VERBS; i++)
		if (strcmp(word, verbs[i].name) == 0)
			return &verbs[i];
	return NULL;
}

static int unknown_verb(const char *word)
{
	const char *names[VERBS];
	for (unsigned i = 0; i < VERBS; i++)
		names[i] = verbs[i].name;
	const char *near = job_nearest(word, names, VERBS);
	fprintf(stderr, "weir: no verb '%s'%s%s%s `weir help` lists all verbs\n", word, near ? ": did you mean '" : ";",
	        near ? near : "", near ? "'?" : "");
	return EXIT_USAGE;
}

static int run(int argc, char **argv)
{
	if (argc < 2) {
		print_help(stderr);
		return EXIT_USAGE;
	}
	const char *word = argv[1];
	if (is_help(word) && (argc < 3 || is_help(argv[2]))) {
		print_help(stdout);
		return EXIT_SUCCESS;
	}
	if (is_help(word)) {
		const struct verb *asked = find_verb(argv[2]);
		return asked ? show_verb(asked) : unknown_verb(argv[2]);
	}
	if (strcmp(word, "version") == 0 || strcmp(word, "--version") == 0) {
		printf("weir %s\n", WEIR_VERSION);
		return EXIT_SUCCESS;
	}
	const struct verb *v = find_verb(word);
	return v ? run_verb(v, argc - 1, argv + 1) : unknown_verb(word);
}

int main(int argc, char **argv)
{
	return verb_end(run(argc, argv));
}
