#!/usr/bin/env python3
"""validate.py OVERLAY.yaml...: checks that Kubernetes accepts kustomize's output for docker/k8s,
and that our pods keep their rules.

Checks of every object:
  - its schema: Kubernetes' own (from the PyPI package kubernetes-validate, which refuses unknown
    fields) or, for custom resources, custom.yaml;
  - its references exist: ConfigMaps, claims, accounts, priorities, the pods of selectors, volumes
    of mounts;
  - every container requests its resources, and has no unneeded rights.
A check of the checks: each misspelt field of each kind is an error. Exits 0 only if all of this
holds.
"""
import copy
import pathlib
import sys

import jsonschema
import referencing
import yaml
from kubernetes_validate.utils import all_versions, schema_contents

OLDEST = "1.28"  # oldest version that docker/k8s supports
POLICY = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
# Users create these.
OUTSIDE = {("PersistentVolumeClaim", "weir-data"), ("Secret", "weir-s3"), ("Secret", "weir-data-s3")}
# Maps whose keys are names instead of fields.
NAMES = {"labels", "annotations", "matchLabels", "data", "nodeSelector", "requests", "limits"}


class Schemas:
    """Validators by kind, each created once."""

    def __init__(self, version):
        self.folder = "kubernetes-json-schema/v%s.0-local-strict" % version
        self.version = version
        definitions = referencing.Resource.from_contents(schema_contents(self.folder + "/_definitions.json", version))
        self.registry = definitions @ referencing.Registry()
        self.custom = yaml.safe_load(pathlib.Path(__file__).with_name("custom.yaml").read_text())
        self.made = {}

    def _builtin(self, kind, group):
        return schema_contents("%s/%s-%s.json" % (self.folder, kind.lower(), group), self.version)

    def _expand(self, node):
        """Resolves custom.yaml's names of Kubernetes' own schemas."""
        if node == "jobSpec":
            return self._builtin("Job", "batch-v1")["properties"]["spec"]
        if isinstance(node, dict):
            return {k: self._expand(v) for k, v in node.items()}
        return [self._expand(v) for v in node] if isinstance(node, list) else node

    def of(self, o):
        key = o["apiVersion"] + "/" + o["kind"]
        if key not in self.made:
            if key in self.custom:
                schema = self._builtin("ConfigMap", "v1")
                schema["properties"] = {"apiVersion": {"const": o["apiVersion"]}, "kind": {"const": o["kind"]},
                                        "metadata": schema["properties"]["metadata"], "spec": self._expand(self.custom[key])}
                schema["required"] = list(schema["properties"])
            else:
                group, _, version = o["apiVersion"].rpartition("/")
                schema = self._builtin(o["kind"], (group.split(".")[0] + "-" if group else "") + version)
            self.made[key] = jsonschema.Draft202012Validator(schema, registry=self.registry)
        return self.made[key]


def name_of(o):
    return "%s/%s" % (o.get("kind"), o.get("metadata", {}).get("name"))


def templates(node):
    """Every pod template in the object, at any depth."""
    if isinstance(node, dict):
        if isinstance(node.get("spec"), dict) and "containers" in node["spec"]:
            yield node
        for v in node.values():
            yield from templates(v)
    elif isinstance(node, list):
        for v in node:
            yield from templates(v)


def references(pod):
    yield "ServiceAccount", pod.get("serviceAccountName")
    if "priorityClassName" in pod:
        yield "PriorityClass", pod["priorityClassName"]
    for v in pod.get("volumes", []):
        if "configMap" in v:
            yield "ConfigMap", v["configMap"]["name"]
        if "secret" in v:
            yield "Secret", v["secret"]["secretName"]
        if "persistentVolumeClaim" in v:
            yield "PersistentVolumeClaim", v["persistentVolumeClaim"]["claimName"]
    for c in containers(pod):
        for e in c.get("envFrom", []):
            if "configMapRef" in e:
                yield "ConfigMap", e["configMapRef"]["name"]
            if "secretRef" in e:
                yield "Secret", e["secretRef"]["name"]


def authorities(o):
    """References of cert-manager's objects."""
    if o["kind"] == "Certificate":
        yield "Issuer", o["spec"]["issuerRef"]["name"]
    if o["kind"] == "Issuer" and "ca" in o["spec"]:
        yield "Secret", o["spec"]["ca"]["secretName"]


def containers(pod):
    return pod.get("initContainers", []) + pod["containers"]


def check_pod(template, claims):
    """Violations of a pod."""
    pod = template["spec"]
    security = pod.get("securityContext", {})
    if not security.get("runAsNonRoot") or not security.get("runAsUser") or security.get("seccompProfile") != {"type": "RuntimeDefault"}:
        yield "its pod may run as root, or without a seccomp profile"
    if pod.get("automountServiceAccountToken") is not False:
        yield "its pod has a token of Kubernetes"
    if any("secret" in v for v in pod.get("volumes", [])) and "fsGroup" not in security:
        yield "its pod may not read its own secrets"
    volumes = {v["name"] for v in pod.get("volumes", [])} | claims
    for c in containers(pod):
        if c.get("securityContext") != POLICY:
            yield "container %s: its securityContext is not %s" % (c["name"], POLICY)
        needs = c.get("resources", {})
        if not {"cpu", "memory"} <= set(needs.get("requests", {})) or "memory" not in needs.get("limits", {}):
            yield "container %s does not say what it needs, or may have all memory" % c["name"]
        if "/" not in c["image"] or ":" not in c["image"]:
            yield "container %s: image %s is not one of components/images" % (c["name"], c["image"])
        mounted = {m["name"] for m in c.get("volumeMounts", [])}
        if not mounted <= volumes:
            yield "container %s mounts %s, which the pod has not" % (c["name"], mounted - volumes)
        known = set()
        for e in c.get("env", []):  # a value sees the variables before it
            for name in [w.split(")")[0] for w in e.get("value", "").split("$(")[1:]]:
                if name not in known:
                    yield "container %s: %s is not before %s in its environment" % (c["name"], name, e["name"])
            known.add(e["name"])
        for word in c.get("command", []) + c.get("args", []):
            for name in [w.split(")")[0] for w in word.split("$(")[1:]]:
                if name not in known:
                    yield "container %s: %s is not in its environment" % (c["name"], name)


