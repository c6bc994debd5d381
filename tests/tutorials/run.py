#!/usr/bin/env python3
"""Takes the steps of a tutorial: every command ends well, and prints what the page shows.

    run.py PAGE BUILD FOLDER

A command is an indented line that begins with "$ ", and the lines behind it that begin with "> ".
The lines below it are of its output: each is printed by the command, whatever its figures are,
after the one above. "..." says that lines are left out. Commands run in FOLDER, where build/ and examples/
are those of BUILD and of the repository. Prints the commands; exits 1 at the first that differs.
"""
import os
import re
import subprocess
import sys

INDENT = "    "
STEP_S = 900


def steps(page):
    """The commands of a page, each with its shown lines."""
    found = []
    inside = False
    for line in page.splitlines():
        text = line[len(INDENT):] if line.startswith(INDENT) else None
        if text is None:
            inside = inside and not line.strip()  # an empty line may be part of the output
        elif text.startswith("$ "):
            found.append((text[2:], []))
            inside = True
        elif (text == ">" or text.startswith("> ")) and inside and not found[-1][1]:
            found[-1] = (found[-1][0] + "\n" + text[2:], [])
        elif inside:
            found[-1][1].append(text)
    return found


def words(line):
    """A line without figures and spacing."""
    return re.sub(r"\s+", " ", re.sub(r"[-+]?\d[\d.,]*(e[-+]?\d+)?", "N", line)).strip()


def check(command, shown, printed):
    """Raises if a shown line is not printed in its place."""
    at = 0
    for line in shown:
        if line.strip() == "...":
            continue
        while at < len(printed) and words(printed[at]) != words(line):
            at += 1
        if at == len(printed):
            sys.exit(f"$ {command}\nis not printed: {line}\nbut:\n" + "\n".join(printed[-40:]))
        at += 1


def main():
    page, build, folder = sys.argv[1:]
    root = os.path.abspath(os.path.join(os.path.dirname(__file__), "../.."))
    for name, target in (("build", os.path.abspath(build)), ("examples", os.path.join(root, "examples"))):
        os.symlink(target, os.path.join(folder, name))
    with open(page, encoding="utf-8") as f:
        found = steps(f.read())
    if not found:
        sys.exit(f"{page} has no command")
    for command, shown in found:
        done = subprocess.run(["bash", "-e", "-o", "pipefail", "-c", command], cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=STEP_S)
        printed = done.stdout.splitlines()
        if done.returncode != 0:
            sys.exit(f"$ {command}\nends with status {done.returncode}:\n" + "\n".join(printed[-40:]))
        check(command, shown, printed)
        print(f"$ {command.splitlines()[0]}")
    print(f"{len(found)} steps of {os.path.basename(page)}")


if __name__ == "__main__":
    main()
