#!/usr/bin/env python3
"""pods.py OVERLAY.yaml BUILD FOLDER: runs the pods of an overlay as processes of this machine, with the very commands, environment and job file of their containers.

A name or port of the cluster becomes one on loopback, a mount a folder; nothing else is changed but for what makes the job small. It goes like a cluster does: etcd and servers start, all together;
trainers and the evaluator when servers are ready; each server is stopped and started again in turn while they train, the next when the last one is ready (a rolling update);
and at the end the job is finished, each batch applied once.
"""
import ctypes
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import yaml

PATIENCE_S = 60
SMALL = ["data.batch=64", "model.dim=4", "model.hidden=[16]", "cluster.partitions=12", "cluster.memory_budget=512MiB", "cluster.executors=1",
         "train.threads=1", "train.passes=2", "train.pace.batch_ms=20"]


def free_ports(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


def end_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


class Pods:
    def __init__(self, overlay, build, folder):
        self.objects = {(o["kind"], o["metadata"]["name"]): o for o in yaml.safe_load_all(pathlib.Path(overlay).read_text())}
        self.build, self.folder = build, folder
        self.maps = {n: o["data"] for (k, n), o in self.objects.items() if k == "ConfigMap"}
        self.running = {}
        self.names = {}  # what a name and port of the cluster is here
        for (kind, name), o in self.objects.items():
            if kind == "StatefulSet":
                ports = [p for p in o["spec"]["template"]["spec"]["containers"][0]["ports"] if p["name"] != "metrics"]
                for i in range(o["spec"]["replicas"]):
                    for p, here in zip(ports, free_ports(len(ports))):
                        self.names["%s-%d.%s:%d" % (name, i, o["spec"]["serviceName"], p["containerPort"])] = "127.0.0.1:%d" % here
        self.http = {}  # a pod's port of /metrics

    def here(self, text, pod):
        """A text of the manifests as it is on this machine, in that pod."""
        for name, at in self.names.items():
            text = text.replace(name, at)
            if name.startswith(pod + "."):
                text = text.replace("0.0.0.0:" + name.split(":")[1], at)
        self.http.setdefault(pod, free_ports(1)[0])
        text = text.replace("0.0.0.0:9464", "127.0.0.1:%d" % self.http[pod])
        for inside in ("/etc/weir", "/var/lib/weir", "/var/lib/etcd", "/data"):
            text = re.sub(r"(?<![\w.-])" + re.escape(inside) + r"(?=[/\s'\"]|$)", str(self.folder / ("data" if inside == "/data" else pod + inside)), text)
        return text

    def start(self, kind, name, pod, small=()):
        index = pod.rsplit("-", 1)[-1]
        template = self.objects[kind, name]["spec"]["template"]
        c = template["spec"]["containers"][0]
        env = {}
        for source in c.get("envFrom", []):
            env.update(self.maps.get(source.get("configMapRef", {}).get("name"), {}))
        fields = {"metadata.name": pod, "metadata.labels['apps.kubernetes.io/pod-index']": index}
        for e in c.get("env", []):
            env[e["name"]] = e["value"] if "value" in e else fields[e["valueFrom"]["fieldRef"]["fieldPath"]]
        words = [re.sub(r"\$\((\w+)\)", lambda m: env[m[1]], w) for w in c["command"] + c.get("args", [])]
        for mount in ("etc/weir", "var/lib/weir", "var/lib/etcd"):
            (self.folder / pod / mount).mkdir(parents=True, exist_ok=True)
        for volume in template["spec"].get("volumes", []):
            if "configMap" in volume:
                for file, text in self.maps[volume["configMap"]["name"]].items():
                    (self.folder / pod / "etc/weir" / file).write_text(self.here(text, pod))
        argv = [self.here(w, pod) for w in words] + [w for s in small for w in ("--set", s)]
        program = self.build / argv[0]
        argv[0] = str(program) if program.exists() else argv[0]
        log = open(self.folder / (pod + ".log"), "ab")
        env = {k: self.here(v, pod) for k, v in env.items()}
        self.running[pod] = subprocess.Popen(argv, env={**env, "PATH": os.environ["PATH"]}, stdout=log, stderr=log, preexec_fn=end_with_parent)

    def weir(self, *words):
        return subprocess.run([str(self.build / "weir"), *words], capture_output=True, text=True, timeout=PATIENCE_S,
                              env={"PATH": os.environ["PATH"], **next(v for n, v in self.maps.items() if n.startswith("weir-environment"))})

    def is_ready(self, pod):
        """As the kubelet asks: its container's readinessProbe."""
        probe = self.objects["StatefulSet", "weir-server"]["spec"]["template"]["spec"]["containers"][0]["readinessProbe"]
        assert probe["grpc"] == {"port": 7700, "service": "ready"}, probe
        return self.weir("health", "--ready", "--at", self.names[pod + ".weir-server:7700"]).returncode == 0

    def status(self):
        at = self.names["weir-server-0.weir-server:7700"], self.names["weir-server-1.weir-server:7700"]
        for a in at:  # one of them may be away
            r = self.weir("status", "--at", a, "--json")
            if r.returncode == 0:
                return json.loads(r.stdout)
        return {}

    def metrics(self, pod):
        try:
            return urllib.request.urlopen("http://127.0.0.1:%d/metrics" % self.http[pod], timeout=20).read().decode()
        except urllib.error.URLError:  # not there yet
            return ""

    def stop(self, pod, how=signal.SIGTERM):
        p = self.running.pop(pod)
        p.send_signal(how)
        begun = time.monotonic()
        code = p.wait(PATIENCE_S)
        return code, time.monotonic() - begun

    def close(self):
        for p in self.running.values():
            p.kill()
            p.wait()


def wait_for(what, condition):
    begun = time.monotonic()
    while not condition():
        if time.monotonic() - begun > PATIENCE_S:
            raise SystemExit("FAILED: waited too long for " + what)
        time.sleep(0.05)
    return time.monotonic() - begun


def check(condition, what):
    if not condition:
        raise SystemExit("FAILED: " + what)


def roll(pods, servers):
    """Each server in turn, the others being ready all the while."""
    slowest = 0
    for pod in reversed(servers):
        code, seconds = pods.stop(pod)
        check(code == 0 and seconds < 10, "%s ended with %s after %.1f s" % (pod, code, seconds))
        check(not any(pods.is_ready(s) is False for s in servers if s != pod), "another server than %s is not ready" % pod)
        pods.start("StatefulSet", "weir-server", pod, SMALL)
        slowest = max(slowest, wait_for("%s to be ready again" % pod, lambda: pods.is_ready(pod)))
    return slowest


def run(pods):
    (pods.folder / "data").mkdir()
    made = pods.weir("datagen", "--rows", "20000", "--ids", "20000", "--seed", "3", "--out", str(pods.folder / "data/clicks.tsv"))
    check(made.returncode == 0, made.stderr)
    members = pods.objects["StatefulSet", "weir-etcd"]["spec"]["replicas"]
    servers = ["weir-server-%d" % i for i in range(pods.objects["StatefulSet", "weir-server"]["spec"]["replicas"])]
    for i in range(members):
        pods.start("StatefulSet", "weir-etcd", "weir-etcd-%d" % i)
    for s in servers:
        pods.start("StatefulSet", "weir-server", s, SMALL)
    started = wait_for("the servers to be ready", lambda: all(pods.is_ready(s) for s in servers))
    for i in range(2):
        pods.start("Deployment", "weir-trainer", "weir-trainer-%d" % i, SMALL)
    pods.start("Deployment", "weir-evaluator", "weir-evaluator-0", SMALL)
    pods.start("Deployment", "weir-status", "weir-status-0", SMALL)
    wait_for("the first rows", lambda: pods.status().get("rows", 0) > 0)
    for pod, series in (("weir-status-0", "weir_partitions 12"), ("weir-server-0", "weir_server_partitions"), ("weir-trainer-0", "weir_trainer_compute_seconds")):
        wait_for("%s to show %s" % (pod, series), lambda: series in pods.metrics(pod))
    slowest = roll(pods, servers)
    for pod in ["weir-trainer-0", "weir-trainer-1", "weir-evaluator-0"]:
        check(pods.running.pop(pod).wait(PATIENCE_S * 3) == 0, pod + " failed")
    last = pods.status()
    check(last.get("state") == "finished", "the job is %s" % last.get("state"))
    check(last["workers_lost"] == 0, "%d workers were lost" % last["workers_lost"])
    check((pods.folder / "weir-evaluator-0/var/lib/weir/evaluation.json").exists(), "the evaluator left no evaluation")
    print("%d servers ready in %.1f s; each restarted while the job trained, ready again within %.1f s; finished, %d rows, no worker lost" %
          (len(servers), started, slowest, last["rows"]))


def main():
    pods = Pods(sys.argv[1], pathlib.Path(sys.argv[2]).resolve(), pathlib.Path(sys.argv[3]))
    try:
        run(pods)
    except SystemExit as e:
        for log in sorted(pods.folder.glob("*.log")):
            print("--- %s\n%s" % (log.name, log.read_text()[-1500:]))
        raise e
    finally:
        pods.close()


if __name__ == "__main__":
    main()
