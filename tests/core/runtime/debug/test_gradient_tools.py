"""Tools for people: the first non-finite value, norms of gradients per step, the picture of a tape."""

from __future__ import annotations

import re
import xml.etree.ElementTree

import numpy as np
import pytest
from tools.physics.models import swung_sheet

import sim
from sim.core.runtime.derivatives.autograd import Forward, NonFiniteError, detect_nonfinite, gradient_norms, jvp

f64 = sim.float64


@sim.kernel
def rooted(x: sim.array(dtype=f64), y: sim.array(dtype=f64)):
    i = sim.tid()
    harmless = 1.0 / (f64(i) - f64(i))  # infinite, and not used
    a = sim.sqrt(x[i])
    if i > 100:
        a = harmless
    y[i] = a * 2.0


@sim.kernel
def summed(y: sim.array(dtype=f64), total: sim.array(dtype=f64)):
    sim.atomic_add(total, 0, y[sim.tid()])


def line(text: str) -> int:
    with open(__file__, encoding="utf-8") as file:
        return next(k for k, words in enumerate(file, 1) if text in words)


def test_a_forward_pass():
    x, y = sim.array([1.0, 4.0, -1.0, -2.0], dtype=f64), sim.zeros(4, dtype=f64)
    words = r"launch 2: kernel 'rooted' makes 'y' non-finite at \[2\] in thread 2: 'sqrt' of finite (.|\n)*"
    with pytest.raises(NonFiniteError, match=f"{words}:{line('a = sim.sqrt(x[i])')}:"):
        with detect_nonfinite():
            sim.launch(rooted, 2, [x], [y])
            sim.launch(rooted, 4, [x], [y])
    with pytest.raises(NonFiniteError, match="'y' holds a non-finite value already"):
        with detect_nonfinite():
            sim.launch(summed, 4, [y], [sim.zeros(1, dtype=f64)])
    huge = sim.full(2, 1.5e308, dtype=f64)
    with pytest.raises(NonFiniteError, match="although every value that goes there is finite"), detect_nonfinite():
        sim.launch(summed, 2, [huge], [sim.zeros(1, dtype=f64)])


def test_a_reverse_pass():
    x, y, total = (sim.array(v, dtype=f64, requires_grad=True) for v in ([1.0, 0.0, 4.0], np.zeros(3), [0.0]))
    with pytest.raises(NonFiniteError) as problem, detect_nonfinite():
        with sim.Tape() as tape:
            tape.mark("first half")
            sim.launch(rooted, 3, [x], [y])
            tape.mark("second half")
            sim.launch(summed, 3, [y], [total])
        tape.backward(total)
    text = str(problem.value)
    assert (
        "backward pass, first half, launch of 'rooted'" in text
        and "makes 'adj_x' non-finite at [1] in thread 1" in text
    )
    assert (
        f"'div' of finite numbers is not finite, {__file__}:{line('a = sim.sqrt(x[i])')}:" in text
        and "sim.sqrt(x[i])\n" in text
    )


def test_nothing_is_raised_where_all_is_finite():
    solver = swung_sheet()
    state = solver.model.state()
    with detect_nonfinite():
        with sim.Tape() as tape:
            final = sim.rollout(solver, state, 3, 1 / 300, strategy=sim.Checkpointed(every=2)).final
        tape.backward(grads={final.particle_q: sim.ones(final.particle_q.shape, dtype=sim.vec3d)})
        sim.rollout(solver, state, 3, 1 / 300)
        with pytest.raises(sim.SimError, match="nor inside of itself"), detect_nonfinite():
            pass
        with pytest.raises(sim.GradientError, match="already open"), Forward({}):
            pass


def test_a_step_of_a_rollout_is_named():
    solver = swung_sheet()
    state = solver.model.state()
    velocity = state.particle_qd.numpy().copy()
    velocity[7] = 1e308
    state.particle_qd.assign(velocity)
    for tape in (None, sim.Tape()):
        with (
            pytest.raises(NonFiniteError, match=r"step \d of 40: launch \d+: kernel '\w+' makes '\w+' non-finite"),
            detect_nonfinite(),
        ):
            if tape is None:
                sim.rollout(solver, state, 40, 1 / 300)
            else:
                with tape:
                    sim.rollout(solver, state, 40, 1 / 300)


def test_norms_of_gradients_per_step():
    """Of both strategies the same; the last is the gradient that the loss itself has, the first that of the start."""
    solver = swung_sheet()
    logs = []
    for strategy in (sim.StoreAll(), sim.Checkpointed(every=4)):
        state = solver.model.state()
        with sim.Tape() as tape:
            final = sim.rollout(solver, state, 10, 1 / 300, frame_every=3, strategy=strategy).final
        with gradient_norms() as log:
            tape.backward(grads={final.particle_q: sim.ones(final.particle_q.shape, dtype=sim.vec3d)})
        assert log.places[0] == "step 1 of 10" and len(log.places) == 10
        start = [np.linalg.norm(a.grad.numpy()) for a in (state.particle_q, state.particle_qd)]
        np.testing.assert_allclose([log.norms["particle_q"][0], log.norms["particle_qd"][0]], start, rtol=1e-12)
        assert "particle_qd" in str(log) and (log.norms["particle_q"] > 0).all()
        logs.append(log)
        tape.zero()
    np.testing.assert_array_equal(logs[0].norms["particle_qd"], logs[1].norms["particle_qd"])


