#!/bin/sh
# Two hosts have the same crontab line. Both start the job at noon, one of them a little late; it
# runs once. Needs no server: without FENCELOCK_URL one starts by itself. In a container set
# FENCELOCK_EMBEDDED=1.
set -eu

fencelock=${FENCELOCK:-fencelock}
lock="example-noon-$$" # a fresh name, so that the example can be run again at once
report=$(mktemp)
trap 'rm -f "$report"' EXIT

# What stands in the crontab of each host:
#   0 12 * * *  fencelock run noon --no-wait --busy-exit 0 --at-least 10m -- noon-job
on_host() {
    $fencelock run "$lock" --no-wait --busy-exit 0 --at-least 3s --label "$1" -- \
        sh -c 'echo "$1 ran the job with fence $FENCELOCK_FENCE"' noon-job "$1" >>"$report"
}

on_host alpha &
on_host beta
wait
on_host gamma # late, and the job was long done: --at-least still keeps it away

cat "$report"
runs=$(wc -l <"$report")
if [ "$runs" -ne 1 ]; then
    echo "the job ran $runs times" >&2
    exit 1
fi
echo "three hosts, one run; free again when the 3 s have passed:"
$fencelock wait "$lock" --wait 10s
$fencelock run "$lock" --no-wait -- echo "the next noon may come"
