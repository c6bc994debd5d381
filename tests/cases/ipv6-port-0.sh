# `cluster.listen: '[::1]:0'` is any free port of the IPv6 loopback, and the job trains over it.
. "$(dirname "$0")/../integration/lib.sh"
grep -qi '^0*1 01' /proc/net/if_inet6 2> /dev/null || { echo "skipped: no IPv6 loopback" && exit 77; }

write_job 1 "listen: '[::1]:0'"
start_train
finish_train 60
[ $STATUS = 0 ] || fail "exit status $STATUS"
grep -q 'serving address=\[::1\]:[1-9][0-9]*' "$RUN/server-0.log" || fail "server 0 is not at a port of [::1]"
audited

# A given port works for two servers. A port in use is reported.
start_train --fresh --set "cluster.listen='[::1]:$(free_ports 2)'"
finish_train 60
[ $STATUS = 0 ] || fail "exit status $STATUS with a port"
start_train --fresh --set "cluster.listen=[::2]:0" --set security.insecure=true
finish_train 60
[ $STATUS = 1 ] || fail "exit status $STATUS with an address of nobody"
told "cannot bind" "'[::2]'" "$DIR/train.err"
nothing_left
echo "trained over [::1], at any free port and at a given one"
