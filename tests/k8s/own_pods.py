#!/usr/bin/env python3
"""own_pods.py OVERLAY.yaml BUILD FOLDER: runs the pods of the overlay `own` as processes (pods.py),
with train.py as the program of the image.

One trainer is killed, one gets SIGTERM as before an eviction; the Job replaces both. At the end the
certificate of the status pod reads the audit.
"""
import pathlib
import shutil
import signal

from pods import PATIENCE_S, check, main, start_servers, wait_for

AUDIT = """
import weir
with weir.connect(role="observer", name="audit") as job:
    end = job.status()
    assert end.audit == "exact" and end.parts_applied > 0, end
    print(end.parts_applied)
"""
SMALL = ["cluster.partitions=12", "cluster.memory_budget=512MiB", "cluster.executors=1", "cluster.lease_ms=3001"]


def live(pods):
    return {w["name"] for w in pods.status().get("workers", []) if w["live"]}


def run(pods):
    (pods.folder / "app").mkdir()
    shutil.copy(pathlib.Path(__file__).with_name("train.py"), pods.folder / "app")
    start_servers(pods, SMALL)
    trainers = ["weir-trainer-%d" % i for i in range(pods.objects["Job", "weir-trainer"]["spec"]["completions"])]
    for pod in trainers:
        pods.start("Job", "weir-trainer", pod)
    wait_for("the trainers", lambda: live(pods) == set(trainers))
    # one that is killed before it says anything is not counted as lost
    wait_for("the first one's work", lambda: any(w["name"] == trainers[0] and w["units_held"] for w in pods.status().get("workers", [])))
    pods.stop(trainers[0], signal.SIGKILL)
    code, seconds = pods.stop(trainers[1])
    check(code == 0 and seconds < 10, "a trainer ended with %s, %.1f s after SIGTERM" % (code, seconds))
    for i in (0, 1):
        trainers[i] = "weir-trainer-again-%d" % i
        pods.start("Job", "weir-trainer", trainers[i])
    wait_for("the trainers in their places", lambda: live(pods) >= set(trainers))
    for pod in trainers:
        check(pods.running.pop(pod).wait(PATIENCE_S * 3) == 0, pod + " failed")
    last = pods.status()
    check(last["state"] == "finished", "the job is %s" % last["state"])
    check(last["workers_lost"] == 1, "%d workers were lost" % last["workers_lost"])  # the killed one; the other one left
    audit = pods.run_in("Deployment", "weir-status", "weir-status-0", ["python3", "-c", AUDIT])
    check(audit.returncode == 0, "the audit: " + audit.stderr)
    print("%d trainers, one killed and one stopped and both replaced: %d parts, each applied once" % (len(trainers), int(audit.stdout)))


if __name__ == "__main__":
    main(run)
