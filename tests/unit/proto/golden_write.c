/* Rewrites tests/golden/frame_*.hex. Run it only for a deliberate change of the format. */
#include <stdio.h>

#include "tests/unit/proto/golden_frames.h"

int main(void)
{
	for (uint32_t i = 0; i < GOLDEN_FRAMES; i++) {
		char path[512];
		snprintf(path, sizeof path, "%s/%s.hex", GOLDEN_DIR, golden_name(i));
		FILE *f = fopen(path, "w");
		if (!f) {
			perror(path);
			return 1;
		}
		struct message *m = golden_build(i);
		size_t at = 0;
		for (uint32_t s = 0; s < m->count; s++)
			for (size_t b = 0; b < m->spans[s].size; b++, at++)
				fprintf(f, "%02x%c", m->spans[s].data[b], at % 16 == 15 || at + 1 == m->bytes ? '\n' : ' ');
		message_release(m);
		fclose(f);
	}
	return 0;
}
