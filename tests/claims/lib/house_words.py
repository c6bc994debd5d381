#!/usr/bin/env python3
"""house_words.py ROOT: comments over 100 columns in production code, and the words of
tests/claims/house_words.txt in production code's names, and in comments, messages and pages. Prints
FILE:LINE: what."""
import os
import re
import subprocess
import sys

COLUMNS_MAX = 100
TAB = 4
PRODUCTION = ("common/", "proto/", "kernels/", "overview/", "server/", "worker/", "cli/")
PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "docs/")
HISTORY = "docs/benchmarks/"
TOKEN = re.compile(
    r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|//[^\n]*|/\*.*?\*/|\w+|.', re.S)


def read_words(root):
    """(regular expression, word to use) of names, of functions and of prose."""
    words = {"name": [], "function": [], "prose": []}
    with open(os.path.join(root, "tests/claims/house_words.txt"), encoding="utf-8") as f:
        for line in f:
            if line.startswith("#") or not line.strip():
                continue
            kind, rest = line.split(None, 1)
            pattern, use = re.split(r"\s{2,}", rest.strip(), maxsplit=1)
            whole = r"\b(?:%s)\b" if kind == "prose" else r"\A(?:%s)\Z"
            words[kind].append((re.compile(whole % pattern, re.I if kind == "prose" else 0), use))
    return words


def look(words, text):
    for pattern, use in words:
        found = pattern.search(text)
        if found:
            yield f"'{found.group(0)}': say {use}"


def of_code(words, text, names):
    """(line, what) in a C file: in its comments and, with `names`, its names and messages."""
    line = 1
    tokens = TOKEN.findall(text)
    for token, following in zip(tokens, tokens[1:] + [""]):
        if len(token) > 1 and token[0] in ('"/\'' if names else "/"):
            for i, piece in enumerate(token.split("\n")):
                for what in look(words["prose"], piece):
                    yield line + i, what
        elif names and (token[0].isalpha() or token[0] == "_"):
            for kind in ("name", "function") if following == "(" else ("name",):
                for what in look(words[kind], token):
                    yield line, what
        line += token.count("\n")


def too_wide(text):
    """(line, what) of comments with their own lines."""
    inside = False
    for number, line in enumerate(text.split("\n"), 1):
        opens = re.match(r"\s*(/\*|//)", line)
        if (inside or opens) and len(line.expandtabs(TAB)) > COLUMNS_MAX:
            yield number, f"a comment of {len(line.expandtabs(TAB))} columns"
        if opens and not line.lstrip().startswith("//"):
            inside = True
        if inside and "*/" in line:
            inside = False


def check(root, path, words):
    with open(os.path.join(root, path), encoding="utf-8", errors="replace") as f:
        text = f.read()
    production = path.startswith(PRODUCTION)
    if production:
        for what in look(words["name"], os.path.splitext(os.path.basename(path))[0]):
            yield 1, what
        if path.endswith((".c", ".h", ".cu")):
            yield from too_wide(text)
    if path.endswith((".c", ".h", ".cu")):
        yield from of_code(words, text, production)
    elif path.endswith(".md") and not path.startswith(HISTORY):
        for number, line in enumerate(text.split("\n"), 1):
            for what in look(words["prose"], line):
                yield number, what


def main(root):
    words = read_words(root)
    paths = subprocess.run(["git", "-C", root, "ls-files"], check=True, capture_output=True, text=True).stdout.split("\n")
    bad = 0
    for path in paths:
        if path.startswith(PRODUCTION + ("tests/",)) or path.startswith(PAGES):
            if "/cmocka/" in path or not os.path.isfile(os.path.join(root, path)):
                continue
            for line, what in check(root, path, words):
                print(f"{path}:{line}: {what}")
                bad = 1
    return bad


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
