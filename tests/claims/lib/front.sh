# The front door of an issue's claims. front.sh FRONT NUMBER runs the check of that line. front.sh
# FRONT --list prints "NUMBER<TAB>TITLE" of each line. It reads them from the columns after "#   "
# in the comment at the top of FRONT.
set -eu
cd "$(dirname "$0")/../../.."
issue=${1##*/}
header() { sed -n '2,/^[^#]/s/^# \{0,1\}//p' "tests/claims/$issue"; }
list() { header | grep -E '^  +[0-9]' | sed -E 's/^ +//; s/ {3,}([0-9])/\n\1/g' | sed -E 's/ +$//; s/^([0-9]+) /\1\t/' | sort -n; }
check=tests/claims/lib/${issue}_${2:-}.sh
case ${2:-} in
--list) list ;;
[0-9] | [0-9][0-9])
	list | grep -q "^$2"$'\t' || { echo "tests/claims/$issue has no line $2" >&2; exit 2; }
	[ -e "$check" ] || { echo "there is no check of line $2 yet: it is not shown" >&2; exit 1; }
	exec bash "$check"
	;;
*)
	header >&2
	exit 2
	;;
esac
