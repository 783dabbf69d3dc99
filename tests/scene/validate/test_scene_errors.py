"""Bad scenes: every row is one edit of a good scene, and gives exactly one problem, at its place, with a way out.

That it is exactly one also shows that no problem drags others behind it.
"""

import copy
import json
import random
from pathlib import Path

import pytest
from tools.scenes.samples import BEAM, CLOTH, load_text

from sim.scene import SceneError
from sim.schema.errors import SourceText
from sim.schema.yaml_marks import read_yaml

STRETCH = "objects.skirt.cloth.material.distance.compliance"

# edit of CLOTH: (old text, new text, line, path, fragment of the message)
CLOTH_ROWS = [
    # keys
    ("density: 0.2", "densty: 0.2", 17, "objects.skirt.cloth.densty", "unknown key `densty`|did you mean `density`?"),
    ("world:", "wrold:", 5, "wrold", "unknown key `wrold`|did you mean `world`?"),
    ("world:", "duration: 1 s\nworld:", 5, "duration", "unknown key `duration`|it is a key of `time`"),
    (
        "        bend: {",
        "        pucker: {compliance: 1}\n        bend: {",
        20,
        "objects.skirt.cloth.material.pucker",
        "`pucker`|`, `volume`; one of your own is known with `simopt --import",
    ),
    ("        bend: {", "        bned: {", 20, "objects.skirt.cloth.material.bned", "unknown constraint `bned`|`bend`"),
    ("compliance: 0.3, ", "complianz: 0.3, ", 19, "objects.skirt.cloth.material.distance.complianz", "did you mean"),
    (
        "density: 0.2",
        "density: 0.2\n      density: 0.3",
        18,
        "objects.skirt.cloth.density",
        "duplicate key `density`|line 17",
    ),
    ("format: 1\n", "", 1, "", "missing key `format`"),
    (", substeps: 20}", "}", 8, "time", "missing key `substeps`"),
    ("objects:\n  skirt:", "objcts:\n  skirt:", 13, "objcts", "unknown key `objcts`|did you mean `objects`?"),
    (
        "distance: {compliance: 0.3, damping",
        "distance: {damping",
        19,
        "objects.skirt.cloth.material.distance",
        "missing key `compliance`",
    ),
    (
        "mesh: {file: assets/skirt1252.obj, unit: m}",
        "thickness: 1 mm",
        15,
        "objects.skirt.cloth",
        "one of `mesh`, `grid`",
    ),
    (
        "unit: m}\n      density",
        "unit: m}\n      grid: {size: [1, 1], cells: [2, 2]}\n      density",
        17,
        "objects.skirt.cloth.grid",
        "`mesh` and `grid` exclude each other|keep one",
    ),
    ("solver:\n", "solver:\n  semi_implicit: {}\n", 12, "solver.xpbd", "`semi_implicit` and `xpbd` exclude each other"),
    ("lbfgs: {iterations: 30}", "lbfgs: {iterations: 30}\n  adam: {}", 51, "optimize.adam", "exclude each other"),
    ("{checkpointed: {every: 24}}", "{checkpointed: {}}", 51, "optimize.rollout.checkpointed", "`every`, `budget`"),
    (
        "frequency: 1 Hz}",
        "frequency: 1 Hz, ease: linear}",
        32,
        "attachments.waist.motion.1.ease",
        "`ease` belongs to `move`|remove it",
    ),
    (
        "swing: [0.08, 0, 0], frequency: 1 Hz",
        "swing: [0.08, 0, 0]",
        32,
        "attachments.waist.motion.1",
        "missing key `frequency`",
    ),
    ("{boundary: true, y: [1.12, null]}", "{}", 28, "attachments.waist.where", "at least one of"),
    (
        "  skirt:\n",
        "  my skirt:\n    cloth: {grid: {size: [1, 1], cells: [1, 1]}, density: 1}\n  skirt:\n",
        14,
        "objects.my skirt",
        "`my skirt` is not a name",
    ),
    # types
    ("duration: 1.2", "duration: [1.2]", 8, "time.duration", "expected a time [s], got a list"),
    ("duration: 1.2", "duration: true", 8, "time.duration", "expected a time [s], got `true`"),
    ("duration: 1.2", "duration: soon", 8, "time.duration", "`soon` is not a time [s]"),
    ("duration: 1.2", "duration: null", 8, "time.duration", "expected a time [s], got nothing"),
    ("substeps: 20", "substeps: 20.5", 8, "time.substeps", "expected a whole number from 1 to 1,000,000, got `20.5`"),
    ("order: colored", "order: colourd", 11, "solver.xpbd.order", "expected `colored` or `jacobi`|mean `colored`?"),
    ("order: colored", "order: on", 11, "solver.xpbd.order", "got `on`"),
    ("gravity: [0, -9.81, 0]", "gravity: [0, -9.81]", 6, "world.gravity", "a list of 3 numbers|it has 2 items"),
    ("gravity: [0, -9.81, 0]", "gravity: [0, down, 0]", 6, "world.gravity.1", "`down` is not an acceleration"),
    ("report: true", "report: yes", 53, "output.report", "expected `true` or `false`, got `yes`"),
    ("format: 1", "format: 3", 1, "format", "expected `1` or `2`, got `3`"),
    ("loss:\n  - {match: fabric}", "loss: {match: fabric}", 46, "loss", "expected a list"),
    ("[1.12, null]", "[1.12, 0.5]", 28, "attachments.waist.where.y", "above the high end"),
    ("boundary: true", "boundary: false", 28, "attachments.waist.where.boundary", "expected `true`"),
    (
        "mesh: {file: assets/skirt1252.obj",
        "mesh: {file: 3",
        16,
        "objects.skirt.cloth.mesh.file",
        "expected a file name",
    ),
    (
        "mesh: {file: assets/skirt1252.obj, unit: m}",
        "grid: {size: [1, 1], cells: [2, 2, 2]}",
        16,
        "objects.skirt.cloth.grid.cells",
        "a list of 2",
    ),
    # units
    (
        "density: 0.2",
        "density: 5 mm",
        17,
        "objects.skirt.cloth.density",
        "`5 mm` is a length, expected a mass per area [kg/m^2]",
    ),
    (
        "damping: 5 ms}\n        bend",
        "damping: 5 mm}\n        bend",
        19,
        "objects.skirt.cloth.material.distance.damping",
        "`5 mm` is a length, expected a time [s]|write it in s, ms",
    ),
    (
        "damping: 5 ms}\n        bend",
        "damping: 5 mss}\n        bend",
        19,
        "objects.skirt.cloth.material.distance.damping",
        "unknown unit `mss`|did you mean `ms`?",
    ),
    (
        "compliance: 33",
        "compliance: 33 1/N m",
        20,
        "objects.skirt.cloth.material.bend.compliance",
        "can be read in two ways|1/(N m)",
    ),
    ("unit: m}\n      density", "unit: kg}\n      density", 16, "objects.skirt.cloth.mesh.unit", "`kg` is not a unit"),
    (
        "frequency: 1 Hz",
        "frequency: 1 s",
        32,
        "attachments.waist.motion.1.frequency",
        "is a time, expected a frequency",
    ),
    (
        "within: 5 %}\n  parameters.bend",
        "within: 5 mm}\n  parameters.bend",
        56,
        "expect.parameters.stretch.within",
        "`5 mm` is a length, expected a number",
    ),
    # intervals
    ("density: 0.2", "density: -0.2", 17, "objects.skirt.cloth.density", "-0.2 is not positive"),
    ("compliance: 33", "compliance: -33", 20, "objects.skirt.cloth.material.bend.compliance", "not zero or positive"),
    ("compliance: 0\n", "compliance: -1\n", 29, "attachments.waist.compliance", "not zero or positive"),
    ("radius: 13 cm", "radius: -13 cm", 23, "shapes.ball.sphere.radius", "-13 cm is not positive"),
    ("radius: 13 cm", "radius: .nan", 23, "shapes.ball.sphere.radius", "not positive"),
    ("gravity: [0, -9.81, 0]", "gravity: [0, .inf, 0]", 6, "world.gravity.1", "is not finite"),
    ("radius: 13 cm", "radius: 1e10", 23, "shapes.ball.sphere.radius", "is beyond 1e+09 m|check its unit"),
    ("density: 0.2", "density: 1e300", 17, "objects.skirt.cloth.density", "beyond 1e+30|nothing that is simulated"),
    ("density: 0.2", "density: 1e-300", 17, "objects.skirt.cloth.density", "no number to compute with|write 0"),
    ("duration: 1.2", "duration: 1e30", 8, "time.duration", "is beyond 1e+09 s"),
    ("fps: 60", "fps: 0", 8, "time.fps", "0 is not positive"),
    ("substeps: 20", "substeps: 0", 8, "time.substeps", "0 is below 1"),
    ("duration: 1.2", "duration: -1 s", 8, "time.duration", "-1 s is not positive"),
    ("noise: 1 mm", "noise: 0", 40, "experiments.swing.target.noise", "not positive"),
    ("end: 0.8", "end: 0", 31, "attachments.waist.motion.0.end", "ends at 0 s and starts at 0 s"),
    # names that refer to others
    ("on: skirt\n", "on: shirt\n", 27, "attachments.waist.on", "unknown object `shirt`|did you mean `skirt`?"),
    ("{on: skirt, farthest", "{on: shirt, farthest", 35, "markers.fabric.on", "unknown object `shirt`"),
    ("radius: 13 cm}", "radius: 13 cm}, touches: [skrit]", 23, "shapes.ball.touches.0", "unknown object `skrit`"),
    ("{match: fabric}", "{match: fabrik}", 47, "loss.0.match", "unknown marker `fabrik`|did you mean `fabric`?"),
    ("{match: fabric}", "{match: fabric, experiments: [swng]}", 47, "loss.0.experiments.0", "unknown experiment"),
    ("key: fabric", "markers: {fabrik: [0]}", 40, "experiments.swing.target.markers.fabrik", "unknown marker"),
    (
        "- {match: fabric}",
        "- {match: fabric}\n  - {prior: strech, value: 1, factor: 2}",
        48,
        "loss.1.prior",
        "unknown parameter `strech`|did you mean `stretch`?",
    ),
    (
        "compliance: 33, damping: 5 ms",
        "compliance: 33, damping: {regions: {hem: 3 ms}}",
        20,
        "objects.skirt.cloth.material.bend.damping.regions.hem",
        "unknown region `hem`|objects.skirt.regions.hem",
    ),
    (
        "        bend: {compliance: 33, damping: 5 ms}",
        "        bend: {compliance: 33}\n        volume: {compliance: 1}",
        21,
        "objects.skirt.cloth.material.volume",
        "`volume` does not act on a `cloth`|`soft`",
    ),
    (
        "unit: m}\n      density",
        "axes: [y, x, z]}\n      density",
        16,
        "objects.skirt.cloth.mesh.axes",
        "swaps left and right|mirror: true",
    ),
    # parameters
    (
        f"of: {STRETCH}",
        "of: objects.skirt.cloth.material.distance.complience",
        43,
        "parameters.stretch.of",
        f"does not exist|did you mean `{STRETCH}`?",
    ),
    (
        f"of: {STRETCH}",
        "of: objects.skirt.material.distance.compliance",
        43,
        "parameters.stretch.of",
        f"does not exist|did you mean `{STRETCH}`?",
    ),
    (f"of: {STRETCH}", "of: shapes.ball.plane.point", 43, "parameters.stretch.of", "does not exist|`sphere`"),
    (
        f"of: {STRETCH}",
        "of: time.substeps",
        43,
        "parameters.stretch.of",
        "`time.substeps` may not be a parameter|material values",
    ),
    (
        f"of: {STRETCH}",
        "of: objects.skirt.cloth.material.distance",
        43,
        "parameters.stretch.of",
        f"may not be a parameter|name one of: `{STRETCH}`",
    ),
    ("bounds: [1e-4, 10]", "bounds: [1, 10]", 43, "parameters.stretch.bounds", "exclude the start 0.3|widen"),
    ("bounds: [1e-4, 10]", "bounds: [0, 10]", 43, "parameters.stretch.bounds", "positive bounds|transform: none"),
    ("bounds: [1e-4, 10]", "bounds: [10, 1e-4]", 43, "parameters.stretch.bounds", "above the high end"),
    ("bounds: [1e-4, 10]", "bounds: [1e-4]", 43, "parameters.stretch.bounds", "it has 1 items"),
    ("bounds: [1e-4, 10]", "bounds: [1 ms, 10]", 43, "parameters.stretch.bounds.0", "is a time, expected a compliance"),
    ("bounds: [1e-4, 10]", "start: 20, bounds: [1e-4, 10]", 43, "parameters.stretch.bounds", "exclude the start 20"),
    ("bounds: [1e-4, 10]", "start: -1", 43, "parameters.stretch.start", "needs a positive start|transform: none"),
    (
        "transform: log, bounds: [1e-4, 10]",
        "bounds: [-1, 10]",
        43,
        "parameters.stretch.bounds",
        "reach beyond [0, inf)",
    ),
    ("transform: log, bounds: [1e-4, 10]", "transform: logit", 43, "parameters.stretch.transform", "`logit` needs"),
    (
        "transform: log, bounds: [1e-4, 10]",
        "transform: logit, bounds: [0.3, 10]",
        43,
        "parameters.stretch.of",
        "start between the bounds",
    ),
    ("transform: log, bounds: [1e-4, 10]", "start: -1", 43, "parameters.stretch.start", "must be zero or positive"),
    ("bounds: [1e-4, 10]", "bounds: [0.3, 0.3]", 43, "parameters.stretch.bounds", "nothing can vary"),
    ("transform: log, bounds: [1e-4, 10]", "transform: lg", 43, "parameters.stretch.transform", "did you mean `log`?"),
    (
        "of: objects.skirt.cloth.material.bend.compliance,     transform: log, bounds: [1, 1e5]",
        f"of: {STRETCH}",
        44,
        "parameters.bend.of",
        "is reached by the parameter `stretch` as well",
    ),
    (f"of: {STRETCH}", f"of: [{STRETCH}, {STRETCH}]", 43, "parameters.stretch.of.1", "is reached twice"),
    (
        f"of: {STRETCH}",
        f"of: [{STRETCH}, objects.skirt.cloth.material.distance.damping]",
        43,
        "parameters.stretch.of.1",
        "one dimension",
    ),
    (f"of: {STRETCH}", f"of: {{{STRETCH}: 0}}", 43, f"parameters.stretch.of.{STRETCH}", "factor of zero"),
    (
        "distance: {compliance: 0.3",
        "distance: {compliance: {each: 1e-6}",
        43,
        "parameters.stretch.of",
        f"is not one number|`{STRETCH}.each`",
    ),
    (
        "distance: {compliance: 0.3",
        "distance: {compliance: {file: c.npy}",
        43,
        "parameters.stretch.of",
        "a value for each element|per: element",
    ),
    # loss
    ("loss:\n  - {match: fabric}\n", "", 42, "parameters", "add a `loss`"),
    (
        "use: fit\n    target: {file: data/cloth_markers.npz, key: fabric, unit: m, noise: 1 mm}",
        "use: fit",
        46,
        "loss.0.match",
        "experiment `swing` is fitted and has no target",
    ),
    ("{match: fabric}", "{match: fabric, at: [1, 0.5]}", 47, "loss.0.at", "1 s is not before 0.5 s"),
    ("{match: fabric}", "{match: fabric, norm: {hubr: 3}}", 47, "loss.0.norm.hubr", "did you mean `huber`?"),
    ("{match: fabric}", "{match: fabric, weight: -1}", 47, "loss.0.weight", "not zero or positive"),
    (
        "- {match: fabric}",
        "- {match: fabric}\n  - {prior: bend, value: 1 mm, factor: 2}",
        48,
        "loss.1.value",
        "is a length, expected a bending compliance",
    ),
    ("- {match: fabric}", "- {match: fabric}\n  - {prior: bend, value: 1}", 48, "loss.1", "one of `factor`"),
    ("- {match: fabric}", "- {match: fabric}\n  - {smooth: bend, sd: 1}", 48, "loss.1.smooth", "per: element"),
    ("- {match: fabric}", "- {match: fabric}\n  - {custom: mine.py}", 48, "loss.1.custom", "`module:function`"),
    # expectations
    (
        "  parameters.stretch: {value",
        "  parameters.strech: {value",
        56,
        "expect.parameters.strech",
        "is not a number in the result|did you mean `parameters.stretch`?",
    ),
    ("loss.final: {below: 1.1}", "loss.end: {below: 1.1}", 58, "expect.loss.end", "not a number in the result"),
    ("{below: 1.1}", "{below: 1.1, above: 1}", 58, "expect.loss.final.above", "exclude each other"),
    ("{below: 1.1}", "{measured: true, within: 5 %}", 58, "expect.loss.final.measured", "no measured counterpart"),
    ("{value: 1000, within: 5 %}", "{value: 1000}", 57, "expect.parameters.bend", "missing key `within`"),
    ("{value: 1000, within: 5 %}", "{value: 1 kg, within: 5 %}", 57, "expect.parameters.bend.value", "is a mass"),
    ("{below: 1.1}", "{between: [2, 1]}", 58, "expect.loss.final.between", "2 is not below 1"),
    # YAML itself
    ("format: 1", "format: !!python/object/apply:os.system [ls]", 1, "", "tag|without a tag"),
    ("solver:", "solver: *other", 10, "", "unknown anchor `*other`"),
    ("time: {", "time: {{", 8, "", "a key that is not a plain word"),
    ("time: {duration: 1.2, fps: 60, substeps: 20}", "time: {duration: 1.2", 10, "", "not YAML"),
    ("world:\n  gravity", "world:\n\tgravity", 6, "", "not YAML|spaces, not tabs"),
    ("  skirt:\n", "  skirt: &me\n    <<: *me\n", 15, "", "unknown anchor"),
    # files
    (
        "file: assets/skirt1252.obj",
        "file: ../skirt1252.obj",
        16,
        "objects.skirt.cloth.mesh.file",
        "leaves the folder of the scene|--allow-outside",
    ),
    ("file: data/cloth_markers.npz", "file: /etc/passwd", 40, "experiments.swing.target.file", "leaves the folder"),
]

