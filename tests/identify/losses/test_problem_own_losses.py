"""Losses that a scene names: neighbours that should be alike, and functions of the user's own."""

import sys
import types

import numpy as np
import pytest
from tools.scenes.problems import SHEET, sheet, write_scene, write_target

import sim
from sim.cli import main
from sim.identify.assess.estimate import estimate
from sim.identify.assess.gradcheck import check_gradient
from sim.identify.losses.terms import Custom
from sim.rollout import Checkpointed

STRETCH = "  stretch: {of: objects.sheet.cloth.material.distance.compliance, transform: log, bounds: [1e-4, 10]}"
PATH = "objects.sheet.cloth.material.distance.compliance"
MATCH = "  - {match: corners}"


def smooth(per, sd="0.2", more=""):
    text = SHEET.replace(STRETCH, f"  p: {{of: {PATH}, per: {per}, transform: log}}").replace(
        MATCH, f"{MATCH}\n  - {{smooth: p, sd: {sd}{more}}}"
    )
    regions = "    regions: {a: {x: [null, 0.3]}, b: {x: [0.3, 0.6]}, c: {x: [0.6, null]}}\n    cloth:"
    return text.replace("    cloth:", regions, 1).replace(
        "compliance: 0.05,", "compliance: {regions: {a: 0.01, b: 0.02, c: 0.05}},"
    )


def test_elements_like_their_neighbours(tmp_path):
    problem = sheet(tmp_path, smooth("element", more=", weight: 3"))
    edges = problem.model.groups["sheet"].elements["distance"]
    pairs = [(i, j) for j in range(24) for i in range(j) if set(edges[i]) & set(edges[j])]
    found = problem.evaluate(problem.start)
    v = problem.start
    assert found.terms["smooth_p"] == pytest.approx(3 * np.mean([((v[i] - v[j]) / 0.2) ** 2 for i, j in pairs]))
    assert found.loss == pytest.approx(sum(found.terms.values())) == pytest.approx(problem.value(problem.start))
    assert check_gradient(problem)[0].ok
    residuals = problem.residuals(problem.start, problem.simulate())
    assert sum(part.loss for part in residuals) == pytest.approx(found.loss)


def test_regions_like_their_neighbours(tmp_path):
    problem = sheet(tmp_path, smooth("region"))
    a, b, c = problem.start
    assert problem.parameters == ["p.a", "p.b", "p.c"]
    assert problem.evaluate(problem.start).terms["smooth_p"] == pytest.approx(
        (((a - b) / 0.2) ** 2 + ((b - c) / 0.2) ** 2) / 2
    ), "a and c do not meet"
    assert all(row.ok for row in check_gradient(problem))
    stiff = sheet(tmp_path, smooth("region", sd="1e-4")).optimize(15).parameters
    assert max(stiff.values()) / min(stiff.values()) == pytest.approx(1, abs=1e-3), (
        "one value for all, if nothing else is allowed"
    )


def test_tied_regions_are_told_apart_by_name(tmp_path):
    text = smooth("region").replace(f"of: {PATH}", f"of: [{PATH}, objects.other.cloth.material.distance.compliance]")
    body = text[text.index("  sheet:\n") : text.index("shapes:")]
    other = body.replace("  sheet:\n", "  other:\n    position: [0, 0, 3]\n").replace(
        "{a: {x: [null, 0.3]}, b: {x: [0.3, 0.6]}, c: {x: [0.6, null]}}",
        "{b: {x: [0.3, 0.6]}, c: {x: [0.6, null]}, a: {x: [null, 0.3]}}",
    )
    assert other.index("c: {x") < other.index("a: {x")
    problem, alone = sheet(tmp_path, text.replace("shapes:", other + "shapes:", 1)), sheet(tmp_path, smooth("region"))
    terms = [one.evaluate(one.start).terms["smooth_p"] for one in (problem, alone)]
    assert terms[0] == terms[1]


