"""Writes the reference of docs/PYTHON.md from the package's docstrings.

usage: reference.py [--check]

Reads the sources without importing them. --check changes nothing, and fails if the page differs.
"""

import ast
import inspect
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCES = os.path.join(HERE, "src", "weir")
PAGE = os.path.join(HERE, "..", "docs", "PYTHON.md")
MARK = "<!-- From here on, python/reference.py writes the page from docstrings. -->\n"
MODULES = [
    ("Servers and connections", ["servers", "connection"]),
    ("A job", ["job", "status"]),
    ("Tables", ["table", "specs", "scan", "rows"]),
    ("Work", ["work", "tickets"]),
    ("Data", ["columns"]),
    (
        "weir.torch",
        [f"torch/{n}" for n in ("embedding", "keys", "optimizer", "data", "diloco", "evaluator")],
    ),
    ("weir.transformers", ["transformers"]),
    ("weir.sweep and weir.optuna", ["sweep", "optuna"]),
    ("Errors", ["errors"]),
]


PARAMETER = re.compile(r"^[a-z_]+(, [a-z_]+)*: ")


def text_of(node):
    """The docstring. Lines that explain a parameter become a list."""
    out, listed = [], False
    for line in inspect.cleandoc(ast.get_docstring(node) or "").splitlines():
        names = PARAMETER.match(line)
        if names:
            if not listed and out and out[-1]:
                out.append("")
            listed = True
            line = f"* `{names.group()[:-2]}`: {line[names.end() :]}"
        elif listed and line and not line.startswith(("Returns", "Raises")):
            line = "  " + line
        elif listed:
            listed = False
            if line:
                out.append("")
        out.append(line)
    return "\n".join(out)


def signature(node, method):
    arguments = ast.unparse(node.args)
    if method:
        arguments = arguments.split(", ", 1)[1] if ", " in arguments else ""
    returns = f" -> {ast.unparse(node.returns).strip(chr(39) + chr(34))}" if node.returns else ""
    return f"{node.name}({arguments}){returns}"


def is_property(node):
    return any(getattr(d, "id", "") == "property" for d in node.decorator_list)


def of_function(node, method=False, owner=""):
    if method and is_property(node):
        name = f"{owner}.{node.name}"
        return [f"* **`{name}`**" + (f": {text_of(node)}" if ast.get_docstring(node) else ""), ""]
    head = ast.unparse(ast.parse(f"def {signature(node, method)}: pass").body[0])[
        4 : -len(":\n    pass")
    ]
    out = [f"#### `{owner + '.' if owner else ''}{node.name}`", "", "```python", head, "```", ""]
    return out + [text_of(node), ""]


def of_class(node):
    out = [f"### `{node.name}`", "", text_of(node), ""]
    fields = [
        n for n in node.body if isinstance(n, ast.AnnAssign) and not n.target.id.startswith("_")
    ]
    if fields and node.name != "Error":
        out += ["```python", *(ast.unparse(f) for f in fields), "```", ""]
    methods = [
        n for n in node.body if isinstance(n, ast.FunctionDef) and not n.name.startswith("_")
    ]
    documented = [m for m in methods if ast.get_docstring(m) or is_property(m)]
    for m in sorted(documented, key=lambda m: not is_property(m)):
        out += of_function(m, True, node.name)
    return out


def of_errors(tree):
    out = ["| exception | also a | when |", "|---|---|---|"]
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            others = ", ".join(ast.unparse(b) for b in node.bases[1:])
            out.append(f"| `{node.name}` | {others} | {' '.join(text_of(node).split())} |")
    return [*out, ""]


def of_module(name):
    with open(os.path.join(SOURCES, name + ".py"), encoding="utf-8") as f:
        tree = ast.parse(f.read())
    if name == "errors":
        return of_errors(tree)
    public = next(
        ast.literal_eval(n.value)
        for n in tree.body
        if isinstance(n, ast.Assign) and n.targets[0].id == "__all__"
    )
    nodes = [n for n in tree.body if getattr(n, "name", None) in public]
    functions = [line for n in nodes if isinstance(n, ast.FunctionDef) for line in of_function(n)]
    return functions + [line for n in nodes if isinstance(n, ast.ClassDef) for line in of_class(n)]


def reference():
    out = ["# Reference", ""]
    for title, modules in MODULES:
        out += [f"## {title}", ""]
        for name in modules:
            out += of_module(name)
    return "\n".join(out).rstrip() + "\n"


def main():
    with open(PAGE, encoding="utf-8") as f:
        before = f.read()
    after = before[: before.index(MARK) + len(MARK)] + "\n" + reference()
    if "--check" in sys.argv:
        if before != after:
            sys.exit("docs/PYTHON.md differs from the docstrings: run python/reference.py")
        return
    with open(PAGE, "w", encoding="utf-8") as f:
        f.write(after)


if __name__ == "__main__":
    main()
