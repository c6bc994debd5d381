# A cluster (replicas.sh) whose servers' disks fail on command. Each server runs with
# tests/crash/bad_disk.c preloaded, which applies the faults in $WORK/bad-server-I to files with
# /server-I/$BAD_UNDER in their path.
bad_disk() { echo "env LD_PRELOAD=$BUILD/tests/libweir_bad_disk.so WEIR_BAD_WHEN=$WORK/bad-$1 WEIR_BAD_PATH=/$1/${BAD_UNDER:-}"; }
inside() { case $1 in server-*) bad_disk "$1" ;; esac; }
. tests/claims/lib/replicas.sh
need_tests weir_bad_disk