BEAM_ROWS = [
    (
        "mass: 0}",
        "mass: 52 mm}",
        25,
        "loads.weight.mass",
        "`52 mm` is a length, expected a mass [kg]|write it in kg, g",
    ),
    ("mass: 0}", "mass: -1 g}", 25, "loads.weight.mass", "-1 g is not zero or positive"),
    ("poisson: 0.45", "poisson: 0.5", 19, "objects.beam.soft.material.neo_hookean.poisson", "not in (-1, 0.5)"),
    ("weight: {on: beam", "weight: {on: bean", 25, "loads.weight.on", "unknown object `bean`"),
    ("drop: {of: tip", "drop: {of: top", 31, "measures.drop.of", "unknown marker `top`|known here: `tip`"),
    (", last: 0.5}", "}", 31, "measures.drop", "missing key `last`"),
    ("kind: frequency}", "kind: frequency, last: 1}", 32, "measures.ring.last", "belongs to `kind: settled`"),
    ("kind: frequency}", "kind: rotation}", 32, "measures.ring", "missing key `last`"),
    ("kind: frequency}", "kind: frequency, about: [1, 0, 0]}", 32, "measures.ring.about", "to `kind: rotation`"),
    ("kind: frequency}", "kind: rotation, last: 1, about: [0, 0, 0]}", 32, "measures.ring.about", "length zero"),
    (
        "*take, set: {time.duration: 4}",
        "*take, set: {time.durations: 4}",
        38,
        "experiments.settled.set.time.durations",
        "does not exist|did you mean `time.duration`?",
    ),
    (
        "*take, set: {time.duration: 4}",
        "*take, set: {time.duration: 4 m}",
        38,
        "experiments.settled.set.time.duration",
        "`4 m` is a length, expected a time",
    ),
    (
        "*take, set: {time.duration: 4}",
        "*take, set: {time.duration: -4}",
        38,
        "experiments.settled.set.time.duration",
        "-4 is not positive",
    ),
    (
        "*take, set: {time.duration: 4}",
        "*take, set: {objects.beam.soft.density: 4}",
        38,
        "experiments.settled.set.objects.beam.soft.density",
        "an experiment cannot set|share the model",
    ),
    (
        "*take, set: {time.duration: 4}",
        "*take, set: {world.gravity.1: 5, world.gravity: [0, 0, 0]}",
        38,
        "experiments.settled.set.world.gravity",
        "set the same value",
    ),
    (
        "set: {loads.weight.mass: 52 g,  time.duration: 4}}\n  load52_b",
        "set: {loads.wait.mass: 52 g}}\n  load52_b",
        39,
        "experiments.load52_a.set.loads.wait.mass",
        "did you mean `loads.weight.mass`?",
    ),
    ("bounds: [10 us, 100 ms]", "bounds: [1 s, 2 s]", 46, "parameters.damping.bounds", "exclude the start 0.0005"),
    (
        "value: 5 ms, factor: 10",
        "value: 5 ms, factor: 10, sd: 1 ms",
        50,
        "loss.1",
        "`factor` and `sd` exclude each other",
    ),
    ("{prior: damping", "{prior: dampng", 50, "loss.1.prior", "unknown parameter `dampng`"),
    ("compare: displacement}", "experiments: [gravity_a, settled]}", 49, "loss.0.experiments.1", "only predicted"),
    (
        "experiments.settled.ring: ",
        "experiments.setled.ring: ",
        58,
        "expect.experiments.setled.ring",
        "did you mean `experiments.settled.ring`?",
    ),
    (
        "settled.drop:   {measured: true, within: 8 %}",
        "settled.drop: {value: 6 Hz, within: 1 %}",
        59,
        "expect.experiments.settled.drop.value",
        "is a frequency, expected a length",
    ),
    ("use: predict, target: *take", "use: predct, target: *take", 38, "experiments.settled.use", "mean `predict`?"),
]


