# The rooms keep their order (scripts/rooms.py): no include of a later room, no cycle, no folder of
# production code with more than 40 .c files. A planted violation of each rule is found.
. tests/claims/lib/common.sh
scripts/rooms.py "$ROOT" > "$WORK/rooms" || { cat "$WORK/rooms" >&2; verdict 0 "$(tail -n 1 "$WORK/rooms")"; }
sh tests/rooms/rooms.sh "$ROOT" > "$WORK/planted" || { cat "$WORK/planted" >&2; verdict 0 "a planted violation is not found"; }
sed 1d "$WORK/planted"
most=$(git ls-files 'common/*.c' 'proto/*.c' 'kernels/*.c' 'overview/*.c' 'server/*.c' 'worker/*.c' 'cli/*.c' | xargs -n 1 dirname | sort | uniq -c | sort -rn | head -n 1)
read -r count folder <<< "$most"
planted=$(sed 1d "$WORK/planted" | grep -c .)
verdict "$count <= 40 and $planted == 5" "$(tail -n 1 "$WORK/rooms"); $planted planted ones found; at most $count .c files in a folder ($folder)"
