"""Problems built from scenes: values, gradients, sharing of rollouts, the search."""

import numpy as np
import pytest
from tools.places import ROOT
from tools.scenes.problems import ROPE, SHEET, sheet, write_scene, write_target

import sim
from sim.identify.assess.gradcheck import check_gradient
from sim.identify.evaluate.evaluator import Evaluator
from sim.identify.report.notes import notes_on
from sim.rollout import Checkpointed, StoreAll


def chain(**options):
    return sim.load_scene(ROOT / "scenes" / "chain.yaml", **options).build(dtype=sim.float64)


def test_chain_is_identified_to_a_ten_thousandth():
    problem = chain()
    result = problem.optimize()
    assert result.parameters["compliance"] == pytest.approx(0.01, rel=1e-4)
    assert all(e.holds(result.parameters["compliance"]) for e in problem.expectations)
    assert problem.model["rope.distance.compliance"].numpy()[0] == result.parameters["compliance"]


@pytest.mark.parametrize("scene", ["chain", "cloth"])
def test_gradients_of_shipped_scenes(scene):
    problem = sim.load_scene(ROOT / "scenes" / f"{scene}.yaml").build(dtype=sim.float64)
    for row in check_gradient(problem):
        assert row.ok, row


def test_the_recording_of_drape_is_what_its_values_give():
    """A sheet that buckles does so another way after any change of the steps, and its twin has to be recorded anew."""
    truth = {"objects.block.body.shapes.box.friction": 0.45, "objects.cloth.cloth.material.bend.compliance": 1.2e4}
    start, true = (
        sim.load_scene(ROOT / "scenes" / "drape.yaml", overrides=values).build(dtype=sim.float64)
        for values in ({}, truth)
    )
    assert true.value(true.start) < 1.02 < start.value(start.start)


def test_value_is_that_of_numpy_alone(tmp_path):
    problem = sheet(tmp_path)
    value, gradient = problem.value_and_grad(problem.start)
    simulation = problem.simulate()["one"]
    target = problem.experiments[0].targets["corners"]
    seen = simulation.positions[:, problem.markers["corners"].points]
    assert value == pytest.approx((((seen - target.positions) / 0.01) ** 2).mean(), rel=1e-12)
    assert value == problem.value(problem.start) == pytest.approx(problem.compare(simulation), rel=1e-12)
    assert gradient.shape == (1,) and gradient[0] != 0


def test_checkpoints_do_not_change_a_bit(tmp_path):
    problem = sheet(tmp_path)
    found = []
    for strategy in (StoreAll(), Checkpointed(every=7), Checkpointed(every=1)):
        problem.strategy = strategy
        value, gradient = problem.value_and_grad(problem.start)
        found.append((value, gradient.tobytes()))
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("duration, every", [("0.2", 5), ("2", 15), ("20", 45)])
def test_states_are_kept_every_few_frames_where_the_scene_says_nothing(tmp_path, duration, every):
    """Whole frames, as many steps as there are segments; of 20, 200 and 2,000 steps, five to a frame."""
    text = SHEET.replace("duration: 0.2", f"duration: {duration}").replace("{match: corners}", REACH)
    assert sheet(tmp_path, text.replace(TARGETS, "")).strategy == Checkpointed(every=every)
    stored = f"{text.replace(TARGETS, '')}  rollout: {{store_all: {{}}}}\n"
    assert sheet(tmp_path, stored).strategy == StoreAll()


def test_float32_is_near_float64(tmp_path):
    values = [sheet(tmp_path, dtype=dtype).value_and_grad(np.array([-3.0])) for dtype in (sim.float32, sim.float64)]
    assert values[0][0] == pytest.approx(values[1][0], rel=1e-3)
    assert values[0][1] == pytest.approx(values[1][1], rel=1e-3)


TARGETS = "experiments:\n  one: {target: {file: target.npz, key: corners, noise: 10 mm}}\n"
REACH = "{reach: {marker: corners, point: [0, 0, 0], scale: 1 mm}}"
STRETCH = "  stretch: {of: objects.sheet.cloth.material.distance.compliance, transform: log, bounds: [1e-4, 10]}"


def parameters(text):
    assert STRETCH in SHEET
    return SHEET.replace(STRETCH, text)


