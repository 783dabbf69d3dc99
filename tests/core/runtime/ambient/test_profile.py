"""Where time goes: every launch is counted, also those of replayed graphs; timers; the size of the kernel cache."""

import json

import numpy as np
import pytest
from tools.constraints.samples import SEED

import sim
from sim.cli import main


@sim.kernel
def scale(x: sim.array[sim.vec3], a: float):
    i = sim.tid()
    x[i] = a * x[i]


@sim.kernel
def total(x: sim.array[sim.vec3], out: sim.array[sim.vec3]):
    sim.atomic_add(out, 0, x[sim.tid()])


def test_a_profile_counts_launches_and_bytes():
    n = 1000
    x = sim.array(np.random.default_rng(SEED).normal(size=(n, 3)), dtype=sim.vec3)
    out = sim.zeros(1, dtype=sim.vec3)
    command = sim.launch(scale, n, [x, 0.5], record_cmd=True)
    with sim.capture() as graph:
        sim.launch(scale, n, [x, 2.0])
        sim.launch(total, n, [x], [out])
        x.zero_()
    with sim.profile() as found:
        sim.launch(scale, n, [x, 3.0])
        command.launch()
        for _ in range(4):
            graph.replay()
    sim.launch(scale, n, [x, 3.0])  # not seen
    rows = {row["kernel"]: row for row in found.rows()}
    assert {name: row["calls"] for name, row in rows.items()} == {"scale": 6, "total": 4, "copies and fills": 4}
    assert rows["scale"]["bytes"] == 6 * n * 24 and rows["total"]["bytes"] == 4 * n * 36
    assert sum(row["share"] for row in rows.values()) == pytest.approx(1.0)
    assert 0 < found.seconds < found.wall
    assert list(rows) == sorted(rows, key=lambda name: -rows[name]["seconds"])
    text = str(found)
    assert "scale" in text and "GB/s" in text and text.count("\n") == 4


def test_a_profiled_rollout_has_the_same_bits():
    def run(profiled: bool) -> tuple[np.ndarray, sim.Profile | None]:
        builder = sim.ModelBuilder()
        builder.add_cloth_grid(
            dim_x=8,
            dim_y=8,
            cell_x=0.1,
            cell_y=0.1,
            density=0.2,
            fix_top=True,
            label="sheet",
            material={"distance": {"compliance": 0.01}},
        )
        solver = sim.SolverXPBD(builder.finalize())
        if not profiled:
            return sim.rollout(solver, solver.model.state(), 20, 0.01).particle_q.numpy(), None
        with sim.profile() as found:
            result = sim.rollout(solver, solver.model.state(), 20, 0.01).particle_q.numpy()
        return result, found

    (plain, _), (seen, found) = run(False), run(True)
    np.testing.assert_array_equal(seen, plain)
    assert found.kernels["predict"].calls == found.kernels["finish"].calls == 20


def test_a_timer(capsys):
    times: dict[str, list[float]] = {}
    for active in (True, False):
        with sim.ScopedTimer("block", active=active, dict=times) as timer:
            sum(range(1000))
        assert (timer.elapsed > 0) == active
    assert len(times["block"]) == 1
    assert capsys.readouterr().out.startswith("block took ")


def test_the_kernel_cache_is_shown_and_cleared(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("SIM_CACHE_DIR", str(tmp_path / "kernels"))

    @sim.kernel
    def own(x: sim.array[float]):
        x[sim.tid()] = 4.0

    sim.launch(own, 3, [sim.zeros(3)])
    assert main(["--json", "info", "--cache"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["kernels"] >= 1 and shown["bytes"] > 500
    assert main(["--json", "info", "--clear-cache"]) == 0
    assert json.loads(capsys.readouterr().out)["deleted"] == shown["kernels"]
    assert main(["--json", "info", "--cache"]) == 0
    assert json.loads(capsys.readouterr().out)["kernels"] == 0
