#!/usr/bin/env python3
"""Validates job files by the schema that `weir schema` prints.

    validate.py SCHEMA FILE...           each file is a valid job
    validate.py SCHEMA --refuse < CASES  each line "KEY VALUE" makes the job `job: x` invalid

Files are read as YAML 1.2, as editors read them: `off` is a text there. Prints what is wrong and
exits 1; exits 77 where Python lacks jsonschema or PyYAML.
"""
import json
import re
import sys

try:
    import jsonschema
    import yaml
except ImportError as e:
    print(f"skipped: {e}")
    sys.exit(77)


class Loader(yaml.SafeLoader):
    """YAML 1.2's core schema."""


Loader.yaml_implicit_resolvers = {}
for tag, pattern, first in (("bool", r"^(?:true|True|TRUE|false|False|FALSE)$", "tTfF"), ("null", r"^(?:~|null|Null|NULL|)$", ["~", "n", "N", ""]),
                            ("int", r"^[-+]?[0-9]+$", "-+0123456789"),
                            ("float", r"^[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$", "-+.0123456789")):
    Loader.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(pattern), list(first))
Loader.add_constructor("tag:yaml.org,2002:float", lambda loader, node: float(node.value))


def load(text):
    return yaml.load(text, Loader)


def refuse(validator):
    good = 0
    for line in sys.stdin:
        key, value = line.rstrip("\n").split(" ", 1)
        job = {"job": "x"}
        at = job
        *maps, last = key.split(".")
        for name in maps:
            at = at.setdefault(name, {})
        at[last] = load(value)
        if validator.is_valid(job):
            print(f"valid by the schema: {line}")
            sys.exit(1)
        good += 1
    print(f"{good} mistakes are refused")


def main():
    with open(sys.argv[1], encoding="utf-8") as f:
        schema = json.load(f)
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    if sys.argv[2] == "--refuse":
        refuse(validator)
        return
    for path in sys.argv[2:]:
        with open(path, encoding="utf-8") as f:
            errors = list(validator.iter_errors(load(f.read())))
        for error in errors:
            print(f"{path}: {'.'.join(map(str, error.absolute_path))}: {error.message}")
        if errors:
            sys.exit(1)
    print(f"{len(sys.argv) - 2} job files are valid")


if __name__ == "__main__":
    main()