@pytest.mark.parametrize("text", [
    "  p: {of: world.gravity}",
    "  p: {of: objects.sheet.velocity}",
    "  p: {of: objects.sheet.spin}",
    "  p: {of: objects.sheet.position}",
    "  p: {of: objects.sheet.cloth.density, transform: log}",
    "  p: {of: objects.sheet.cloth.material.distance.damping, transform: log}",
    "  p: {of: shapes.ball.sphere.radius, transform: logit, bounds: [0.1, 0.2]}",
    "  p: {of: shapes.ball.sphere.center}",
    "  p: {of: attachments.top.motion.0.swing}",
    "  p: {of: objects.sheet.velocity, per: experiment}",
    "  p: {of: objects.sheet.cloth.density, transform: log}\n"
    "  q: {of: objects.sheet.cloth.material.bend.compliance, transform: log}",
])  # fmt: skip
def test_gradients_reach_everything_that_may_vary(tmp_path, text):
    problem = sheet(tmp_path, parameters(text))
    rows = check_gradient(problem)
    assert len(rows) == len(problem.parameters)
    for row in rows:
        assert row.gradient != 0 and row.ok, row


def test_tied_values_move_together(tmp_path):
    text = parameters(
        "  p: {of: {objects.sheet.cloth.material.distance.compliance: 1, "
        "objects.other.cloth.material.distance.compliance: 0.5}, start: 0.04}"
    )
    text = text.replace(
        "shapes:",
        """  other:
    position: [3, 0, 0]
    cloth:
      grid: {size: [1, 1], cells: [2, 2]}
      density: 0.2
      material: {distance: {compliance: 0.05}}
shapes:""",
    ).replace("markers:", "  fixed: {on: other, where: {y: [0.999, null]}}\nmarkers:")
    problem = sheet(tmp_path, text)
    problem.optimize(1)
    values = [problem.model[f"{name}.distance.compliance"].numpy()[0] for name in ("sheet", "other")]
    assert values[0] == pytest.approx(2 * values[1]) and values[0] != 0.04


def test_experiments_share_a_rollout_unless_they_differ(tmp_path, monkeypatch):
    text = SHEET.replace("loss:", "").replace(
        "experiments:",
        """experiments:
  two: {target: {file: target.npz, key: corners, noise: 20 mm}}
  later: {use: predict, target: {file: target.npz, key: corners}, set: {time.duration: 0.1}}
  heavy: {target: {file: target.npz, key: corners}, set: {world.gravity: [0, -20, 0]}}""",
    )
    text = text.replace("  - {match: corners}", "loss:\n  - {match: corners}")
    problem = sheet(tmp_path, text)
    count = []
    plain = Evaluator.rollout
    monkeypatch.setattr(Evaluator, "rollout", lambda self, schedule: count.append(schedule) or plain(self, schedule))
    evaluation = problem.evaluate(problem.start)
    assert len(count) == 2 and set(evaluation.experiments) == {"one", "two", "heavy"}
    assert evaluation.experiments["one"] == pytest.approx(4 * evaluation.experiments["two"])
    assert evaluation.loss == pytest.approx(np.mean(list(evaluation.experiments.values())))
    moved = problem.simulate()
    assert len(moved["later"].times) == 2 and len(moved["one"].times) == 4
    assert np.array_equal(moved["later"].positions, moved["one"].positions[:2])
    assert moved["heavy"].positions[-1, :, 1].min() < moved["one"].positions[-1, :, 1].min()
    assert problem.model.gravity.numpy()[0].tolist() == [0, -9.81, 0], "an experiment's value stays its own"
    assert check_gradient(problem)[0].ok


def test_terms_are_weighted_and_logged(tmp_path):
    text = SHEET.replace(
        "  - {match: corners}",
        """  - {match: corners, weight: 2}
  - {match: corners, compare: velocity, norm: {huber: 3}, at: [0.1, 0.2]}
  - {reach: {marker: corners, point: [0, 0, 0], scale: 0.1}}
  - {prior: stretch, value: 0.01, factor: 10}""",
    )
    problem = sheet(tmp_path, text)
    evaluation = problem.evaluate(problem.start)
    assert list(evaluation.terms) == ["match_corners", "match_corners_2", "reach_corners", "prior_stretch"]
    assert evaluation.loss == pytest.approx(sum(evaluation.terms.values()))
    assert evaluation.terms["prior_stretch"] == pytest.approx(np.log10(5) ** 2)
    assert check_gradient(problem)[0].ok