def test_prior_of_a_parameter_with_regions(tmp_path):
    problem = sheet(
        tmp_path, smooth("region").replace("{smooth: p, sd: 0.2}", "{prior: p, value: 0.02, factor: 2, weight: 3}")
    )
    terms = problem.evaluate(problem.start).terms
    assert [terms[f"prior_p.{region}"] for region in "abc"] == pytest.approx([1.0, 0.0, np.log2(2.5) ** 2])
    assert all(row.ok for row in check_gradient(problem))


def problem_with(text, folder):
    with pytest.raises(sim.SceneError) as caught:
        sim.load_scene(write_scene(folder, text)).build()
    assert len(caught.value.problems) == 1 and caught.value.problems[0].hint
    return caught.value.problems[0]


def test_smooth_terms_that_cannot_be(tmp_path):
    write_target(tmp_path, SHEET)
    with pytest.raises(sim.SceneError, match="`1 mm` is a length, expected a number"):
        sim.load_scene(write_scene(tmp_path, smooth("element", sd="1 mm")))
    loose = "  loose: {particles: {positions: [[3, 0, 0], [4, 0, 0]], mass: 1}}\nshapes:"
    text = (
        smooth("element")
        .replace("shapes:", loose)
        .replace(f"of: {PATH}, per: element", "of: objects.loose.particles.mass, per: point")
    )
    found = problem_with(text, tmp_path)
    assert found.path == "loss.1.smooth" and "has a neighbour" in found.what


# ------------------------------------------------------------------------------------------------ functions of the
# user's own
@sim.kernel
def lowest(q: sim.array2d[sim.vec3d], frame: int, loss: sim.array[sim.float64]):
    total = sim.float64(0.0)
    for i in range(q.shape[1]):
        total += q[frame, i][1] * q[frame, i][1] + 0.1 * q[frame, i][2]
    loss[0] = total


def low(take):
    loss = sim.zeros(1, sim.float64, requires_grad=True)
    sim.launch(lowest, 1, [take.positions, take.positions.shape[0] - 1], [loss])
    return loss


def through_numpy(take):
    return sim.array([float((take.positions.numpy()[-1, :, 1] ** 2).sum())], dtype=sim.float64, requires_grad=True)


def half(take):
    loss = low(take)
    loss.assign(loss.numpy() + (take.positions.numpy() ** 2).sum())
    return loss


@sim.kernel
def distances(q: sim.array2d[sim.vec3d], loss: sim.array[sim.float64]):
    for k in range(q.shape[0]):
        for i in range(q.shape[1]):
            loss[0] += sim.length(q[k, i]) + sim.abs(q[k, i][2]) + sim.max(q[k, i][1] - 0.5, sim.float64(0.0))


def bent(take):
    loss = sim.zeros(1, sim.float64, requires_grad=True)
    sim.launch(distances, 1, [take.positions], [loss])
    return loss


@sim.kernel
def scaled(q: sim.array2d[sim.vec3d], factor: sim.float64, loss: sim.array[sim.float64]):
    for i in range(q.shape[1]):
        loss[0] += factor * q[0, i][1]


def with_a_factor_from_numpy(take):
    loss = sim.zeros(1, sim.float64, requires_grad=True)
    sim.launch(scaled, 1, [take.positions, 1.0 + 0.1 * float(take.positions.numpy()[0, :, 0].mean())], [loss])
    return loss


def text_of(take):
    return "0.5"


def two(take):
    return sim.zeros(2, sim.float64, requires_grad=True)


def no_gradient(take):
    return sim.zeros(1, sim.float64)


def fails(take):
    return take.experiment.targets["nobody"]


OWN = types.ModuleType("own_losses")
for function in (low, bent, through_numpy, with_a_factor_from_numpy, half, text_of, two, no_gradient, fails):
    setattr(OWN, function.__name__, function)


def own(name):
    return SHEET.replace(MATCH, f"{MATCH}\n  - {{custom: own_losses:{name}, weight: 2}}")