def check_names(objects):
    """References and selectors without a target."""
    there = {(o["kind"], o["metadata"]["name"]) for o in objects} | OUTSIDE
    there |= {("Secret", o["spec"]["secretName"]) for o in objects if o["kind"] == "Certificate"}
    for o in objects:
        for kind, name in authorities(o):
            if (kind, name) not in there:
                yield name_of(o), "names %s/%s, which is not there" % (kind, name)
    pods = [(o, t) for o in objects for t in templates(o)]
    for o, t in pods:
        for kind, name in references(t["spec"]):
            if (kind, name) not in there:
                yield name_of(o), "names %s/%s, which is not there" % (kind, name)
        if ("Secret", "weir-s3") in references(t["spec"]) and t["metadata"]["labels"]["app.kubernetes.io/component"] != "server":
            yield name_of(o), "is given the credentials of checkpoints, which are servers' alone"
        own = o["spec"].get("selector", {}).get("matchLabels", {})
        if not own.items() <= t["metadata"]["labels"].items():
            yield name_of(o), "selects other pods than its own"
        if o["kind"] == "StatefulSet" and ("Service", o["spec"]["serviceName"]) not in there:
            yield name_of(o), "its service is not there"
        for problem in check_pod(t, {v["metadata"]["name"] for v in o["spec"].get("volumeClaimTemplates", [])}):
            yield name_of(o), problem
    labels = [t["metadata"]["labels"].items() for _, t in pods]
    services = [o["metadata"].get("labels", {}).items() for o in objects if o["kind"] == "Service"]
    for o in objects:
        spec = o.get("spec", {})
        wanted = {"Service": lambda: spec["selector"], "PodDisruptionBudget": lambda: spec["selector"]["matchLabels"],
                  "NetworkPolicy": lambda: spec["podSelector"].get("matchLabels", {}),
                  "ServiceMonitor": lambda: spec["selector"]["matchLabels"]}.get(o["kind"])
        if wanted and not any(wanted().items() <= has for has in (services if o["kind"] == "ServiceMonitor" else labels)):
            yield name_of(o), "selects nothing"
        target = spec.get("scaleTargetRef")
        if target and (target.get("kind", "Deployment"), target["name"]) not in there:
            yield name_of(o), "scales what is not there"
    for o, t in pods:  # only named traffic may pass
        if not any(p["kind"] == "NetworkPolicy" and set(p["spec"]["policyTypes"]) == {"Ingress", "Egress"} and
                   p["spec"]["podSelector"]["matchLabels"].items() <= t["metadata"]["labels"].items() for p in objects):
            yield name_of(o), "no default-deny NetworkPolicy is for its pods"


def misspellings(node, path=()):
    """Every field of an object by its path, without indices, as one item stands for its list."""
    if isinstance(node, dict):
        for k, v in node.items():
            if "/" not in k and (not path or path[-1] not in NAMES):
                yield path + (k,), node, k
            yield from misspellings(v, path + (k,))
    elif isinstance(node, list):
        for v in node:
            yield from misspellings(v, path)


def check_checks(objects, schemas, seen):
    """Misspells each field not seen before. Yields those whose absence is not noticed; adds to
    seen."""
    for o in objects:
        work = copy.deepcopy(o)
        for path, holder, key in list(misspellings(work)):
            kind = (o["apiVersion"], o["kind"])
            if path in (("apiVersion",), ("kind",)) or kind + path in seen:
                continue
            seen.add(kind + path)
            before = list(holder.items())
            holder.clear()
            holder.update((k + "x" if k == key else k, v) for k, v in before)
            missed = schemas.of(o).is_valid(work)
            holder.clear()
            holder.update(before)
            if missed:
                yield name_of(o), "%s may be misspelt, and nobody says so" % ".".join(path)


def main(files):
    newest = all_versions()[-1].rsplit(".", 1)[0]
    versions = [Schemas(OLDEST), Schemas(newest)]
    problems, seen, count = [], set(), 0
    for file in files:
        objects = [o for o in yaml.safe_load_all(pathlib.Path(file).read_text()) if o]
        count += len(objects)
        found = list(check_names(objects))
        for schemas in versions:
            for o in objects:
                for e in schemas.of(o).iter_errors(o):
                    found.append((name_of(o), "%s: %s (Kubernetes %s)" % (".".join(map(str, e.absolute_path)), e.message[:200], schemas.version)))
        found += check_checks(objects, versions[-1], seen)
        problems += ["%s: %s: %s" % (pathlib.Path(file).stem, *p) for p in found]
    print("\n".join(problems), end="\n" if problems else "")
    print("%d objects of %d overlays, Kubernetes %s and %s; %d fields, each misspelt once; %d problems" %
          (count, len(files), OLDEST, newest, len(seen), len(problems)))
    return bool(problems) or not count


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
