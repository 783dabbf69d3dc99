"""What `simopt run SCENE` does, by the public API: load, build, search, look at what was found.

python scripts/optimize_scene.py scenes/chain.yaml
python scripts/optimize_scene.py scenes/cloth.yaml --set time.substeps=20 --iterations 20
"""

import argparse
import sys

import sim


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scene")
    parser.add_argument("--set", action="append", default=[], metavar="PATH=VALUE")
    parser.add_argument("--iterations", type=int)
    parser.add_argument("--dtype", choices=("float32", "float64"), default="float64")
    options = parser.parse_args()

    try:
        scene = sim.load_scene(options.scene, overrides=options.set)  # SceneError holds every problem of the file
        problem = scene.build(dtype=getattr(sim, options.dtype))  # model, solver, experiments, parameters, loss
    except sim.SceneError as error:
        print(error, file=sys.stderr)
        return 2

    value, gradient = problem.value_and_grad(problem.start)  # NumPy in and out: fits any optimiser
    print(f"loss {value:.6g} at {problem.physical()}, gradient {gradient}")

    def show(entry: dict) -> None:
        print(f"{entry['iteration']:3d}  loss {entry['loss']:.6g}  {entry['parameters']}")

    result = problem.optimize(options.iterations, log=show)
    print(f"found {result.parameters}: loss {result.loss:.6g} ({result.search.stopped_because})")

    for name, motion in problem.simulate(result.search.x).items():  # positions (frames, points, 3) [m]
        misfit = problem.compare(motion)
        print(
            f"{name}: {len(motion.times)} frames of {motion.positions.shape[1]} points, loss {misfit:.6g}"
            if misfit is not None
            else f"{name}: {len(motion.times)} frames"
        )

    met = True
    for expectation in problem.expectations:
        name = expectation.path.removeprefix("parameters.")
        if name in result.parameters:
            met &= expectation.holds(result.parameters[name])
            print(f"{name}: {result.parameters[name]:.6g}, expected {expectation.want}")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
