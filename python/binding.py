"""Makes weir/_binding.py, cffi's description of libweir's public headers.

usage: binding.py COMPILER OUT INCLUDE_FOLDER...

The compiler preprocesses weir/weir.h. Declarations of system headers and inline functions are left
out. Integer macros of the public headers become constants. The result is a Python file without
compiled code, so one wheel serves every Python version.
"""

import os
import re
import subprocess
import sys

import cffi

HEADER = "weir/weir.h"
# What a compiler knows and cffi's parser does not.
WITHOUT_EXTENSIONS = ["-D__attribute__(x)=", "-D__extension__=", "-D__restrict="]
LINE_MARKER = re.compile(r'^# \d+ "([^"]*)"')
INLINE_FUNCTION = re.compile(r"static inline [^{};]*\)\s*\{.*?\n\}", re.DOTALL)
INTEGER_MACRO = re.compile(
    r"^#define (WEIR_[A-Z0-9_]+)\s+(\d+|0x[0-9a-fA-F]+)[uU]?\s*$", re.MULTILINE
)


def preprocess(compiler, folders, *options):
    includes = [f"-I{folder}" for folder in folders]
    command = [compiler, "-E", *options, *WITHOUT_EXTENSIONS, *includes, "-x", "c", "-"]
    source = f"#include <{HEADER}>\n"
    return subprocess.run(command, input=source, capture_output=True, text=True, check=True).stdout


def of_folders(text, folders):
    """The lines that come from files in these folders."""
    kept, ours = [], False
    for line in text.splitlines():
        marker = LINE_MARKER.match(line)
        if marker:
            ours = any(marker.group(1).startswith(folder) for folder in folders)
        elif ours:
            kept.append(line)
    return "\n".join(kept)


def declarations(compiler, folders):
    types = INLINE_FUNCTION.sub("", of_folders(preprocess(compiler, folders), folders))
    macros = INTEGER_MACRO.findall(of_folders(preprocess(compiler, folders, "-dD"), folders))
    return types + "\n" + "\n".join(f"#define {name} {value}" for name, value in macros)


def main():
    compiler, out, *folders = sys.argv[1:]
    builder = cffi.FFI()
    builder.set_source("weir._binding", None)
    builder.cdef(declarations(compiler, folders))
    builder.emit_python_code(out)
    os.utime(out)  # cffi leaves an equal file as it is, and CMake looks at its time


if __name__ == "__main__":
    main()