def test_search_finds_the_truth_and_logs(tmp_path):
    problem = sheet(tmp_path)
    log = []
    result = problem.optimize(20, log=log.append)
    assert result.parameters["stretch"] == pytest.approx(0.02, rel=1e-4)
    assert result.loss < 1e-6 < log[0]["loss"] and log[0]["parameters"] == {"stretch": pytest.approx(0.05)}
    assert result.loss == min(entry["loss"] for entry in log) and set(log[0]["terms"]) == {"match_corners"}


def test_resumed_search_has_the_same_bits(tmp_path):
    whole = sheet(tmp_path).optimize(3)
    states = []
    first = sheet(tmp_path).optimize(1, save=states.append)
    second = sheet(tmp_path).optimize(3, resume_state=states[-1])
    assert first.loss > second.loss == whole.loss
    assert second.parameters == whole.parameters and second.search.evaluations == whole.search.evaluations


def test_adam_and_plain_objective(tmp_path):
    text = SHEET.replace("lbfgs: {iterations: 4}", "adam: {iterations: 40, rate: 0.2}\n  objective: plain")
    result = sheet(tmp_path, text).optimize()
    assert result.parameters["stretch"] == pytest.approx(0.02, rel=0.05)


def test_several_starts_take_the_best(tmp_path):
    text = SHEET.replace("optimize:", "optimize:\n  starts: 4\n  seed: 1")
    problem = sheet(tmp_path, text)
    losses = [problem.value(x) for x in problem.space.starts(4, 1)]
    log = []
    problem.optimize(1, log=log.append)
    assert log[0]["loss"] <= min(losses) * (1.0 + 1e-6) and len(set(losses)) == 4


def test_parameter_without_influence_is_named(tmp_path):
    text = parameters(
        "  stretch: {of: objects.sheet.cloth.material.distance.compliance, transform: log}\n"
        "  ball: {of: shapes.ball.sphere.radius}"
    ).replace("[0.36, 0.17, 0.01]", "[50, 0, 0]")
    problem = sheet(tmp_path, text)
    found = problem.optimize(0)
    assert [
        note
        for note in notes_on(problem, found, None, [], 0, "run")
        if "does not depend on `ball`: its gradient is zero" in note
    ]


def test_file_with_a_value_per_element(tmp_path):
    rng = np.random.default_rng(0)
    np.save(tmp_path / "values.npy", 0.05 * np.exp(0.3 * rng.normal(size=24)))
    text = parameters("  p: {of: objects.sheet.cloth.material.distance.compliance, per: element, transform: log}")
    text = text.replace("distance: {compliance: 0.05,", "distance: {compliance: {file: values.npy},")
    problem = sheet(tmp_path, text)
    assert problem.start.shape == (24,)
    assert np.allclose(np.exp(problem.start), np.load(tmp_path / "values.npy"))
    assert check_gradient(problem)[0].ok


@pytest.mark.parametrize(("value", "path", "count"), [
    ("distance: {compliance: 0.05,", "distance.compliance", 24),
    ("distance: {compliance: {each: 0.01},", "distance.compliance.each", 24),
    ("distance: {compliance: 0.05,", "distance.damping", 24), ("distance: {compliance: 0.05,", "bend.compliance", 21),
])  # fmt: skip
def test_one_number_is_a_start_for_every_element(tmp_path, value, path, count):
    text = parameters(f"  p: {{of: objects.sheet.cloth.material.{path}, per: element, transform: log}}")
    problem = sheet(tmp_path, text.replace("distance: {compliance: 0.05,", value))
    assert problem.start.shape == (count,) and np.ptp(problem.start) == 0
    gradient = problem.value_and_grad(problem.start)[1]
    assert len(set(gradient.tolist())) > count // 2, "each has a gradient of its own"
    assert check_gradient(problem)[0].ok


def test_what_has_no_elements_cannot_vary_by_element(tmp_path):
    with pytest.raises(sim.SceneError, match="`world.gravity` is one value, with none for each element"):
        sheet(tmp_path, parameters("  p: {of: world.gravity, per: element}"))


def test_compliance_of_each_constraint(tmp_path):
    text = parameters("  p: {of: objects.sheet.cloth.material.distance.compliance.each, transform: log}")
    problem = sheet(tmp_path, text.replace("compliance: 0.05", "compliance: {each: 0.01}"))
    assert np.allclose(problem.model.constraint_sets["distance"].compliance.numpy(), 0.01)
    assert check_gradient(problem)[0].ok


