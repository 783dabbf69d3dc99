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
    basic = sim.get_logger()
    assert not isinstance(basic, Silent)
    sim.set_logger(Silent())
    sim.set_logger(None)
    assert type(sim.get_logger()) is type(basic)


def test_the_basic_logger_prints_and_warns(capsys):
    logger = sim.get_logger()
    logger.info("so far")
    logger.error("no further")
    assert capsys.readouterr() == ("so far\n", "no further\n")
    with pytest.warns(UserWarning, match="soon"):
        logger.warning("soon")


@sim.kernel
def nothing(x: sim.array[float]):
    x[sim.tid()] = 0.0


def test_launches_are_told_to_the_logger():
    told = Silent()
    told.told = []
    told.info = told.told.append
    with sim.ScopedLogger(told):
        sim.config.print_launches = True
        try:
            sim.launch(nothing, dim=3, inputs=[sim.zeros(3)])
            sim.launch(nothing, dim=0, inputs=[sim.zeros(3)])  # that nothing runs is worth seeing
        finally:
            sim.config.print_launches = False
    assert sum("nothing" in line for line in told.told) == 2


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