def test_forward_mode_through_a_rollout_without_a_tape_is_that_under_one():
    solver = swung_sheet()
    gravity = solver.model["gravity"]

    def final(_: sim.array) -> sim.array:
        return sim.rollout(solver, solver.model.state(), 5, 1 / 300).final.particle_q

    _, (plain,) = jvp(final, [gravity], [[[0.1, 1.0, 0.2]]])
    with sim.Tape():
        _, (taped,) = jvp(final, [gravity], [[[0.1, 1.0, 0.2]]])
    np.testing.assert_array_equal(plain.numpy(), taped.numpy())
    assert np.abs(plain.numpy()).max() > 0


def test_the_picture_of_a_tape(tmp_path):
    x, y, total = (sim.array(v, dtype=f64, requires_grad=True) for v in ([1.0, 2.0, 4.0], np.zeros(3), [0.0]))
    with sim.Tape() as tape:
        tape.mark("first")
        sim.launch(rooted, 3, [x], [y])
        sim.launch(summed, 3, [y], [total])
        y.zero_()
        sim.launch(rooted, 3, [x], [y])
    text = tape.visualize(tmp_path / "tape.dot", array_labels={x: "x", y: 'the "y"'})
    assert (tmp_path / "tape.dot").read_text() == text
    nodes = {number: label for number, label in re.findall(r'(n\d+) \[label="((?:[^"\\]|\\.)*)"', text)}
    edges = {(nodes[a].split("\\n")[0], nodes[b].split("\\n")[0]) for a, b in re.findall(r"(n\d+) -> (n\d+)", text)}
    y_1, y_2, y_3 = (r"the \"y\"" + v for v in ("", " (version 2)", " (version 3)"))
    assert edges == {
        ("x", "rooted"), ("rooted", y_1), (y_1, "summed"), ("array 3", "summed"), ("summed", "array 3 (version 2)"),
        ("fill", y_2), ("rooted", y_3),
    }  # fmt: skip
    assert len(re.findall("->", text)) == 8  # one between each of these, and x to rooted twice
    tape.visualize(tmp_path / "tape.html")
    page = (tmp_path / "tape.html").read_text()
    xml.etree.ElementTree.fromstring(page[page.index("<svg") : page.index("</html>")])
    assert "rooted" in page and "<title>first</title>" in page


def test_the_picture_shows_the_ways_between_arrays(tmp_path):
    """Of x -> y -> total, and z -> y_z -> total of the other kernel: what was asked for is bold, and no more."""
    x, z, y, y_z, total, other = (sim.ones(3, dtype=f64, requires_grad=True) for _ in range(6))
    with sim.Tape() as tape:
        tape.record_scope_begin("all of it")
        sim.launch(rooted, 3, [x], [y])
        sim.launch(rooted, 3, [z], [y_z])
        sim.launch(summed, 3, [y], [total])
        sim.launch(summed, 3, [y_z], [other])
        tape.record_scope_end()

    def bold(**asked):
        labels = {x: "x", z: "z", y: "y", y_z: "y_z"}
        text = tape.visualize(tmp_path / "tape.html", array_labels=labels, **asked)
        assert (tmp_path / "tape.html").read_text().count('stroke-width="3"') == text.count("penwidth=3")
        return re.findall(r'label="([\w ()]+)\\n[^"]*", shape=\w+, penwidth=3', text)

    asked = {"track_inputs": [x], "track_outputs": [total], "track_output_names": ["loss"]}
    assert bold(**asked) == ["x", "rooted", "y", "summed", "loss (version 2)"]
    assert bold(track_outputs=[y_z]) == ["z", "rooted", "y_z"]
    assert bold(track_inputs=[z], track_outputs=[total]) == bold() == []
    shown = tape.visualize(array_labels={x: "x", y: "y"}, hide_readonly_arrays=True, graph_direction="TB")
    assert "rankdir=TB" in shown and 'label="x' not in shown and 'label="y' in shown and "in all of it" in shown
    assert "in all of it" not in tape.visualize(ignore_graph_scopes=True, choose_longest_node_name=False)


@sim.struct
class Pair:
    x: sim.array(dtype=f64)
    scale: float


@sim.struct
class Nested:
    pair: Pair


@sim.kernel
def weigh(n: Nested, out: sim.array(dtype=f64)):
    sim.atomic_add(out, 0, f64(n.pair.scale) * n.pair.x[sim.tid()])


def test_scopes_and_gradients_of_structs():
    nested, out = Nested(), sim.zeros(1, dtype=f64, requires_grad=True)
    nested.pair = Pair(x=sim.array([1.0, 2.0], dtype=f64, requires_grad=True), scale=3.0)
    with sim.Tape() as tape:
        tape.record_scope_begin("outer", {"k": 1})
        tape.record_scope_begin("nothing")
        tape.record_scope_end()
        tape.record_scope_begin("inner")
        for _ in range(4):
            sim.launch(weigh, 2, [nested], [out])
        tape.record_scope_end()
        tape.record_scope_end()
    assert tape.scopes == [(0, "outer", {"k": 1}), (0, "inner", {}), (4, None, None), (4, None, None)]
    with pytest.raises(RuntimeError, match="scope not present"):
        tape.record_scope_end()
    text = tape.visualize(simplify_graph=True)
    assert text.count("weigh") == 1 and "repeated 4x" in text and "in outer / inner" in text
    assert tape.visualize().count("weigh") == 4
    tape.backward(out)
    assert tape.gradients[nested].pair.x.numpy().tolist() == [12.0, 12.0]
    assert tape.gradients[nested.pair].scale == 3.0
    with pytest.raises(KeyError):
        tape.gradients["nested"]
    tape.reset()
    assert tape.scopes == []
