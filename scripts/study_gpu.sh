#!/usr/bin/env bash
# Runs what is missing of a study for some minutes, and leaves one small archive to go on from.
#
#     scripts/study_gpu.sh STUDY MINUTES DATA_DIR BACK [OPTION OF hpfl reproduce...]
#
# BACK/STUDY.tar.gz is unpacked first where it is there, and written last: finished runs and tables alone, a few MB. A
# run that the time cuts off is begun anew next time. Without options: ten runs side by side, of `whole-cost` on CIFAR-10.
set -u
if [ "$#" -lt 4 ]; then
    sed -n '2,7s/^# \{0,1\}//p' "$0"
    exit 2
fi
study=$1 minutes=$2 data=$3 back=$4
shift 4
if [ "$#" -eq 0 ]; then
    set -- --workers 10
    [ "$study" != whole-cost ] || set -- --only cifar10 "$@"
fi
out=$(mktemp -d)
mkdir -p "$back"
if [ -f "$back/$study.tar.gz" ]; then
    tar -xzf "$back/$study.tar.gz" -C "$out"
fi
command -v nvidia-cuda-mps-control > /dev/null && nvidia-cuda-mps-control -d
timeout -s INT -k 30 "$((minutes * 60))" hpfl reproduce "$study" --data-dir "$data" --out "$out" "$@"
rm -rf "$out/unfinished"
tar -czf "$back/$study.new" -C "$out" --exclude=.lock . && mv "$back/$study.new" "$back/$study.tar.gz"
ls -l "$back/$study.tar.gz"
rm -rf "$out"
