"""What is told of the program, and the logger that is kept."""

import pytest

import sim


class Silent:
    def debug(self, message):
        """Nothing."""

    info = error = debug

    def warning(self, message, category=None, stacklevel=1):
        """Nothing."""


def test_a_logger_is_kept_where_it_is_one():
    with sim.ScopedLogger(Silent()) as scope:
        assert sim.get_logger() is scope.logger
        with pytest.raises(TypeError, match="a str is no logger; it needs debug"):
            sim.set_logger("log.txt")
    assert sim.get_logger() is None


def test_a_level_holds_in_its_block():
    before = sim.config.log_level
    with sim.ScopedLogLevel(sim.LOG_ERROR):
        assert sim.config.log_level == sim.LOG_ERROR
    assert sim.config.log_level == before


def test_blocks_on_the_cpu():
    @sim.kernel
    def nothing():
        sim.tid()

    assert sim.get_suggested_block_size(nothing, "cpu") == (1, 1)
    with pytest.raises(TypeError, match="takes a kernel, not a int"):
        sim.get_suggested_block_size(3)