def check_row(folder, scene, row):
    old, new, line, path, fragments = row
    assert scene.count(old) == 1, f"the row does not edit one place: {old!r}"
    with pytest.raises(SceneError) as caught:
        load_text(folder, scene.replace(old, new))
    text = str(caught.value)
    assert len(caught.value.problems) == 1, text
    problem = caught.value.problems[0]
    assert (problem.mark.line, problem.path) == (line, path), text
    for fragment in fragments.split("|"):
        assert fragment in text
    shown = text.splitlines()
    assert shown[0].startswith(f"{folder / 'scene.yaml'}:{line}:{problem.mark.column}: ")
    assert shown[1].strip() and shown[2].strip() == "^", "the source line and the caret"


@pytest.mark.parametrize("row", CLOTH_ROWS, ids=lambda row: f"{row[3]}:{row[1][:30]}")
def test_bad_cloth(tmp_path, row):
    check_row(tmp_path, CLOTH, row)


@pytest.mark.parametrize("row", BEAM_ROWS, ids=lambda row: f"{row[3]}:{row[1][:30]}")
def test_bad_beam(tmp_path, row):
    check_row(tmp_path, BEAM, row)


def spots(data):
    """Every (container, key) of nested data."""
    pairs = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in list(pairs):
        yield data, key
        yield from spots(value)