def test_unseen_markers_are_left_out(tmp_path):
    write_target(tmp_path, SHEET)
    with np.load(tmp_path / "target.npz") as file:
        arrays = dict(file)
    arrays["corners"][1:, 2] = np.nan
    np.savez(tmp_path / "target.npz", **arrays)
    problem = sim.load_scene(write_scene(tmp_path, SHEET)).build(dtype=sim.float64)
    assert np.isfinite(problem.value(problem.start))
    assert "3 of 16 marker positions were not seen" in problem.description.notes[0]


def test_scene_without_parameters(tmp_path):
    problem = sim.load_scene(write_scene(tmp_path, ROPE)).build()
    assert problem.parameters == [] and not problem.model.requires_grad
    motion = problem.simulate()["main"]
    assert motion.positions.shape == (4, 4, 3) and np.array_equal(motion.positions[:, 0], np.zeros((4, 3)))
    assert motion.times == pytest.approx([0.05, 0.1, 0.15, 0.2])


def test_values_of_a_scene_reach_the_model(tmp_path):
    text = ROPE.replace(
        "  rope:\n",
        "  rope:\n    position: [0, 2, 0]\n"
        "    rotation: {axis: [0, 0, 1], angle: 90 deg}\n    velocity: [1, 0, 0]\n    scale: 2\n",
    )
    text = text.replace("x: [null, 0]", "y: [null, 2]")
    model = sim.load_scene(write_scene(tmp_path, text)).build(dtype=sim.float64).model
    assert np.allclose(model.particle_q.numpy(), [[0, 2, 0], [0, 2 + 2 / 3, 0], [0, 2 + 4 / 3, 0], [0, 4, 0]])
    assert np.allclose(model.particle_mass.numpy(), 0.025)
    assert np.allclose(model.particle_qd.numpy(), [[0, 0, 0]] + 3 * [[1, 0, 0]])


def test_breakdown_names_the_place(tmp_path):
    problem = sheet(tmp_path, parameters("  v: {of: objects.sheet.velocity}"))
    with pytest.raises(FloatingPointError, match="non-finite in step 1 of 20"):
        problem.value(np.array([0.0, 1e308, 0.0]))
    assert np.isfinite(problem.value(problem.start))


def test_gauss_newton_needs_few_steps(tmp_path):
    text = SHEET.replace("lbfgs: {iterations: 4}", "gauss_newton: {}")
    problem = sheet(tmp_path, text)
    result = problem.optimize()
    assert result.parameters["stretch"] == pytest.approx(0.02, rel=1e-6)
    assert result.search.iterations <= 6 and result.search.evaluations <= 8
    matrix, descent = problem.gauss_newton(problem.start)
    assert descent == pytest.approx(-0.5 * problem.value_and_grad(problem.start)[1], rel=1e-12)
    x = result.search.x
    curvature = (problem.value_and_grad(x + 1e-4)[1] - problem.value_and_grad(x - 1e-4)[1]) / 2e-4
    assert 2 * problem.gauss_newton(x)[0][0] == pytest.approx(curvature, rel=1e-3)  # the residuals vanish there


def test_a_parameter_per_experiment_starts_at_what_the_experiment_sets(tmp_path):
    text = (
        parameters("  p: {of: {objects.sheet.velocity: 2}, per: experiment}")
        .replace("loss:", "")
        .replace(
            "experiments:",
            """experiments:
  thrown: {target: {file: target.npz, key: corners}, set: {objects.sheet.velocity: [0, 0, 3]}}""",
        )
    )
    problem = sheet(tmp_path, text.replace("  - {match: corners}", "loss:\n  - {match: corners}"))
    assert np.flatnonzero(problem.start).tolist() == [2], "experiments in the order of the file: thrown, one"
    _, slow = problem.value_and_grad(problem.start)
    assert slow[2] != slow[5], "each has a gradient of its own"
    moved = problem.simulate()
    ahead = moved["thrown"].positions[0, :, 2] - moved["one"].positions[0, :, 2]
    assert ahead.max() == pytest.approx(3.0 * problem.experiments[0].schedule.dt * 5, rel=0.2), (
        "3 m/s for the five steps of a frame"
    )