def build(folder, text, modules=(OWN,)):
    write_target(folder, SHEET)
    return sim.load_scene(write_scene(folder, text), modules=modules).build(dtype=sim.float64)


def test_loss_of_the_users_own(tmp_path):
    problem = build(tmp_path, own("low"))
    last = problem.simulate()["one"].positions[-1]
    found = problem.evaluate(problem.start)
    assert found.terms["custom_low"] == pytest.approx(2 * (last[:, 1] ** 2 + 0.1 * last[:, 2]).sum(), rel=1e-12)
    assert found.loss == pytest.approx(sum(found.terms.values())) == pytest.approx(problem.value(problem.start))
    assert all(row.ok for row in check_gradient(problem))
    assert problem.compare(problem.simulate()["one"]) == pytest.approx(found.loss)
    problem.strategy = Checkpointed(every=7)
    assert problem.evaluate(problem.start).gradient.tobytes() == found.gradient.tobytes()
    assert "is a loss without residuals" in estimate(problem, problem.start, problem.simulate())
    assert "custom_bent" in [term.name for term in build(tmp_path, own("bent")).terms], "kinks are no detour"
    alone = build(tmp_path, own("low").replace(f"{MATCH}\n", ""))
    row = check_gradient(alone)[0]
    assert row.ok and row.gradient != 0


@pytest.mark.parametrize(("name", "message"), [
    ("through_numpy", "gradient of `own_losses:through_numpy` by the positions is wrong: .* the tape gives 0"),
    ("with_a_factor_from_numpy", "by the positions is wrong"),
    ("half", "by the positions is wrong|fails for the experiment `one`"),
    ("text_of", "returns str, not an array"), ("two", "returns float64 of shape .2,., not one float64"),
    ("no_gradient", "returns an array without a gradient"),
    ("fails", "fails for the experiment `one`: KeyError: 'nobody'"),
    ("lo", "has no function `lo`.*did you mean `low`"),
])  # fmt: skip
def test_own_losses_that_cannot_be_used(tmp_path, name, message):
    with pytest.raises(sim.SceneError, match=f"(?s){message}") as caught:
        build(tmp_path, own(name))
    assert len(caught.value.problems) == 1
    assert caught.value.problems[0].path == "loss.1.custom" and caught.value.problems[0].hint


def test_gauss_newton_needs_residuals(tmp_path):
    with pytest.raises(sim.SceneError, match="Gauss-Newton needs residuals"):
        build(tmp_path, own("low").replace("lbfgs: {iterations: 4}", "gauss_newton: {}"))
    with pytest.raises(sim.SimError, match="is a loss without residuals"):
        problem = build(tmp_path, own("low"))
        next(term for term in problem.terms if isinstance(term, Custom)).prepare(
            problem.model, {}, problem.experiments[0]
        ).residuals(np.zeros(0))


def test_no_code_runs_unless_it_was_imported_on_purpose(tmp_path, monkeypatch, capsys):
    write_target(tmp_path, SHEET)
    (tmp_path / "my_own_losses.py").write_text("""import sim

@sim.kernel
def lowest(q: sim.array2d[sim.vec3d], loss: sim.array[sim.float64]):
    for i in range(q.shape[1]):
        loss[0] += q[0, i][1]

def low(take):
    loss = sim.zeros(1, sim.float64, requires_grad=True)
    sim.launch(lowest, 1, [take.positions], [loss])
    return loss
""")
    path = write_scene(tmp_path, SHEET.replace(MATCH, f"{MATCH}\n  - {{custom: my_own_losses:low}}"))
    monkeypatch.chdir(tmp_path)
    assert main(["gradcheck", str(path)]) == 2
    assert "`my_own_losses` is not imported, and a scene imports nothing by itself" in capsys.readouterr().err
    assert "my_own_losses" not in sys.modules
    assert main(["gradcheck", str(path), "--import", "my_own_losses"]) == 0
    sys.modules.pop("my_own_losses")
