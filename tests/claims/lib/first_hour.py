"""A new user's first hour with Weir, at a terminal: clone, build, own data with mistakes, Ctrl-C,
resume, predict, export.

first_hour.py [--keep] [--quick]: every step must end with its exit status and print what
docs/FIRST-HOUR.md shows, apart from figures. --keep writes that page anew, for review. --quick uses
the programs of BUILD instead of building the clone.
"""
import os, pty, re, select, shutil, signal, struct, subprocess, sys, tempfile, termios, time
import fcntl

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "../../.."))
BUILD = os.environ.get("BUILD", os.path.join(ROOT, "build"))
PAGE = os.path.join(ROOT, "docs/FIRST-HOUR.md")
COLUMNS, STEP_S = 100, 1800
HEAD = """# A first hour

This page shows each step of a new user as a terminal showed it. Of lines that are redrawn in place,
it shows the last. `tests/claims/numbers 5` takes these steps on a machine. It fails if a step ends
in another way or says something else; figures may differ.
`python3 tests/claims/lib/first_hour.py --keep` writes this page anew.
"""

JOB = """job: mine
data:
  format: libsvm
  trian: mine.svm
  batch: sixteen
model: {kind: deepfn, dim: 4, hidden: [16]}
train: {passes: 400}
"""


class Step:
    """words: the reason for the step; status: its exit status; until: Ctrl-C once the screen shows
    it."""

    def __init__(self, words, command, status=0, until=None):
        self.words, self.command, self.status, self.until = words, command, status, until


STEPS = [
    Step("Get Weir and build it. This takes about ten minutes.", "git clone --quiet %s weir && cd weir && make" % ROOT),
    Step("Use your own data. Each line is a row: a label and the ids of its features. Three lines are wrong.", "head -n 3 mine.svm && wc -l < mine.svm"),
    Step("Write a job file in a hurry.", "cat mine.yaml"),
    Step("Check it. Weir reports all mistakes at once.", "build/weir check mine.yaml", 1),
    Step("Correct the mistakes and check again.",
         "sed -i 's/trian/train/; s/sixteen/16/; s/deepfn/deepfm/' mine.yaml && build/weir check mine.yaml"),
    Step("Ask what training would do.", "build/weir train --dry-run mine.yaml"),
    Step("Train, and stop with Ctrl-C. By default Weir keeps nothing of it. The last line says what keeps it.",
         "build/weir train mine.yaml", 130, r"pass [3-9]/400|pass [0-9]{2,3}/400"),
    Step("Do the same with a log on disk.", "build/weir train mine.yaml --set cluster.log=disk", 130, r"pass [3-9]/400|pass [0-9]{2,3}/400"),
    Step("Start again. Weir does not overwrite the first run.", "build/weir train mine.yaml --set cluster.log=disk", 1),
    Step("Go on with the run, with fewer passes.", "build/weir train --resume mine.yaml --set cluster.log=disk --set train.passes=60"),
    Step("List the runs.", "build/weir runs"),
    Step("Write a score for each row.", "build/weir predict mine.yaml --out scores.txt && wc -l < scores.txt"),
    Step("Score other rows.", "head -n 100 mine.svm > other.svm && build/weir predict mine.yaml --set data.test=other.svm --out other.txt"),
    Step("Write scores into a pipe. Messages go to stderr.", "build/weir predict mine.yaml --set data.test=mine.svm --out - | wc -l"),
    Step("Measure how good the scores are.", "build/weir eval mine.yaml --set data.test=mine.svm"),
    Step("Export the weights for other programs.", "build/weir export mine.yaml --out mine.safetensors && ls mine.safetensors"),
    Step("Show a verb's options.", "build/weir help runs"),
    Step("Mistype a verb.", "build/weir exprot mine.yaml", 2),
    Step("Delete the run.", "build/weir runs --delete mine && build/weir runs"),
]


def make_data(path):
    """A click if the first id is above its middle, except every seventh row; three lines are
    invalid."""
    with open(path, "w") as out:
        state = 1
        for i in range(1200):
            state = (state * 1103515245 + 12345) % 2**31
            a, b = state // 7 % 20, state // 1003 % 30
            label = int((a > 9) != (i % 7 == 0))
            out.write({100: "1 5:x 31:1\n", 400: "click 3:1 31:1\n", 800: "1 3 31\n"}.get(i, "%d %d:1 %d:1\n" % (label, a + 1, b + 31)))


