"""What docs/own-constraints.md and docs/recordings.md say is so."""

import re

import numpy as np
import pytest
from tools.places import ROOT
from tools.scenes.problems import SHEET, write_scene, write_target

import sim
from sim.constraints.base import REGISTRY
from sim.geometry import solid_grid, tet_volumes
from sim.io import Recording, load_recording, write_recording
from sim.model import ModelError

OBJECTS = ("chain", "cloth", "soft", "particles")


@pytest.fixture(scope="module", autouse=True)
def own():
    """Constraints of 1, 2, 3, 4, 5 and 8 points that do nothing in particular."""
    names = {}
    for k in (1, 2, 3, 4, 5, 8):

        def any_points(x, rest: float = 0.0):
            """A coordinate."""
            return x[0][0] - rest

        any_points.__name__ = f"docs_own_{k}"
        names[k] = any_points.__name__
        sim.constraint(points=k)(any_points)
    yield names
    for name in names.values():
        REGISTRY.pop(name, None)


def elements(kind, name):
    """The tuples that a constraint gets on an object, from its first point on, or None where it is refused."""
    builder = sim.ModelBuilder()
    material = {name: {"compliance": 1.0}}
    try:
        if kind == "chain":
            group = builder.add_chain([0, 0, 0], [9, 0, 0], 10, 1.0, label="o", material=material)
        elif kind == "cloth":
            group = builder.add_cloth_grid(
                pos=(0, 0, 0), dim_x=2, dim_y=2, cell_x=1, cell_y=1, density=1, label="o", material=material
            )
        elif kind == "soft":
            box = solid_grid(2, 1, 1, 1.0, 1.0, 1.0).mesh
            group = builder.add_soft_mesh(mesh=box, density=1.0, label="o", material=material)
        else:
            group = builder.add_particles([[0, 0, 0], [1, 0, 0]], 1.0, label="o", material=material)
    except ModelError:
        return None
    return group.elements[name] - group.start


def table():
    text = (ROOT / "docs" / "own-constraints.md").read_text(encoding="utf-8")
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in text.splitlines()
        if re.match(r"\| (\d|other)", line)
    ]
    return {row[0]: dict(zip(OBJECTS, row[1:], strict=True)) for row in rows}


COUNTS = {
    ("1", "chain"): 10,
    ("2", "chain"): 9,
    ("3", "chain"): 8,
    ("4", "chain"): 7,
    ("8", "chain"): 3,
    ("other", "chain"): 6,
    ("1", "cloth"): 9,
    ("2", "cloth"): 16,
    ("3", "cloth"): 8,
    ("4", "cloth"): 8,
    ("1", "soft"): 12,
    ("2", "soft"): 31,
    ("3", "soft"): 20,
    ("4", "soft"): 10,
    ("8", "soft"): 2,
    ("1", "particles"): 2,
}


@pytest.mark.parametrize("row", table())
@pytest.mark.parametrize("kind", OBJECTS)
def test_points_of_a_constraint(row, kind, own):
    found = elements(kind, own[5 if row == "other" else int(row)])
    assert (found is None) == (table()[row][kind] == "-")
    if found is None:
        return
    assert len(found) == COUNTS[row, kind]
    if kind == "chain":
        assert (found == found[:, :1] + np.arange(found.shape[1])).all()
    if row == "2":
        assert (found[:, 0] < found[:, 1]).all()


def test_order_of_hinges_and_tetrahedra(own):
    a, b, c, d = elements("cloth", own[4]).T
    triangles = {tuple(np.roll(t, k)) for t in elements("cloth", own[3]).tolist() for k in range(3)}
    for wings in zip(a.tolist(), b.tolist(), c.tolist(), d.tolist(), strict=True):
        assert (wings[0], wings[2], wings[3]) in triangles and (wings[1], wings[3], wings[2]) in triangles
    box = solid_grid(2, 1, 1, 1.0, 1.0, 1.0).mesh
    assert (tet_volumes(box.positions, elements("soft", own[4])) > 0).all()


def test_the_recording_of_the_page_is_one(tmp_path):
    text = (ROOT / "docs" / "recordings.md").read_text(encoding="utf-8")
    (tmp_path / "take.csv").write_text(re.search(r"```csv\n(.*?)```", text, re.DOTALL)[1])
    found = load_recording(tmp_path / "take.csv", unit=0.001, axes=["x", "z", "-y"], markers=["base", "tip"])
    assert found.labels == ("base", "tip") and found.time.tolist() == [0.0, 0.01, 0.02]
    assert np.isnan(found.positions[1, 0]).all() and found.unseen == 1
    np.testing.assert_allclose(found.positions[0, 1], [0.131e-3, 0.012e-3, 0.020e-3])


def test_columns_of_a_target_by_name(tmp_path):
    write_target(tmp_path, SHEET)
    by_number = sim.load_scene(write_scene(tmp_path, SHEET)).build().experiments[0].targets["corners"]
    stored = load_recording(tmp_path / "target.npz")
    order = [2, 0, 3, 1]
    shuffled = Recording(stored.positions[:, order], stored.time, tuple(f"pin {k}" for k in order))
    write_recording(tmp_path / "target.npz", corners=shuffled)
    names = "markers: {corners: [pin 0, pin 1, pin 2, pin 3]}"
    path = write_scene(tmp_path, SHEET.replace("noise: 10 mm", f"noise: 10 mm, {names}"))
    np.testing.assert_array_equal(
        sim.load_scene(path).build().experiments[0].targets["corners"].positions, by_number.positions
    )
    with pytest.raises(sim.SceneError, match=r"(?s)there is no marker `pin 9`.*did you mean `pin"):
        sim.load_scene(write_scene(tmp_path, path.read_text().replace("pin 3", "pin 9"))).build()
