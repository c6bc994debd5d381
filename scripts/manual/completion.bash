
# _weir_reply CURRENT KIND WORDS...: what begins with CURRENT of WORDS, and of the files of KIND.
_weir_reply() {
	local current=$1 kind=${2:-none} matches=()
	shift 2
	[ $# = 0 ] || mapfile -t matches < <(compgen -W "$*" -- "$current")
	COMPREPLY=("${matches[@]}")
	case $kind in
	yaml) mapfile -t matches < <(for one in '!*.yaml' '!*.yml'; do compgen -f -X "$one" -- "$current"; done; compgen -d -- "$current") ;;
	folders) mapfile -t matches < <(compgen -d -- "$current") ;;
	files) mapfile -t matches < <(compgen -f -- "$current") ;;
	*) return ;;
	esac
	COMPREPLY+=("${matches[@]}")
	[ ${#matches[@]} = 0 ] || compopt -o filenames 2>/dev/null
	return 0
}

_weir() {
	local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} page=${COMP_WORDS[0]##*/} value
	COMPREPLY=()
	if [ "$page" = weir ]; then
		if [ "$COMP_CWORD" = 1 ]; then
			_weir_reply "$current" none $_weir_verbs help version --help --version
			return
		fi
		if [ "${COMP_WORDS[1]}" = help ]; then
			[ "$COMP_CWORD" != 2 ] || _weir_reply "$current" none $_weir_verbs
			return
		fi
		page=weir-${COMP_WORDS[1]}
	fi
	# bash splits --name=value at the "=".
	if [ "$current" = = ]; then
		current=
	elif [ "$before" = = ]; then
		before=${COMP_WORDS[COMP_CWORD - 2]}
	fi
	value=$(_weir_value "$page" "$before")
	if [ -n "$value" ]; then
		_weir_reply "$current" $value
	elif [[ $current == -* ]]; then
		_weir_reply "$current" none $(_weir_options "$page")
	else
		_weir_reply "$current" $(_weir_words "$page")
	fi
}

complete -F _weir weir weir-server weir-worker
