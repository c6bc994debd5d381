#!/bin/sh
# manual.sh PROGRAMS OUT VERSION: makes man pages and shell completion from the help texts of the
# programs in the folder PROGRAMS, so that they name the options that the programs take.
#   OUT/rows.tsv       the help texts as rows (scripts/manual/read.awk)
#   OUT/man/*.1        weir(1), weir-VERB(1) for each verb, weir-server(1), weir-worker(1)
#   OUT/bash/weir      completion for bash, of all three programs
#   OUT/zsh/_weir      the same for zsh
set -eu
[ $# = 3 ] || { echo "usage: manual.sh PROGRAMS OUT VERSION" >&2; exit 2; }
programs=$1 out=$2 version=$3
here=$(dirname "$0")/manual

rm -rf "$out/man" "$out/bash" "$out/zsh"
mkdir -p "$out/man" "$out/bash" "$out/zsh"

# rows PAGE COMMAND...: the help text that COMMAND prints, as rows.
rows() {
	page=$1
	shift
	"$@" >"$out/help.txt" || { echo "manual: '$*' fails" >&2; exit 1; }
	awk -f "$here/read.awk" -v page="$page" "$out/help.txt"
}

{
	rows weir "$programs/weir" help
	for verb in $("$programs/weir" help | awk '/^  weir [a-z]+ / && $2 != "help" {print $2}'); do
		rows "weir-$verb" "$programs/weir" help "$verb"
	done
	rows weir-server "$programs/weir-server" --help
	rows weir-worker "$programs/weir-worker" --help
} >"$out/rows.tsv"
rm "$out/help.txt"

for page in $(cut -f 1 "$out/rows.tsv" | uniq); do
	awk -f "$here/man.awk" -v page="$page" -v version="$version" "$out/rows.tsv" >"$out/man/$page.1"
done
{
	awk -f "$here/values.awk" -f "$here/bash.awk" "$out/rows.tsv"
	cat "$here/completion.bash"
} >"$out/bash/weir"
awk -f "$here/values.awk" -f "$here/zsh.awk" "$out/rows.tsv" >"$out/zsh/_weir"
