#!/usr/bin/env bash
# completion.sh PREFIX SOURCE: bash's completions of partial command lines, and that both shells can
# read their files.
set -u
prefix=$1
share=$prefix/share
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "completion: $*" >&2; exit 1; }

for program in weir weir-server weir-worker; do
	bash -n "$share/bash-completion/completions/$program" || fail "bash cannot read the completion of $program"
done
# shellcheck disable=SC1091
. "$share/bash-completion/completions/weir"
complete -p weir weir-server weir-worker > "$work/defined" || fail "nothing is defined for a program: $(cat "$work/defined")"

cd "$work" || exit 1
mkdir folder
touch job.yaml 'job of mine.yaml' other.yml notes.txt model.safetensors

offers() { # offers WORD...: completions of the last word, one per line
	COMP_WORDS=("$@")
	COMP_CWORD=$(($# - 1))
	COMPREPLY=()
	_weir
	printf '%s\n' "${COMPREPLY[@]}" | sort
}
expect() { # expect "A|B" WORD...: exactly A and B are offered
	local want=$1 got
	shift
	got=$(offers "$@" | paste -s -d '|')
	[ "$got" = "$want" ] || fail "'$*' is offered '$got', not '$want'"
}
expect train weir tr
expect 'rebalance|restore|rewind' weir re
expect export weir help exp
expect --resume weir train --res
expect --listen weir-server --li
expect '--log-format|--log-level' weir-worker --log
expect 'folder|job of mine.yaml|job.yaml|other.yml' weir train ''
expect 'job of mine.yaml|job.yaml' weir train --job j
expect 'job of mine.yaml|job.yaml' weir train --job = j
expect notes.txt weir predict --out no
expect hf weir export --format h
expect 'BF16|F16|F32' weir export --type ''
expect 'debug|error|info|warn' weir-server --log-level ''
expect 'evaluator|trainer' weir-worker --role ''
expect folder weir certs init --dir ''
expect init weir certs ini
expect verify weir checkpoint ver
expect '' weir train --chaos ''
expect '' weir no-such-verb --

# Every verb, and every option that its help text has.
verbs=$("$prefix/bin/weir" help | sed -n 's/^  weir \([a-z]*\) .*/\1/p' | grep -v -x help)
options=0
for verb in $verbs; do
	offers weir "$verb" | grep -qx "$verb" || fail "weir $verb is not offered"
	for option in $("$prefix/bin/weir" help "$verb" | sed -n 's/^  \(--[a-z-]*\).*/\1/p'); do
		offers weir "$verb" "$option" | grep -qx -e "$option" || fail "weir $verb $option is not offered"
		options=$((options + 1))
	done
done
if command -v zsh > /dev/null; then
	zsh -n "$share/zsh/site-functions/_weir" || fail "zsh cannot read its completion"
	zsh="zsh can read its file"
else
	zsh="zsh is not here"
fi
echo "$(wc -w <<< "$verbs") verbs, $options options; $zsh"
