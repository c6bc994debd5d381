# The needs of a claim beyond Weir's programs. Each is found, or installed once. A claim that lacks
# one is skipped: it exits 77, and its last line gives the reason.
CACHE=${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/weir # outside the repository, shared by all claims

skip() { echo "skipped: $*"; exit 77; }
need_root() { [ "$(id -u)" = 0 ] || skip "needs root, for $*"; }
need_namespaces() { unshare --map-root-user --net --mount true 2> /dev/null || skip "needs a network and mounts of its own, which unshare may not make here"; }
need_data() { # need_data FILE...: files of the test data
	local file
	for file; do [ -r "$WEIR_DATA/$file" ] || skip "there is no $WEIR_DATA/$file: set WEIR_DATA"; done
}
# need_installed SECTION PROGRAM...: programs of that section of packages.txt.
need_installed() {
	local section=$1 program
	shift
	for program; do
		command -v "$program" > /dev/null || { scripts/packages.sh "$section" >&2; break; }
	done
	for program; do
		command -v "$program" > /dev/null || skip "there is no $program: packages.txt names its package in [$section]"
	done
}

# Installs the newest versions of the packages of PYTHON_SET.txt from PyPI. Those of python.txt take
# several GB.
PYTHON_SET=python
make_python() {
	local list=tests/claims/lib/$PYTHON_SET.txt folder=$CACHE/$PYTHON_SET
	mkdir -p "$CACHE"
	(
		flock 9
		cmp -s "$list" "$folder/made" && exit 0
		say "installing Python packages in $folder, once: $(paste -sd' ' "$list")"
		python3 -m venv "$folder" >&2 || { scripts/packages.sh claims >&2 && python3 -m venv "$folder" >&2; } &&
			"$folder/bin/python" -m pip install -q -r "$list" >&2 && cp "$list" "$folder/made"
	) 9> "$folder.lock"
}
# find_python MODULE...: sets PYTHON to an interpreter with these modules: the given one, the
# cache's or python3.
find_python() {
	local modules
	modules=$(IFS=,; echo "$*")
	if [ -z "${PYTHON:-}" ]; then
		PYTHON=python3
		if make_python; then PYTHON=$CACHE/$PYTHON_SET/bin/python; fi
	fi
	"$PYTHON" -c "import $modules" 2> /dev/null
}
need_python() { find_python "$@" || skip "$PYTHON has not all of: $*; set PYTHON to one that has"; }

# need_llm_c: sets LLM_C to a folder with llm.c.
need_llm_c() {
	if [ -z "${LLM_C:-}" ]; then
		LLM_C=$CACHE/llm.c
		[ -e "$LLM_C/train_gpt2.c" ] || GIT_TERMINAL_PROMPT=0 timeout 300 git clone -q --depth 1 https://github.com/karpathy/llm.c "$LLM_C" >&2
	fi
	[ -e "$LLM_C/train_gpt2.c" ] || skip "there is no llm.c: git clone https://github.com/karpathy/llm.c, and set LLM_C to its folder"
}
# Builds the plug-in for Parquet and Arrow, and sets TABLES_PYTHON to an interpreter with its pyarrow.
need_arrow() {
	make -s arrow >&2 || skip "the plug-in for Parquet and Arrow cannot be built here (make arrow)"
	TABLES_PYTHON=build/pyarrow/bin/python
}
