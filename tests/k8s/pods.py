#!/usr/bin/env python3
"""pods.py OVERLAY.yaml BUILD FOLDER: runs the pods of an overlay as processes of this machine, with
the exact commands, environment and job file of their containers.

Names and ports of the cluster become ones on loopback, mounts become folders, and the job is made
small; nothing else changes. The sequence is that of a cluster: etcd and servers start together;
trainers and the evaluator start when servers are ready; each server in turn is stopped and
restarted during training, the next one when the last is ready (a rolling update). At the end the
job is finished, with each batch applied once.
"""
import ctypes
import json
import os
import pathlib
import random
import re
import shutil
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
    """Below the kernel's ephemeral ports, so that a restarted pod finds its own port free."""
    sockets = []
    while len(sockets) < count:
        s = socket.socket()
        try:
            s.bind(("127.0.0.1", random.randrange(10000, 32768)))
            sockets.append(s)
        except OSError:
            s.close()
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


def replace(path, text):
    """Writes a file whole, as a kubelet does: a program that starts meanwhile finds either text."""
    new = path.with_name(path.name + ".new")
    new.write_text(text)
    os.replace(new, path)


def end_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


class Pods:
    def __init__(self, overlay, build, folder):
        self.objects = {(o["kind"], o["metadata"]["name"]): o for o in yaml.safe_load_all(pathlib.Path(overlay).read_text())}
        self.build, self.folder = build, folder
        self.maps = {n: o["data"] for (k, n), o in self.objects.items() if k == "ConfigMap"}
        self.running = {}
        self.names = {}  # address here of a name and port of the cluster
        for (kind, name), o in self.objects.items():
            if kind == "StatefulSet":
                ports = [p for p in o["spec"]["template"]["spec"]["containers"][0]["ports"] if p["name"] != "metrics"]
                for i in range(o["spec"]["replicas"]):
                    for p, here in zip(ports, free_ports(len(ports))):
                        self.names["%s-%d.%s:%d" % (name, i, o["spec"]["serviceName"], p["containerPort"])] = "127.0.0.1:%d" % here
        self.http = {}  # port of /metrics by pod

    def here(self, text, pod):
        """Translates a text of the manifests to this machine, for that pod."""
        for name, at in self.names.items():
            text = text.replace(name, at)
            if name.startswith(pod + "."):
                for host in ("0.0.0.0:", "127.0.0.1:"):
                    text = text.replace(host + name.split(":")[1], at)
        self.http.setdefault(pod, free_ports(1)[0])
        text = text.replace("0.0.0.0:9464", "127.0.0.1:%d" % self.http[pod])
        for inside in ("/etc/weir", "/etc/weir-tls", "/var/lib/weir", "/var/lib/etcd", "/data", "/app"):
            shared = inside in ("/data", "/app")
            text = re.sub(r"(?<![\w.-])" + re.escape(inside) + r"(?=[/\s'\"]|$)", str(self.folder / (inside[1:] if shared else pod + inside)), text)
        return text

    def start(self, kind, name, pod, small=()):
        c, env = self.prepare(kind, name, pod)
        argv = [self.here(re.sub(r"\$\((\w+)\)", lambda m: env[m[1]], w), pod) for w in c["command"] + c.get("args", [])] + [w for s in small for w in ("--set", s)]
        log = open(self.folder / (pod + ".log"), "ab")
        self.running[pod] = subprocess.Popen(self.program(argv), env=self.environment(env, pod), stdout=log, stderr=log, preexec_fn=end_with_parent)

    def program(self, argv):
        """Our program, or the machine's."""
        ours = self.build / argv[0]
        return [str(ours) if ours.exists() else argv[0]] + argv[1:]

    def environment(self, env, pod):
        return {**{k: self.here(v, pod) for k, v in env.items()}, "PATH": os.environ["PATH"]}

    def prepare(self, kind, name, pod):
        """The pod's container, its environment, and its mounts."""
        index = pod.rsplit("-", 1)[-1]
        template = self.objects[kind, name]["spec"]["template"]
        c, env = template["spec"]["containers"][0], {}
        for source in c.get("envFrom", []):
            env.update(self.maps.get(source.get("configMapRef", {}).get("name"), {}))
        fields = {"metadata.name": pod, "metadata.labels['apps.kubernetes.io/pod-index']": index,
                  "metadata.annotations['batch.kubernetes.io/job-completion-index']": index}
        for e in c.get("env", []):
            env[e["name"]] = e["value"] if "value" in e else fields[e["valueFrom"]["fieldRef"]["fieldPath"]]
        for mount in ("etc/weir", "var/lib/weir", "var/lib/etcd"):
            (self.folder / pod / mount).mkdir(parents=True, exist_ok=True)
        for volume in template["spec"].get("volumes", []):
            if "configMap" in volume:
                for file, text in self.maps[volume["configMap"]["name"]].items():
                    replace(self.folder / pod / "etc/weir" / file, self.here(text, pod))
            if "secret" in volume and volume["secret"]["secretName"].endswith("-tls"):
                self.certify(volume["secret"]["secretName"], self.folder / pod / "etc/weir-tls")
        return c, env

    def certify(self, secret, place):
        """Fills a Secret once, as cert-manager does, by the Certificate that names it."""
        if place.exists():
            return
        certificate = next(o["spec"] for (k, _), o in self.objects.items() if k == "Certificate" and o["spec"]["secretName"] == secret)
        authority = self.folder / "certs"
        if not authority.exists():
            self.certs("init")
        if "uris" in certificate:
            job, role, name = certificate["uris"][0].removeprefix("weir://").split("/")
            self.certs("issue", "--job", job, "--role", role, "--name", name)
        else:
            name = "etcd"
            self.certs("issue", "--name", name, "--host", "127.0.0.1")
        place.mkdir(parents=True, exist_ok=True)
        for source, mounted in ((name + ".crt", "tls.crt"), (name + ".key", "tls.key"), ("ca.crt", "ca.crt")):
            shutil.copy(authority / source, place / mounted)

    def certs(self, verb, *words):
        subprocess.run([str(self.build / "weir"), "certs", verb, "--dir", str(self.folder / "certs"), *words], check=True, stdout=subprocess.DEVNULL)

    def run_in(self, kind, name, pod, words):
        """`kubectl exec`"""
        _, env = self.prepare(kind, name, pod)
        return subprocess.run(self.program([self.here(w, pod) for w in words]), capture_output=True, text=True, timeout=PATIENCE_S, env=self.environment(env, pod))

    def is_ready(self, pod):
        """Runs the container's readinessProbe, as the kubelet does."""
        probe = self.objects["StatefulSet", "weir-server"]["spec"]["template"]["spec"]["containers"][0]["readinessProbe"]
        words = ["weir", "health", "--ready", "--at=127.0.0.1:7700"]
        if "exec" in probe:
            words = probe["exec"]["command"]
        else:
            check(probe["grpc"] == {"port": 7700, "service": "ready"}, "weir health --ready is not what %s asks" % probe)
        return self.run_in("StatefulSet", "weir-server", pod, words).returncode == 0

    def status(self):
        for i in (0, 1):  # one of them may be down
            r = self.run_in("Deployment", "weir-status", "weir-status-0",
                            ["weir", "status", "/etc/weir/job.yaml", "--json", "--at", "weir-server-%d.weir-server:7700" % i])
            if r.returncode == 0:
                return json.loads(r.stdout)
        return {}

    def metrics(self, pod):
        try:
            return urllib.request.urlopen("http://127.0.0.1:%d/metrics" % self.http[pod], timeout=20).read().decode()
        except urllib.error.URLError:  # not up yet
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
    """Restarts each server in turn, while the others stay ready."""
    slowest = 0
    for pod in reversed(servers):
        code, seconds = pods.stop(pod)
        check(code == 0 and seconds < 10, "%s ended with %s after %.1f s" % (pod, code, seconds))
        check(not any(pods.is_ready(s) is False for s in servers if s != pod), "another server than %s is not ready" % pod)
        pods.start("StatefulSet", "weir-server", pod, SMALL)
        slowest = max(slowest, wait_for("%s to be ready again" % pod, lambda: pods.is_ready(pod)))
    return slowest


def start_servers(pods, small):
    """Starts etcd and the servers. Returns the servers' pods, and the seconds until they are ready."""
    members = pods.objects["StatefulSet", "weir-etcd"]["spec"]["replicas"]
    servers = ["weir-server-%d" % i for i in range(pods.objects["StatefulSet", "weir-server"]["spec"]["replicas"])]
    for i in range(members):
        pods.start("StatefulSet", "weir-etcd", "weir-etcd-%d" % i)
    for s in servers:
        pods.start("StatefulSet", "weir-server", s, small)
    return servers, wait_for("the servers to be ready", lambda: all(pods.is_ready(s) for s in servers))


def run(pods):
    (pods.folder / "data").mkdir()
    subprocess.run([str(pods.build / "weir"), "datagen", "--rows", "20000", "--ids", "20000", "--seed", "3", "--out", str(pods.folder / "data/clicks.tsv")],
                   check=True, stdout=subprocess.DEVNULL)
    servers, started = start_servers(pods, SMALL)
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


def main(run):
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
    main(run)
