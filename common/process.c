#include "process.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

uint64_t process_memory(void)
{
	unsigned long long size, resident, shared, own = 0;
	FILE *f = fopen("/proc/self/statm", "re");
	if (!f)
		return 0;
	if (fscanf(f, "%llu %llu %llu", &size, &resident, &shared) == 3)
		own = resident - shared;
	fclose(f);
	return own * (uint64_t)sysconf(_SC_PAGESIZE);
}

static int digit_of(int c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool process_machine_boot(uint8_t id[16])
{
	uint32_t digits = 0;
	FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re"); /* a UUID */
	memset(id, 0, 16);
	for (int c; f && digits < 32 && (c = fgetc(f)) != EOF;)
		if (digit_of(c) >= 0) {
			id[digits / 2] = (uint8_t)(id[digits / 2] << 4 | digit_of(c));
			digits++;
		}
	if (f)
		fclose(f);
	if (digits < 32)
		memset(id, 0, 16);
	return digits == 32;
}
