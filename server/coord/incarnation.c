#include "server/coord/incarnation.h"

#include <inttypes.h>

#include "server/coord/coord_records_format.h"

/* The next incarnation must fit above the bits in which a replica counts its restarts from
 * nothing. */
#define INCARNATION_MAX (UINT64_MAX >> REPLICA_ANEW_BITS)

struct taking {
	uint64_t least, incarnation;
};

static weir_status above(void *arg, const struct coord_record *r, struct message **value, weir_error *err)
{
	char address[WEIR_ADDRESS_BYTES_MAX];
	struct taking *t = arg;
	uint64_t last = 0;
	weir_status status = r ? coord_records_unpack_server(r->value, r->value_bytes, address, &last, err) : WEIR_OK;
	if (!status && last >= INCARNATION_MAX)
		status = weir_fail(err, WEIR_E_CORRUPT, "no start can be of incarnation %" PRIu64, last);
	if (status)
		return status;
	t->incarnation = last < t->least ? t->least : last + 1;
	*value = coord_records_pack_server("", t->incarnation);
	return *value ? WEIR_OK : weir_fail(err, WEIR_E_MEMORY, "out of memory");
}

weir_status incarnation_take(const struct coord_ask_options *options, const uint8_t uuid[16], uint16_t server, uint64_t least,
                             uint64_t *incarnation, weir_error *err)
{
	char key[WEIR_COORD_KEY_BYTES_MAX];
	struct taking t = {.least = least};
	coord_records_incarnation_key(uuid, server, key);
	const weir_status status = coord_ask_put(options, key, above, &t, err);
	*incarnation = t.incarnation;
	return status;
}
