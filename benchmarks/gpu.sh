#!/usr/bin/env bash
# On a machine with a GPU: what verification costs at real vocabulary sizes, the Monte Carlo audit of all rules in float32
# and bfloat16 with block efficiencies, and the planted faults, in one JSON file, which has the parts that were
# finished whatever happens; then the tests that need a GPU. Under thirteen minutes.
#
#     benchmarks/gpu.sh [FILE]              on the GPU
#     DEVICE=cpu SMALL=1 benchmarks/gpu.sh  the same in small on the CPU, in under two minutes
set -euo pipefail
cd "$(dirname "$0")/.."

device=${DEVICE:-cuda}
file=${1:-benchmarks/gpu-$device.json}
timeout 460 python benchmarks/gpu.py --device "$device" ${SMALL:+--small} --json "$file"
if [ "$device" = cuda ]; then
    timeout 300 python -m pytest -q -m gpu # every rule's kernels, and the property suite on real models
fi
