# Every regression of faults_regressions.tsv against real processes.
. tests/claims/lib/common.sh
. tests/claims/lib/regressions.sh
need_programs
need_tests all
export BUILD
regressions tests/claims/lib/faults_regressions.tsv
