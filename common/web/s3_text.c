/* The text of S3's requests and answers: names in URLs, and texts in XML. */
#include <stdio.h>
#include <string.h>

#include "common/web/web_request.h"

bool s3_url_encode(const char *in, bool keep_slash, char *out, size_t out_bytes)
{
	static const char digits[] = "0123456789ABCDEF";
	size_t n = 0;
	for (; *in; in++) {
		unsigned char c = (unsigned char)*in;
		bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || strchr("-._~", c) ||
		             (c == '/' && keep_slash);
		if (n + (plain ? 1 : 3) >= out_bytes)
			return false;
		if (plain) {
			out[n++] = (char)c;
		} else {
			out[n++] = '%';
			out[n++] = digits[c >> 4];
			out[n++] = digits[c & 15];
		}
	}
	out[n] = '\0';
	return true;
}

bool s3_xml_text(const char **at, const char *tag, char *out, size_t out_bytes)
{
	static const struct {
		const char *name, *text;
	} entities[] = {{"&amp;", "&"},  {"&lt;", "<"},   {"&gt;", ">"}, {"&quot;", "\""},
	                {"&apos;", "'"}, {"&#34;", "\""}, {"&#39;", "'"}};
	char open[64], close[64];
	snprintf(open, sizeof open, "<%s>", tag);
	snprintf(close, sizeof close, "</%s>", tag);
	const char *from = strstr(*at, open), *to = from ? strstr(from, close) : NULL;
	size_t n = 0;
	if (!to)
		return false;
	for (from += strlen(open); from < to && n + 1 < out_bytes; n++) {
		size_t skip = 1;
		out[n] = *from;
		for (size_t e = 0; *from == '&' && e < sizeof entities / sizeof *entities; e++)
			if (strncmp(from, entities[e].name, strlen(entities[e].name)) == 0) {
				out[n] = *entities[e].text;
				skip = strlen(entities[e].name);
				break;
			}
		from += skip;
	}
	out[n] = '\0';
	*at = to + strlen(close);
	return from == to;
}
