#!/usr/bin/env bash
# Everything that needs a GPU, in one command: tests on the device, then the benchmark.  Well under ten minutes.
#   scripts/gpu_check.sh [python]
set -euo pipefail
cd "$(dirname "$0")/.."
python=${1:-python3}
export PYTHONPATH=$PWD${PYTHONPATH:+:$PYTHONPATH}
$python -m sim.cli info
$python -m pytest -q -rs -m gpu tests/core/runtime/devices/gpus/test_gpu.py
$python -m pytest -q -k "cuda or gpu" tests/core/runtime/tape/programs/test_tape_patterns.py tests/core/runtime/tape/programs/test_tape_fuzz.py tests/core/lang/autodiff/test_undo_stack.py tests/core/runtime/tape/programs/test_tape_links.py tests/core/lang/autodiff/test_kernel_logs.py tests/core/runtime/tape/test_tape_races.py
$python -m pytest -q tests/core/backends/cuda/test_cuda_compile.py
for scene in chain cloth; do
    $python -m sim.cli run "scenes/$scene.yaml" --device cuda --out "$(mktemp -d)/$scene"
done
$python benchmarks/gpu.py
