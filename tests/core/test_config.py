"""`sim.config`: what it changes, and what it refuses."""

import tomllib
from pathlib import Path

import numpy as np
import pytest
import sim.config as by_import

import sim
from sim.core.backends import cache


@sim.kernel
def root(a: sim.array(dtype=float), at: int):
    i = sim.tid()
    a[i + at] = sim.sqrt(a[i + at])


@pytest.fixture(autouse=True)
def restored():
    before = {name: getattr(sim.config, name) for name in dir(sim.config)}
    yield
    for name, value in before.items():
        setattr(sim.config, name, value)


def test_it_is_one_object_under_all_names():
    assert by_import is sim.config is sim.core.config
    project = tomllib.loads((Path(sim.__file__).parents[1] / "pyproject.toml").read_text())
    assert sim.config.version == sim.__version__ == sim.core.__version__ == project["project"]["version"]


def test_debug_mode_checks_indices():
    a = sim.ones(4)
    sim.config.mode = "debug"
    with pytest.raises(sim.KernelFault, match="outside"):
        sim.launch(root, 1, [a, 4])
    sim.config.mode = "release"
    sim.launch(root, 4, [a, 0])


def test_verify_fp_says_where_a_nan_comes_from():
    a = sim.array([1.0, -1.0])
    sim.config.verify_fp = True
    with pytest.raises(sim.autograd.NonFiniteError, match="sqrt"):
        sim.launch(root, 2, [a, 0])
    sim.config.verify_fp = False
    a.assign([1.0, -1.0])
    sim.launch(root, 2, [a, 0])
    assert np.isnan(a.numpy()[1])


def test_launches_are_printed(capsys):
    a = sim.ones(2)
    sim.config.print_launches = True
    sim.config.verify_cuda = True
    sim.launch(root, 2, [a, 0])
    sim.config.print_launches = False
    sim.launch(root, 2, [a, 0])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1 and lines[0].startswith("kernel: root")


def test_where_kernels_are_kept(tmp_path):
    sim.config.kernel_cache_dir = str(tmp_path)
    cache.save("key", b"content")
    assert cache.load("key") == b"content" and list(tmp_path.iterdir())
    sim.config.cache_kernels = False
    cache.save("other", b"content")
    assert cache.load("key") is None and len(list(tmp_path.iterdir())) == 1


def test_what_is_not_a_setting_is_refused():
    with pytest.raises(AttributeError, match="no setting 'print_launch'.*print_launches"):
        sim.config.print_launch = True
    with pytest.raises(ValueError, match="config.mode = 'fast'; expected 'release' or 'debug'"):
        sim.config.mode = "fast"
    sim.config.quiet = True
    sim.config.log_level = sim.LOG_WARNING
    assert sim.config.quiet and sim.config.log_level == 30
