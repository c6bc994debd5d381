# A claim's machines. Each is a network namespace with its own address. A router joins them, and can
# cut the way from one to another: packets in that direction vanish silently. Call `networks` first:
# the claim continues in a namespace of its own, which is the router and removes everything when it
# ends.
. tests/claims/lib/needs.sh
networks() { # networks SCRIPT: restarts it inside, as root of the namespace
	need_installed claims ip
	[ "${INSIDE:-0}" = 1 ] || { need_namespaces; INSIDE=1 exec unshare --map-root-user --net --mount bash "$1"; }
	mount -t tmpfs none /run
	ip link set lo up
	echo 1 > /proc/sys/net/ipv4/ip_forward
	MACHINES=()
}
add_machine() { # add_machine NAME
	local n=${#MACHINES[@]}
	ip netns add "$1"
	ip link add "to-$1" type veth peer name eth0 netns "$1"
	ip address add "10.7.$n.1/24" dev "to-$1"
	ip link set "to-$1" up
	ip -n "$1" address add "10.7.$n.2/24" dev eth0
	ip -n "$1" link set lo up
	ip -n "$1" link set eth0 up
	ip -n "$1" route add default via "10.7.$n.1"
	MACHINES+=("$1")
}
address_of() { # address_of MACHINE
	local n
	for n in "${!MACHINES[@]}"; do [ "${MACHINES[$n]}" = "$1" ] && echo "10.7.$n.2" && return 0; done
	return 1
}
inside() { echo "nsenter --net=/run/netns/$1"; } # command prefix that runs on that machine
# cut_way FROM TO
cut_way() { ip rule add from "$(address_of "$1")" to "$(address_of "$2")" blackhole; }
heal_ways() { while ip rule delete blackhole 2> /dev/null; do :; done; }
