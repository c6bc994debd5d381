#include "tests/unit/worker/train/role.h"

#include "tests/cmocka_check.h"
#include "worker/train/loop/trainer.h"
#include "worker/train/score/evaluator.h"

static void *run_role(void *arg)
{
	struct role *r = arg;
	if (r->evaluator)
		r->status = evaluator_run(
		    &(struct evaluator_options){.job = r->cluster->job, .ledger = r->cluster->ledger, .name = r->name, .stop = &r->stop},
		    &r->err);
	else
		r->status = trainer_run(
		    &(struct trainer_options){.job = r->cluster->job, .ledger = r->cluster->ledger, .name = r->name, .stop = &r->stop},
		    &r->err);
	return NULL;
}

void cluster_role_start(struct role *r)
{
	assert_int_equal(pthread_create(&r->thread, NULL, run_role, r), 0);
}

void cluster_role_join(struct role *r, weir_status expected)
{
	pthread_join(r->thread, NULL);
	if (r->status != expected)
		fail_msg("%s: %s: %s", r->name, weir_status_name(r->status), r->err.text);
}
