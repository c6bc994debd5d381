#include "common/base/utf8_columns.h"

#include <locale.h>
#include <stdbool.h>
#include <string.h>
#include <wchar.h>

size_t utf8_columns(const char *text)
{
	const locale_t utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
	const locale_t before = utf8 ? uselocale(utf8) : (locale_t)0;
	size_t columns = 0;
	for (size_t left = strlen(text), n; left > 0; text += n, left -= n) {
		mbstate_t state = {0};
		wchar_t c;
		n = mbrtowc(&c, text, left, &state);
		const bool is_character = n > 0 && n <= left;
		const int width = is_character ? wcwidth(c) : 1;
		n = is_character ? n : 1;
		columns += width > 0 ? (size_t)width : 0;
	}
	if (utf8) {
		uselocale(before);
		freelocale(utf8);
	}
	return columns;
}
