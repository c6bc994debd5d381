"""Checks a trace of `weir profile`: profile.py TRACE.json REPORT.json.

Every flow's points are in the order of time and each is at the begin of a span of its track; spans
of a track are nested or disjoint; two servers and two workers take part; enough flows have all
kinds of points. The steps of the report's critical path add up, and its batch is in the trace.
"""
import collections
import json
import sys


def read_ns(text):
    """Nanoseconds of a number of microseconds with three digits behind its point."""
    whole, _, rest = text.partition(".")
    assert len(rest) == 3, text
    return int(whole + rest)


def check_tracks(spans):
    tracks = collections.defaultdict(list)
    for s in spans:
        tracks[s["pid"], s["tid"]].append((s["ts"], -s["dur"], s["name"]))
    for track, items in tracks.items():
        open_spans = []
        for begun, negative, name in sorted(items):
            ended = begun - negative
            while open_spans and open_spans[-1][0] <= begun:
                open_spans.pop()
            assert not open_spans or ended <= open_spans[-1][0], f"{name} at {begun} ends after its parent {open_spans[-1]} on {track}"
            open_spans.append((ended, name))
    return len(tracks)


def check_flows(events, spans):
    begun = collections.defaultdict(list)
    for s in spans:
        begun[s["pid"], s["tid"], s["ts"]].append(s["name"])
    flows = collections.defaultdict(list)
    for e in events:
        if e["ph"] in "stf":
            assert (e["pid"], e["tid"], e["ts"]) in begun, f"an event of a flow is at no span: {e}"
            flows[e["id"]].append(e)
    whole = collections.Counter()
    for points in flows.values():
        assert [p["ts"] for p in points] == sorted(p["ts"] for p in points), points
        assert "".join(p["ph"] for p in points) == "s" + "t" * (len(points) - 2) + "f", points
        whole[" > ".join(begun[p["pid"], p["tid"], p["ts"]][0] for p in points)] += 1
    return flows, whole


def main(trace, report):
    with open(trace, encoding="utf-8") as f:
        events = json.load(f, parse_float=str)["traceEvents"]
    spans = [e for e in events if e["ph"] == "X"]
    for e in events:
        if e["ph"] in "Xstf":
            e["ts"] = read_ns(e["ts"])
        if e["ph"] == "X":
            e["dur"] = read_ns(e["dur"])
    names = {e["pid"]: e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == "process_name"}
    assert sorted(names.values()) == ["server-0", "server-1", "worker-0", "worker-1"], names
    kinds = collections.defaultdict(set)
    for s in spans:
        kinds[names[s["pid"]]].add(s["name"])
    for name, seen in kinds.items():
        wanted = {"answer pull", "append", "apply", "acknowledge"} if name.startswith("server") else {"pull", "compute", "encode and send", "acknowledged"}
        assert wanted <= seen, f"{name} lacks {wanted - seen}"
    tracks = check_tracks(spans)
    flows, whole = check_flows(events, spans)
    servers = {names[p["pid"]] for points in flows.values() for p in points}
    assert servers == set(names.values()), servers
    leased = [way for way in whole if way.startswith("lease > pull > answer pull > compute > encode and send")]
    assert sum(whole[way] for way in leased) > 10, whole

    with open(report, encoding="utf-8") as f:
        said = json.load(f)
    path = said["critical_path"]
    assert abs(sum(step["ms"] for step in path["steps"]) - path["ms"]) < 1e-3, path
    batch = {k: path[k] for k in ("pass", "unit", "attempt", "batch")}
    assert any(s["name"] == "compute" and batch.items() <= s["args"].items() for s in spans), batch
    assert said["batches"] > 0 and said["spans_lost"] == 0 and said["operations"], said
    assert 0.9 < sum(x["share"] for x in said["time"]) < 1.1, said["time"]
    print(f"{len(spans)} spans on {tracks} tracks, {len(flows)} flows; {said['batches']} batches; {said['findings'][0]}")


main(*sys.argv[1:])
