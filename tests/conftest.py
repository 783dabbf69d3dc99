"""Every test session compiles into a cache of its own, so that tests neither trust nor touch the user's.  Its workers
share it: what one has compiled, the other need not.

SIM_TEST_CACHE names a folder that is kept instead, for whoever runs the same tests many times while other code changes.
SIM_TEST_GUARD=1 gives them memory that finds what reads behind arrays (`tools/memory/guard.py`).
Tests marked `gpu` are skipped where there is no GPU, with what is missing as the reason.
"""

import gc
import os
import tempfile

import pytest
from tools.memory.guard import guard

from sim.core.runtime.devices.cuda_device import cuda_devices, cuda_missing

_cache = tempfile.TemporaryDirectory(prefix="simopt-test-cache-")
if "PYTEST_XDIST_WORKER" not in os.environ:
    os.environ["SIM_CACHE_DIR"] = os.environ.get("SIM_TEST_CACHE", _cache.name)

if os.environ.get("SIM_TEST_GUARD"):
    guard()


@pytest.fixture(autouse=True, scope="module")
def _what_stays_is_not_searched_for_garbage():
    """Kernels and records of thousands of tests stay in a worker: each search through them takes seconds."""
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(items):
    marked = [item for item in items if item.get_closest_marker("gpu")]
    if marked and not cuda_devices():
        for item in marked:
            item.add_marker(pytest.mark.skip(reason=f"no GPU: {cuda_missing()}"))
