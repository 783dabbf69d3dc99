"""Jacobians of chosen pairs, of some rows and columns, and their picture."""

import sys

import numpy as np
import pytest
from sim.autograd import gradcheck, gradcheck_tape, jacobian, jacobian_fd, jacobian_plot

import sim


@sim.kernel
def mix(
    a: sim.array(dtype=sim.float64),
    b: sim.array(dtype=sim.float64),
    product: sim.array(dtype=sim.float64),
    square: sim.array(dtype=sim.float64),
):
    i = sim.tid()
    product[i] = a[i] * b[i]
    square[i] = b[i] * b[i]


def arguments():
    a = sim.array([1.0, 2.0, 3.0], dtype=sim.float64, requires_grad=True)
    b = sim.array([4.0, 5.0, 6.0], dtype=sim.float64, requires_grad=True)
    outputs = [sim.zeros(3, dtype=sim.float64, requires_grad=True) for _ in range(2)]
    return {"dim": 3, "inputs": [a, b], "outputs": outputs}


@pytest.mark.parametrize("mask", [[("a", "product"), ("b", "square")], [(0, 0), (1, 1)]])
def test_chosen_pairs(mask):
    exact, close = (f(mix, **arguments(), input_output_mask=mask) for f in (jacobian, jacobian_fd))
    assert set(exact) == set(close) == {(0, 0), (1, 1)}
    np.testing.assert_allclose(exact[0, 0].numpy(), np.diag([4.0, 5.0, 6.0]), rtol=1e-14)
    np.testing.assert_allclose(exact[1, 1].numpy(), np.diag([8.0, 10.0, 12.0]), rtol=1e-14)
    for pair, matrix in close.items():
        np.testing.assert_allclose(matrix.numpy(), exact[pair], atol=1e-7)
    with pytest.raises(sim.GradientError, match="no input 'c' with a gradient.*a, b"):
        jacobian(mix, **arguments(), input_output_mask=[("c", "product")])


def test_some_rows_and_columns():
    whole = jacobian(mix, **arguments(), max_outputs_per_var=0)
    rows = jacobian(mix, **arguments(), max_outputs_per_var=2)
    columns = jacobian_fd(mix, **arguments(), max_inputs_per_var=2)
    for pair, matrix in whole.items():
        assert matrix.shape == rows[pair].shape == columns[pair].shape == (3, 3)
        np.testing.assert_array_equal(rows[pair][:2], matrix[:2])
        np.testing.assert_allclose(columns[pair][:, :2], matrix[:, :2], atol=1e-7)
        assert np.isnan(rows[pair][2:]).all() and np.isnan(columns[pair][:, 2:]).all()


def test_kernels_without_backward_have_no_jacobian_by_reverse_mode():
    @sim.kernel(enable_backward=False)
    def twice(a: sim.array[float], out: sim.array[float]):
        out[sim.tid()] = 2.0 * a[sim.tid()]

    def program(a):
        out = sim.zeros_like(a, requires_grad=True)
        sim.launch(twice, 2, [a], [out])
        return out

    a, out = (sim.ones(2, dtype=float, requires_grad=True) for _ in range(2))
    with pytest.raises(ValueError, match="(?s)compute Jacobians: 'twice' has enable_backward=False.*use jacobian_fd"):
        jacobian(twice, 2, [a], [out])
    with pytest.raises(ValueError, match="'twice' has enable_backward=False"):
        jacobian(program, inputs=[a])
    np.testing.assert_allclose(jacobian_fd(program, inputs=[a])[0, 0], 2.0 * np.eye(2), atol=1e-3)


def test_the_coarser_precision_of_inputs_and_outputs_counts():
    @sim.kernel
    def rounded(a: sim.array[sim.float64], out: sim.array[sim.float32]):
        x = sim.float32(a[sim.tid()])
        out[sim.tid()] = x * x

    a = sim.array([1.5, 2.0], dtype=sim.float64)
    assert gradcheck(rounded, 2, [a], [sim.zeros(2, dtype=float)])


def test_checks_take_the_arguments_of_warps_programs():
    assert gradcheck(mix, **arguments(), max_inputs_per_var=-1, max_outputs_per_var=-1, device="cpu")
    given = arguments()
    with sim.Tape() as tape:
        sim.launch(mix, 3, given["inputs"], given["outputs"])
    assert gradcheck_tape(tape, max_inputs_per_var=-1, reverse_launches=True)
    assert not gradcheck_tape(tape, skip_to_launch_index=1).rows
    assert gradcheck_tape(tape, blacklist_kernels=None, whitelist_kernels=None, input_output_masks={"mix": [(0, 0)]})
    unseen = {"plot_relative_error": False, "plot_absolute_error": False}
    assert gradcheck(mix, **arguments(), **unseen) and gradcheck_tape(tape, **unseen)
    for name in unseen:
        with pytest.raises(sim.NotSupportedError, match="use sim.autograd.jacobian_plot"):
            gradcheck(mix, **arguments(), **{name: True})
        with pytest.raises(sim.NotSupportedError, match="use sim.autograd.jacobian_plot"):
            gradcheck_tape(tape, **{name: True})


def test_a_picture_asks_for_matplotlib(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(sim.SimError, match="pip install matplotlib"):
        jacobian(mix, **arguments(), plot_jacobians=True)


def test_a_picture_has_a_place_for_each_pair():
    pytest.importorskip("matplotlib").use("Agg")
    found = jacobian(mix, **arguments())
    figure = jacobian_plot(found, mix, show_plot=False, show_colorbar=False, log_scale=True)
    assert len(figure.axes) == 4 and figure.get_suptitle() == "Jacobian of mix"


@sim.kernel
def by_components(x: sim.array[sim.vec2], m: sim.array[sim.mat22], out: sim.array[sim.vec2]):
    i = sim.tid()
    out[i] = m[i] @ x[i]


@pytest.mark.parametrize("made", [jacobian, jacobian_fd])
def test_numpy_shows_the_elements_of_the_input(made):
    x = sim.array([[1.0, 2.0], [3.0, 4.0]], dtype=sim.vec2, requires_grad=True)
    m = sim.array(np.arange(8.0).reshape(2, 2, 2), dtype=sim.mat22, requires_grad=True)
    found = made(by_components, 2, [x, m], [sim.zeros(2, dtype=sim.vec2, requires_grad=True)])
    assert found[0, 0].shape == (4, 4) and found[0, 0].numpy().shape == (4, 2, 2)
    assert found[1, 0].shape == (4, 8) and found[1, 0].numpy().shape == (4, 2, 2, 2)
    np.testing.assert_allclose(found[0, 0].numpy()[2:, 1], m.numpy()[1], atol=0.05)
