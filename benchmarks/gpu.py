"""What a GPU does: bandwidth, launches, graph replay, and the distance constraints of a cloth, forward and backward.

    python benchmarks/gpu.py [--device cuda:0] [--cells 2000] [--megabytes 1024] [--launches 4800]

Prints a table with the date and the product.  Every number is the best of several repetitions; the solves of a colour
are compared with the bandwidth that the same run has measured.
"""

import argparse
import time
from collections.abc import Callable
from datetime import date

import numpy as np

import sim
from sim.core.runtime.devices.graph import capture

REPEATS = 7
BYTES = 76
"""A distance constraint: 2 indices, rest length, compliance, 2 inverse masses, 2 points in and out, multiplier out."""


@sim.kernel
def nothing(x: sim.array[float]):
    if sim.tid() < 0:
        x[0] = 1.0


def best(work: Callable[[], None], device: sim.Device, repeats: int = REPEATS) -> float:
    """Seconds of the fastest of several runs, on the device's own clock."""
    stream, times = sim.get_stream(device), []
    for _ in range(repeats + 1):
        begin, end = (sim.Event(device, enable_timing=True) for _ in range(2))
        stream.record_event(begin)
        work()
        stream.record_event(end)
        times.append(1e-3 * sim.get_event_elapsed_time(begin, end))
    return min(times[1:])


def bandwidth(device: sim.Device, megabytes: int) -> float:
    """Bytes per second that a copy reads and writes."""
    a, b = (sim.zeros(2**18 * megabytes, device=device) for _ in range(2))
    return 2 * a.nbytes / best(lambda: b.assign(a), device)


def launch_cost(device: sim.Device, count: int) -> float:
    """Seconds of the host per recorded launch."""
    x = sim.zeros(1, device=device)
    command = sim.launch(nothing, 1, [x], record_cmd=True)
    assert command is not None
    command.launch()
    sim.synchronize()
    begin = time.perf_counter()
    for _ in range(count):
        command.launch()
    host = time.perf_counter() - begin
    sim.synchronize()
    return host / count


def replay_cost(device: sim.Device, count: int) -> float:
    """Seconds per node of a captured graph of small launches."""
    x = sim.zeros(1, device=device)
    with capture() as graph:
        for _ in range(count):
            sim.launch(nothing, 1, [x])
    graph.replay()
    return best(graph.replay, device) / count


def cloth(device: sim.Device, cells: int) -> tuple[sim.SolverXPBD, sim.State, sim.State]:
    builder = sim.ModelBuilder()
    builder.add_cloth_grid(
        dim_x=cells,
        dim_y=cells,
        cell_x=1 / cells,
        cell_y=1 / cells,
        density=0.2,
        material={"distance": {"compliance": 1e-3}},
    )
    model = builder.finalize(device, requires_grad=True)
    return sim.SolverXPBD(model), model.state(), model.state()


def steps(device: sim.Device, cells: int) -> tuple[float, float, int, int]:
    """Seconds of a step forward and backward, as graphs; constraints, and colours."""
    solver, a, b = cloth(device, cells)
    solver.step(a, b, None, None, 1 / 600)
    with sim.Tape() as tape:
        with capture() as forward:
            solver.step(a, b, None, None, 1 / 600)
        end = len(tape.records)
    with capture() as backward:
        tape.sweep(0, end)
    tape.release()
    forward.replay()
    backward.replay()
    sets = solver.model.constraint_sets["distance"]
    return best(forward.replay, device), best(backward.replay, device), sets.count, sets.color_count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--cells", type=int, default=2000, help="of the large cloth, along each side")
    parser.add_argument("--megabytes", type=int, default=1024, help="that are copied to measure the bandwidth")
    parser.add_argument("--launches", type=int, default=4800, help="of a kernel that does nothing, in a graph")
    options = parser.parse_args()
    try:
        device = sim.get_device(options.device)
    except sim.DeviceError as missing:
        parser.error(str(missing))
    print(f"{date.today()}, {device.description}\n\n| what | measured |\n|---|---|")
    limit = bandwidth(device, options.megabytes)
    print(f"| copy, read and write | {limit / 1e12:.2f} TB/s |")
    print(f"| recorded launch, host | {1e6 * launch_cost(device, 4 * options.launches):.2f} us |")
    print(
        f"| distance constraints per second that the bandwidth allows, {BYTES} bytes each | {limit / BYTES / 1e9:.0f}"
        " G/s |"
    )
    print(f"| graph replay of small launches | {1e6 * replay_cost(device, options.launches):.2f} us per node |")
    for cells in (32, 128, options.cells):
        forward, backward, count, colours = steps(device, cells)
        rate, most = count / forward, limit / BYTES
        print(
            f"| cloth of {count} distance constraints in {colours} colours, a step forward | {1e6 * forward:.0f} us,"
            f" {1e6 * forward / colours:.1f} us per colour, {rate / 1e9:.2f} G solves/s: {100 * rate / most:.0f} % of"
            " the bandwidth limit |"
        )
        print(f"| the same, backward | {1e6 * backward:.0f} us: {backward / forward:.2f} times forward |")
    assert np.isfinite(limit)


if __name__ == "__main__":
    main()