def changed(data, pool, draw):
    """Data with a few values replaced by others of the same or another scene, removed, or put under another key."""
    data = copy.deepcopy(data)
    for _ in range(draw.choice([1, 1, 2, 4])):
        holder, key = draw.choice(list(spots(data)))
        act = draw.randrange(4)
        if act == 0:
            del holder[key]
        elif act == 1 and isinstance(holder, dict):
            holder[draw.choice(pool)[1]] = holder.pop(key)
        else:
            container, other = draw.choice(pool)
            holder[key] = copy.deepcopy(draw.choice([container[other], container[other], None, -1, "", [], {}, True]))
    return data


def read(text):
    return read_yaml(SourceText("x", text, Path(".")), []).plain


def test_any_change_gives_a_scene_or_problems(tmp_path):
    """Random edits: whatever is wrong, the answer is a `SceneError`, never another exception."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    draw = random.Random(seed)
    scenes = [read(CLOTH), read(BEAM)]
    pool = [spot for scene in scenes for spot in spots(scene)]
    good = bad = 0
    for _ in range(400):
        text = json.dumps(changed(draw.choice(scenes), pool, draw), indent=1)
        try:
            scene = load_text(tmp_path, text, open_files=True)
        except SceneError as error:
            bad += 1
            assert error.problems and str(error)
        else:
            good += 1
            assert load_text(tmp_path, scene.resolved_yaml()).data == scene.data
    print(f"{good} scenes, {bad} with problems")
    assert good > 5 and bad > 100