class Screen:
    """The final screen: lines that are redrawn in place count once."""

    def __init__(self):
        self.lines, self.line, self.returned = [], "", False

    def feed(self, text):
        for c in text:
            if c == "\n":
                self.lines.append(self.line)
                self.line, self.returned = "", False
            elif c == "\r":
                self.returned = True
            else:
                if self.returned:
                    self.line, self.returned = "", False
                self.line += c

    def text(self):
        lines = self.lines + ([self.line] if self.line else [])
        return [re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", l).rstrip() for l in lines]


def run(step, folder, environment):
    """Returns (exit status, lines)."""
    pid, fd = pty.fork()
    if pid == 0:
        os.chdir(folder)
        os.execvpe("bash", ["bash", "-o", "pipefail", "-c", step.command], environment)
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 40, COLUMNS, 0, 0))
    screen, seen, ends, interrupted = Screen(), "", time.time() + STEP_S, False
    while time.time() < ends:
        if not select.select([fd], [], [], 1)[0]:
            continue
        try:
            data = os.read(fd, 65536)
        except OSError:
            break
        if not data:
            break
        text = data.decode(errors="replace")
        screen.feed(text)
        seen = (seen + text)[-4000:]
        if step.until and not interrupted and re.search(step.until, seen):
            os.write(fd, b"\x03")
            interrupted = True
    else:
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    os.close(fd)
    code = os.waitstatus_to_exitcode(status)
    return (code if code >= 0 else 128 - code), screen.text()


def tidy(lines, folder):
    """Removes the build output, places and times."""
    out = []
    for l in lines:
        l = l.replace("^C", "").replace(folder, "~").replace(ROOT, "https://.../weir")
        l = re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME", re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d(:\d\d)?", "DATE TIME", l))
        if not re.match(r"\[\d+/\d+\] ", l) and not l.startswith("ninja: "):
            out.append(l)
    return out


def shape(lines):
    """Keeps the words. Progress and the limits of memory and disk depend on the machine."""
    out = []
    for l in lines:
        if re.match(r"(\[[#.]+\] )?(pass \d|waiting for workers|(ok|note) +(disk|cluster.memory_budget):)", l) or not l.strip():
            continue
        l = re.sub(r"-?\d+(\.\d+)?(e[-+]\d+)?", "#", l)
        l = re.sub(r"# [kMGT]?(B\b|samples)", r"# \1", l)
        l = re.sub(r"#( h #)? (min|s) left", "# left", l)
        out.append(re.sub(r"\s+", " ", re.sub(r"[#:.Z-]{2,}", "#", l)).strip())
    return out


def kept_steps(text):
    """[(command, lines)] of the page."""
    out = []
    for block in re.findall(r"^    \$ (.*(?:\n    .*)*)", text, re.M):
        lines = block.split("\n")
        out.append((lines[0], [l[4:] for l in lines[1:]]))
    return out


def main():
    keep, quick = "--keep" in sys.argv, "--quick" in sys.argv
    work = tempfile.mkdtemp(prefix="weir-hour-", dir="/tmp")
    clone = os.path.join(work, "weir")
    environment = {**os.environ, "HOME": work, "TERM": "xterm", "LC_ALL": "C.UTF-8", "JOBS": os.environ.get("JOBS", "2")}
    for name in ("BUILD", "MAKEFLAGS", "QUICK"):
        environment.pop(name, None)
    page, wrong, took = HEAD, [], []
    kept = kept_steps(open(PAGE).read()) if os.path.exists(PAGE) else []
    try:
        for i, step in enumerate(STEPS):
            began = time.time()
            if i == 0 and quick:
                subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True)
                os.mkdir(os.path.join(clone, "build"))
                for name in os.listdir(BUILD):
                    if name in ("weir", "weir-server", "weir-worker") or name.endswith(".so"):
                        os.symlink(os.path.join(BUILD, name), os.path.join(clone, "build", name))
                status, lines = 0, []
            else:
                status, lines = run(step, clone if i else work, environment)
            if i == 0:
                make_data(os.path.join(clone, "mine.svm"))
                open(os.path.join(clone, "mine.yaml"), "w").write(JOB)
            lines = tidy(lines, work)
            command = step.command.replace(ROOT, "https://.../weir")
            page += "\n%s\n\n    $ %s\n%s" % (step.words, command, "".join(("    " + l).rstrip() + "\n" for l in lines if l.strip()))
            if status:
                page += "\nExit status %d.\n" % status
            took.append(time.time() - began)
            print("%-90s %3d  %.1f s" % (command[:90], status, took[-1]), file=sys.stderr)
            if status != step.status:
                wrong.append("%s ended with %d, not %d: %s" % (command, status, step.status, lines[-1] if lines else ""))
            elif not keep and (i >= len(kept) or kept[i][0] != command or shape(kept[i][1]) != shape(lines)):
                wrong.append("%s says something else than docs/FIRST-HOUR.md keeps:\n  now  %s\n  kept %s" %
                             (command, shape(lines), shape(kept[i][1]) if i < len(kept) else None))
        if keep:
            open(PAGE, "w").write(page)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    for w in wrong:
        print(w, file=sys.stderr)
    print("%s: %d steps in %.0f s, %d not as kept" % ("DOES NOT HOLD" if wrong else "holds", len(STEPS), sum(took), len(wrong)))
    return 1 if wrong else 0


sys.exit(main())
