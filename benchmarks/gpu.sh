#!/usr/bin/env bash
# On a machine with a GPU: what verification costs at real vocabulary sizes, the Monte Carlo audit of all rules in float32
# and bfloat16 with block efficiencies, and the planted faults, in one JSON file, which has the parts that were
# finished whatever happens; then the tests that need a GPU. Under eight minutes: each part is cut off at its limit.
#
#     benchmarks/gpu.sh [FILE]              on the GPU
#     DEVICE=cpu SMALL=1 benchmarks/gpu.sh  the same in small on the CPU, in under two minutes
set -euo pipefail
cd "$(dirname "$0")/.."

device=${DEVICE:-cuda}
file=${1:-benchmarks/gpu-$device.json}
status=0
timeout 320 python benchmarks/gpu.py --device "$device" ${SMALL:+--small} --json "$file" || status=$?
if [ "$device" = cuda ]; then
    timeout 150 python -m pytest -q -m gpu || status=$? # every rule's kernels, and the property suite on real models
fi
exit "$status"
