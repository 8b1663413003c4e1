#!/usr/bin/env bash
# Runs what is missing of the study `whole-cost` for some minutes, and leaves one small archive to go on from.
#
#     scripts/whole_cost_gpu.sh MINUTES DATA_DIR BACK [OPTION OF hpfl reproduce...]
#
# BACK/whole-cost.tar.gz is unpacked first where it is there, and written last: finished runs and tables alone, a few
# MB. A run that the time cuts off is begun anew next time. Without options: CIFAR-10, ten runs side by side.
set -u
if [ "$#" -lt 3 ]; then
    sed -n '2,8s/^# \{0,1\}//p' "$0"
    exit 2
fi
minutes=$1 data=$2 back=$3
shift 3
[ "$#" -gt 0 ] || set -- --only cifar10 --workers 10
out=$(mktemp -d)
mkdir -p "$back"
if [ -f "$back/whole-cost.tar.gz" ]; then
    tar -xzf "$back/whole-cost.tar.gz" -C "$out"
fi
command -v nvidia-cuda-mps-control > /dev/null && nvidia-cuda-mps-control -d
timeout -s INT "$((minutes * 60))" hpfl reproduce whole-cost --data-dir "$data" --out "$out" "$@"
rm -rf "$out/unfinished"
tar -czf "$back/whole-cost.new" -C "$out" --exclude=.lock . && mv "$back/whole-cost.new" "$back/whole-cost.tar.gz"
ls -l "$back/whole-cost.tar.gz"
rm -rf "$out"
