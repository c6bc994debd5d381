/* --help and --version of programs that other programs start: weir-server and weir-worker. */
#ifndef WEIR_PROGRAM_HELP_H
#define WEIR_PROGRAM_HELP_H

struct program_help {
	const char *name;
	const char *usage;   /* "usage: NAME ...", on one or more lines */
	const char *options; /* purpose, and a line per option, as `weir help VERB` shows them */
};

/* Answers the first --help, -h or --version in argv on stdout. Returns the program's exit status,
 * or -1 if argv has none of these. */
int program_help(int argc, char **argv, const struct program_help *help);

#endif
