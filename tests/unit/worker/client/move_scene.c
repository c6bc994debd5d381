#include "tests/unit/worker/client/move_scene.h"

#include "tests/await.h"

uint64_t changes(weir_client *c)
{
	pthread_mutex_lock(&c->lock);
	const uint64_t n = c->map.changes;
	pthread_mutex_unlock(&c->lock);
	return n;
}

void await_changes(weir_client *c, uint64_t count)
{
	AWAIT(changes(c) >= count, "the client has moved what it had %llu times, not %llu", (unsigned long long)changes(c),
	      (unsigned long long)count);
}

void scene_open(struct scene *s)
{
	cluster_start(&s->cluster, &(struct cluster_options){.servers = 3, .partitions = 6});
	mover_open(&s->mover, &s->cluster);
	trainer_open(&s->trainer, &s->cluster, "worker", (weir_mode){WEIR_ASYNC});
	trainer_lease(&s->trainer, &s->unit);
}

void scene_close(struct scene *s)
{
	trainer_close(&s->trainer);
	cluster_stop(&s->cluster);
}
