"""A tracking server that checks what it is asked, as MLflow's own would: names, limits, types, and
that parameters never change.

    fake_mlflow.py FOLDER

Prints its port. FOLDER/mode says how it behaves: `ok`, `500` (every answer), `hang` (no answer),
`lost` (runs/create works, and its answer is lost). FOLDER/state.json has all that it was told, and
`violations`, what was wrong; FOLDER/artifact-RUN-NAME the artifacts.
"""
import http.server
import json
import os
import re
import sys
import threading
import time
import urllib.parse

FOLDER = sys.argv[1]
API = "/api/2.0/mlflow/"
ARTIFACTS = "/api/2.0/mlflow-artifacts/artifacts/"
NAME = re.compile(r"^[A-Za-z0-9_\-. :/]+$")
STATE = {"experiments": {}, "runs": {}, "violations": [], "requests": 0, "authorization": []}
LOCK = threading.Lock()


def mode():
    with open(os.path.join(FOLDER, "mode"), encoding="utf-8") as f:
        return f.read().strip()


def save():
    path = os.path.join(FOLDER, "state.json")
    with open(path + ".tmp", "w", encoding="utf-8") as f:
        json.dump(STATE, f)
    os.rename(path + ".tmp", path)


class Refused(Exception):
    def __init__(self, code, word, text):
        super().__init__(text)
        self.code, self.body = code, {"error_code": word, "message": text}


def check(good, text):
    if not good:
        STATE["violations"].append(text)
        raise Refused(400, "INVALID_PARAMETER_VALUE", text)


def info(run_id):
    run = STATE["runs"][run_id]
    return {"run_id": run_id, "experiment_id": run["experiment"], "status": run["status"],
            "artifact_uri": f"mlflow-artifacts:/{run['experiment']}/{run_id}/artifacts"}


def the_run(body):
    if body.get("run_id") not in STATE["runs"]:
        raise Refused(404, "RESOURCE_DOES_NOT_EXIST", f"no run {body.get('run_id')}")
    return STATE["runs"][body["run_id"]]


def set_tags(run, tags):
    for tag in tags:
        check(NAME.match(tag["key"]) and len(tag["key"]) <= 250 and len(tag["value"]) <= 5000, f"tag {tag}")
        run["tags"][tag["key"]] = tag["value"]


def experiments_create(body):
    check(body["name"] not in STATE["experiments"], "an experiment of that name exists")
    STATE["experiments"][body["name"]] = str(len(STATE["experiments"]) + 1)
    return {"experiment_id": STATE["experiments"][body["name"]]}


def runs_create(body):
    check(body["experiment_id"] in STATE["experiments"].values(), "no such experiment")
    check(isinstance(body["start_time"], int) and abs(body["start_time"] / 1000 - time.time()) < 3600, "start_time")
    run_id = f"{len(STATE['runs']) + 1:032x}"
    run = {"experiment": body["experiment_id"], "name": body["run_name"], "status": "RUNNING", "params": {}, "metrics": {},
           "tags": {}, "artifacts": {}, "starts": 1}
    STATE["runs"][run_id] = run
    set_tags(run, body.get("tags", []))
    return {"run": {"info": info(run_id)}}


def runs_update(body):
    run = the_run(body)
    check(body["status"] in ("RUNNING", "FINISHED", "FAILED", "KILLED"), "status")
    run["starts"] += body["status"] == "RUNNING"
    run["status"] = body["status"]
    return {"run_info": info(body["run_id"])}


def runs_search(body):
    found = re.match(r"^tags\.`weir\.run` = '([0-9a-f]+)'$", body["filter"])
    check(found and isinstance(body["experiment_ids"], list), "filter")
    return {"runs": [{"info": info(i)} for i, run in STATE["runs"].items() if run["tags"].get("weir.run") == found[1]]}


def log_batch(body):
    run = the_run(body)
    metrics, params, tags = body.get("metrics", []), body.get("params", []), body.get("tags", [])
    check(len(metrics) <= 1000 and len(params) <= 100 and len(tags) <= 100, "the batch is too large")
    for m in metrics:
        check(NAME.match(m["key"]) and isinstance(m["value"], (int, float)) and isinstance(m["step"], int)
              and isinstance(m["timestamp"], int), f"metric {m}")
        point = [m["step"], m["value"], m["timestamp"]]
        points = run["metrics"].setdefault(m["key"], [])
        if point not in points:
            points.append(point)
    for p in params:
        check(NAME.match(p["key"]) and 0 < len(p["value"]) <= 500, f"param {p}")
        check(run["params"].get(p["key"], p["value"]) == p["value"], f"param {p['key']} changes")
        run["params"][p["key"]] = p["value"]
    set_tags(run, tags)
    return {}


POSTS = {"experiments/create": experiments_create, "runs/create": runs_create, "runs/update": runs_update,
         "runs/search": runs_search, "runs/log-batch": log_batch}


def get_experiment(query):
    name = urllib.parse.parse_qs(query)["experiment_name"][0]
    if name not in STATE["experiments"]:
        raise Refused(404, "RESOURCE_DOES_NOT_EXIST", f"no experiment {name}")
    return {"experiment": {"experiment_id": STATE["experiments"][name], "name": name, "lifecycle_stage": "active"}}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def body(self):
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def answer(self, act):
        how = mode()
        data = self.body()
        with LOCK:
            STATE["requests"] += 1
            told = self.headers.get("Authorization")
            if told and told not in STATE["authorization"]:
                STATE["authorization"].append(told)
            save()
        if how == "hang":
            while mode() == "hang":
                time.sleep(0.1)
            self.close_connection = True
            return
        if how == "500":
            self.send(500, {"error_code": "INTERNAL_ERROR", "message": "the database is away"})
            return
        with LOCK:
            try:
                code, reply = 200, act(data)
            except Refused as e:
                code, reply = e.code, e.body
            save()
        if how == "lost" and self.path.endswith("runs/create"):
            self.close_connection = True
            with open(os.path.join(FOLDER, "mode"), "w", encoding="utf-8") as f:
                f.write("ok")
            return
        self.send(code, reply)

    def send(self, code, reply):
        text = json.dumps(reply).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def do_GET(self):
        path, _, query = self.path.partition("?")
        self.answer(lambda _: get_experiment(query) if path == API + "experiments/get-by-name" else POSTS[path]({}))

    def do_POST(self):
        def act(data):
            check(self.headers.get("Content-Type") == "application/json", "content type")
            return POSTS[self.path[len(API):]](json.loads(data))
        self.answer(act)

    def do_PUT(self):
        def act(data):
            place = re.match(rf"^{re.escape(ARTIFACTS)}(\d+)/([0-9a-f]+)/artifacts/([\w.\-]+)$", self.path)
            check(place and place[2] in STATE["runs"], f"artifact {self.path}")
            with open(os.path.join(FOLDER, f"artifact-{int(place[2], 16)}-{place[3]}"), "wb") as f:
                f.write(data)
            STATE["runs"][place[2]]["artifacts"][place[3]] = len(data)
            return {}
        self.answer(act)


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
server.daemon_threads = True
with LOCK:
    save()
print(server.server_address[1], flush=True)
server.serve_forever()
