#!/usr/bin/env python3
"""Checks the rooms of the house.

    scripts/rooms.py [ROOT]

docs/ARCHITECTURE.md lists the rooms under "## Rooms", lowest first. The rules:
  - an include in quotes names a file from the top of the tree
  - a file includes only files of its own room and of earlier rooms of the table
  - `server` and `worker` never include each other
  - headers do not include each other in a circle
  - a folder has at most 40 .c files
Prints each violation and exits 1; exits 0 if there is none.
"""
import collections
import os
import re
import sys

TOPS = ("common", "proto", "kernels", "overview", "server", "worker", "cli")
PUBLIC = ("common/include/", "worker/include/")  # on the compiler's path: #include "weir/weir.h"
STRANGERS = {frozenset(("server", "worker"))}
FOLDER_SOURCES_MAX = 40
GENERATED = ".pb-c.h"


def read_rooms(root):
    """The rooms of the table, lowest first."""
    with open(os.path.join(root, "docs/ARCHITECTURE.md"), encoding="utf-8") as f:
        section = f.read().split("\n## Rooms\n", 1)
    if len(section) < 2:
        sys.exit("docs/ARCHITECTURE.md has no section '## Rooms'")
    rows = section[1].split("\n## ", 1)[0]
    return [name.rstrip("/") for name in re.findall(r"^\| `([\w/]+)` \|", rows, re.M)]


def sources(root):
    for top in TOPS:
        for folder, _, names in os.walk(os.path.join(root, top)):
            for name in sorted(names):
                if name.endswith((".c", ".h", ".cu")):
                    yield os.path.relpath(os.path.join(folder, name), root)


def includes(root, path):
    with open(os.path.join(root, path), encoding="utf-8") as f:
        return re.findall(r'^#\s*include "([^"]+)"', f.read(), re.M)


def resolve(root, name):
    """The file that an include names, or None."""
    for prefix in ("",) + PUBLIC:
        if os.path.isfile(os.path.join(root, prefix + name)):
            return prefix + name
    return None


def room_of(path, rank):
    folder = os.path.dirname(path)
    while folder and folder not in rank:
        folder = os.path.dirname(folder)
    return folder or None


def check_include(path, target, rank):
    """What is wrong with `path` including `target`, or None."""
    here, there = room_of(path, rank), room_of(target, rank)
    if here is None or there is None:
        return None  # told once, by the file itself
    tops = frozenset((path.split("/")[0], target.split("/")[0]))
    if tops in STRANGERS:
        return f"{path}: includes {target}: server and worker never include each other"
    if rank[there] > rank[here]:
        return f"{path}: includes {target}: room {there} comes after {here}"
    return None


def find_circle(graph):
    """A circle of headers as a list, or None."""
    state = {}  # 1: on the path, 2: done

    def visit(node, trail):
        state[node] = 1
        for other in graph.get(node, ()):
            if state.get(other) == 1:
                return trail[trail.index(other):] + [other]
            if other not in state:
                circle = visit(other, trail + [other])
                if circle:
                    return circle
        state[node] = 2
        return None

    for node in sorted(graph):
        if node not in state:
            circle = visit(node, [node])
            if circle:
                return circle
    return None


def check(root):
    rank = {room: i for i, room in enumerate(read_rooms(root))}
    wrong, graph, count = [], collections.defaultdict(list), collections.Counter()
    for path in sources(root):
        count[os.path.dirname(path)] += path.endswith(".c")
        if room_of(path, rank) is None:
            wrong.append(f"{path}: its folder is not in the table of docs/ARCHITECTURE.md")
        for name in includes(root, path):
            target = resolve(root, name)
            if target is None:
                if not name.endswith(GENERATED):
                    wrong.append(f'{path}: #include "{name}" does not name a file from the top of the tree')
                continue
            if path.endswith(".h"):
                graph[path].append(target)
            wrong.append(check_include(path, target, rank))
    wrong += [f"{folder}: {n} .c files, at most {FOLDER_SOURCES_MAX}" for folder, n in count.items() if n > FOLDER_SOURCES_MAX]
    circle = find_circle(graph)
    if circle:
        wrong.append("headers in a circle: " + " -> ".join(circle))
    return [w for w in wrong if w], sum(count.values()), len(rank)


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
    wrong, files, rooms = check(root)
    for line in wrong:
        print(line)
    print(f"{rooms} rooms, {files} .c files, {len(wrong)} violations")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
