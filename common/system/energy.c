#include "common/system/energy.h"

#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/limits.h"
#include "common/system/first_line.h"
#include "common/system/gpu.h"

#define ZONES_MAX  64u
#define NAME_BYTES 64u
#define PATH_BYTES (WEIR_PATH_BYTES_MAX + 2 * NAME_BYTES)

struct zone {
	char name[NAME_BYTES]; /* of its folder, "intel-rapl:0" */
	uint64_t last, range;  /* microjoules */
};

struct energy {
	char powercap[WEIR_PATH_BYTES_MAX];
	struct zone zones[ZONES_MAX]; /* (zones_count) */
	uint32_t zones_count;
	struct gpu *gpu;
	double devices[WEIR_GPUS_MAX]; /* joules at the last look; negative: not told */
	struct energy_used used;
};

/* --- Processors */

/* Reads a file of a zone. */
static bool read_word(const struct energy *e, const char *zone, const char *file, char out[NAME_BYTES])
{
	char folder[PATH_BYTES];
	snprintf(folder, sizeof folder, "%s/%s", e->powercap, zone);
	return first_line_read(folder, file, out, NAME_BYTES);
}

static bool read_number(const struct energy *e, const char *zone, const char *file, uint64_t *out)
{
	char word[NAME_BYTES], *end;
	if (!read_word(e, zone, file, word))
		return false;
	*out = strtoull(word, &end, 10);
	return end != word && *end == '\0';
}

/* Whether a folder is a zone that counts. platform: the zone of the whole machine. */
static bool counts(const struct energy *e, const char *zone, bool platform)
{
	char name[NAME_BYTES];
	if (!strstr(zone, "-rapl:") || strlen(zone) >= NAME_BYTES || !read_word(e, zone, "name", name))
		return false;
	if (platform)
		return strcmp(name, "psys") == 0;
	return strncmp(name, "package", strlen("package")) == 0 || strcmp(name, "dram") == 0;
}

static void find_zones(struct energy *e, bool platform)
{
	DIR *d = opendir(e->powercap);
	for (const struct dirent *entry; d && e->zones_count < ZONES_MAX && (entry = readdir(d));) {
		struct zone *z = &e->zones[e->zones_count];
		if (!counts(e, entry->d_name, platform) || !read_number(e, entry->d_name, "energy_uj", &z->last) ||
		    !read_number(e, entry->d_name, "max_energy_range_uj", &z->range))
			continue;
		snprintf(z->name, sizeof z->name, "%s", entry->d_name);
		e->zones_count++;
	}
	if (d)
		closedir(d);
}

static void look_at_zone(struct energy *e, struct zone *z)
{
	uint64_t now;
	if (!read_number(e, z->name, "energy_uj", &now))
		return;
	const uint64_t used = now >= z->last ? now - z->last : now + (z->range > z->last ? z->range - z->last : 0);
	e->used.cpu += (double)used / 1e6;
	z->last = now;
}

/* --- Devices */

/* A counter that falls belongs to a driver that was loaded again. */
static void look_at_devices(struct energy *e)
{
	double now[WEIR_GPUS_MAX];
	gpu_joules(e->gpu, now);
	for (uint32_t i = 0; i < WEIR_GPUS_MAX; i++) {
		if (now[i] < 0)
			continue;
		e->used.of_gpu = true;
		if (e->devices[i] >= 0)
			e->used.gpu += now[i] >= e->devices[i] ? now[i] - e->devices[i] : now[i];
		e->devices[i] = now[i];
	}
}

/* --- Both */

struct energy *energy_open(const char *powercap, const char *library)
{
	struct energy *e = calloc(1, sizeof *e);
	if (!e)
		return NULL;
	snprintf(e->powercap, sizeof e->powercap, "%s", powercap);
	find_zones(e, false);
	if (e->zones_count == 0)
		find_zones(e, true);
	e->used.of_cpu = e->zones_count > 0;
	e->gpu = gpu_open(library);
	for (uint32_t i = 0; i < WEIR_GPUS_MAX; i++)
		e->devices[i] = -1;
	look_at_devices(e);
	if (e->used.of_cpu || e->used.of_gpu)
		return e;
	energy_close(e);
	return NULL;
}

void energy_look(struct energy *e, struct energy_used *out)
{
	*out = (struct energy_used){0};
	if (!e)
		return;
	for (uint32_t i = 0; i < e->zones_count; i++)
		look_at_zone(e, &e->zones[i]);
	look_at_devices(e);
	*out = e->used;
}

void energy_close(struct energy *e)
{
	if (!e)
		return;
	gpu_close(e->gpu);
	free(e);
}
