"""The driver layer on cuda-python's real bindings, with a driver of ours under them (fake_libcuda.cpp).

That driver does what it was told only when somebody waits, knows other streams by events only, and reads host memory
late: types, order and waits are tested, as far as that goes without a GPU.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tools.cuda.on_cpu import GXX, needs_gxx
from tools.places import ROOT

TOOLS = ROOT / "tests" / "tools" / "cuda"
HAVE_BINDINGS = importlib.util.find_spec("cuda") is not None and importlib.util.find_spec("cuda.bindings") is not None
pytestmark = [
    needs_gxx,
    pytest.mark.skipif(
        not HAVE_BINDINGS, reason="cuda-bindings are not installed ('.[dev]' brings them on Linux and Windows)"
    ),
    pytest.mark.skipif(sys.platform != "linux", reason="the library that plays the driver is made for Linux"),
]  # fmt: skip


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("libcuda")
    made = folder / "libcuda.so.1"
    subprocess.run(
        [str(GXX), "-std=c++17", "-O1", "-fPIC", "-shared", "-o", str(made), str(TOOLS / "fake_libcuda.cpp"), "-ldl"],
        check=True,
    )
    return folder


def play(library: Path, *command: str, gpus: int = 1, refusals: int = 0) -> str:
    """What a program says that runs on the fake GPU; refusals: calls that the driver has to refuse."""
    paths = [str(library), os.environ.get("LD_LIBRARY_PATH", "")]
    environment = {
        **os.environ, "LD_LIBRARY_PATH": os.pathsep.join(filter(None, paths)), "FAKE_GPUS": str(gpus),
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")]),
        "SIM_CHECK_BOUNDS": "0",  # launches that check wait for what they find, which a capture by hand forbids
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-m", "tools.cuda.on_fake_gpu", *command],
        capture_output=True,
        text=True,
        env=environment,
        cwd=ROOT,
    )
    assert done.returncode == 0 and done.stderr.count("fake driver:") == refusals, (
        done.stdout[-3000:] + done.stderr[-3000:]
    )
    return done.stdout


def test_the_rules_of_the_driver(library: Path) -> None:
    assert "all is well" in play(library, str(TOOLS / "fake_gpu_session.py"), gpus=2, refusals=1)


def test_what_runs_where_there_is_a_gpu_runs_here(library: Path) -> None:
    """Rollouts, graphs and worlds of test_gpu.py: a typo in it would be found on the day when there is a GPU."""
    said = play(
        library,
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-m",
        "gpu",
        "tests/core/runtime/devices/gpus/test_gpu.py",
        "-k",
        "jacobi or deterministic",
    )
    assert "2 passed" in said, said


def test_the_benchmark(library: Path) -> None:
    said = play(library, "benchmarks/gpu.py", "--cells", "8", "--megabytes", "2", "--launches", "200")
    assert said.count("% of the bandwidth limit") == 3 and "times forward" in said and "us per node" in said
