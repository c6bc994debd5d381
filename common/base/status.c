/* The names and sentences of weir/status.h, from its X-macro. */
#include "weir/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *weir_status_name(weir_status status)
{
	switch (status) {
#define CASE(name, number, text) \
	case WEIR_##name:            \
		return #name;
		WEIR_STATUS_MAP(CASE)
#undef CASE
	}
	return "unknown";
}

const char *weir_status_text(weir_status status)
{
	switch (status) {
#define CASE(name, number, text) \
	case WEIR_##name:            \
		return text;
		WEIR_STATUS_MAP(CASE)
#undef CASE
	}
	return "unknown status";
}

weir_status weir_fail(weir_error *err, weir_status status, const char *format, ...)
{
	if (err) {
		/* An argument may be err->text itself, when a caller adds context to an error that it
		 * received. */
		char text[WEIR_ERROR_TEXT_BYTES];
		va_list args;
		va_start(args, format);
		vsnprintf(text, sizeof text, format, args);
		va_end(args);
		memcpy(err->text, text, sizeof text);
		err->text[sizeof err->text - 1] = 0;
		err->status = status;
	}
	return status;
}
