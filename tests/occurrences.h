/* Counts a word in a text. */
#ifndef WEIR_TESTS_OCCURRENCES_H
#define WEIR_TESTS_OCCURRENCES_H

#include <string.h>

static inline unsigned occurrences(const char *text, const char *word)
{
	unsigned n = 0;
	for (; (text = strstr(text, word)); text += strlen(word))
		n++;
	return n;
}

#endif
