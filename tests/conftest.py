"""Every test session compiles into a cache of its own, so that tests neither trust nor touch the user's."""

import os
import tempfile

_cache = tempfile.TemporaryDirectory(prefix="simopt-test-cache-")
os.environ["SIM_CACHE_DIR"] = _cache.name
