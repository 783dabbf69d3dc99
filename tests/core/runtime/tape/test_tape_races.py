"""A launch whose result depends on the order of its threads is refused where it is recorded; what has no race is
not."""

import numpy as np
import pytest
from tools.tapes.gradients import array, assert_gradient, backend

import sim
from sim.core.lang.instrument.race_freedom import potential_races

f64 = sim.float64


@sim.kernel
def smooth_in_place(x: sim.array[f64]):
    i = sim.tid()
    if i > 0:
        x[i] = f64(0.5) * (x[i - 1] + x[i])


@sim.kernel
def all_store_one_element(x: sim.array[f64], y: sim.array[f64]):
    i = sim.tid()
    if i < x.shape[0]:
        y[0] = x[0] * x[0]


@sim.kernel
def add_and_read(x: sim.array[f64], y: sim.array[f64]):
    i = sim.tid()
    sim.atomic_add(y, 0, x[i])
    x[i] = y[0] * x[i]


@sim.kernel
def relax_edges(edges: sim.array2d[int], x: sim.array[f64]):
    k = sim.tid()
    i = edges[k, 0]
    j = edges[k, 1]
    d = x[i] - x[j]
    if sim.abs(d) > f64(0.01):
        x[i] -= f64(0.2) * d * d
        x[j] += f64(0.2) * d * d


@sim.kernel
def scatter_by_value(place: sim.array[f64], x: sim.array[f64]):
    i = sim.tid()
    x[int(place[i])] = place[i] * place[i]


@sim.kernel
def shift(source: sim.array[f64], target: sim.array[f64]):
    i = sim.tid()
    target[i] = f64(2.0) * source[i]


@sim.kernel
def follow_and_rotate(following: sim.array[int], x: sim.array[f64], y: sim.array[f64]):
    i = sim.tid()
    j = following[(i + 1) % following.shape[0]]
    following[i] = j
    y[i] = x[j] * x[j]


@sim.kernel
def blocks_of_three(x: sim.array[f64], y: sim.array[f64]):
    i = sim.tid()
    for k in range(3):
        y[3 * i + k] = x[i] * y[3 * i + 2 - k]


@sim.kernel
def swap_if_greater(x: sim.array[f64], j: int, k: int):
    i = sim.tid()
    o = i ^ j
    if o > i:
        a = x[i]
        b = x[o]
        if (i & k) == 0:
            if a > b:
                x[i] = b
                x[o] = a
        else:
            if a < b:
                x[i] = b
                x[o] = a


@sim.kernel
def mark_positive(x: sim.array[f64], y: sim.array[f64]):
    i = sim.tid()
    if x[i] > f64(0.0):
        y[0] = 1.0


@sim.kernel
def first_thread_only(x: sim.array[f64], y: sim.array[f64]):
    i = sim.tid()
    if i == 0:
        total = f64(0.0)
        for k in range(x.shape[0]):
            total += x[k] * x[k]
        y[0] = total


@sim.kernel
def cells_of_a_row(x: sim.array2d[f64]):
    i, j = sim.tid()
    x[j, i] = x[j, i] * x[j, i]


@sim.kernel
def squares(x: sim.array[f64], loss: sim.array[f64]):
    i = sim.tid()
    sim.atomic_add(loss, 0, x[i] * x[i])


def numbers(n):
    return array(0.3 + 0.25 * np.arange(n))


def table(rows):
    return sim.array(np.array(rows, np.int32), dtype=int)


def two(n):
    return [numbers(n), array([0.0])]


def chain():
    return [table([[0, 1], [1, 2]]), numbers(4)]


RACES = {
    "a neighbour that another thread overwrites": (smooth_in_place, 6, lambda: [numbers(6)], "'x'"),
    "one element that all threads store": (
        all_store_one_element,
        6,
        lambda: two(6),
        "thread 1 writes an element of 'y' that thread 0 has written",
    ),
    "a sum that is read while it grows": (add_and_read, 6, lambda: two(6), "'y'"),
    "constraints that share a point": (
        relax_edges,
        2,
        chain,
        "thread 1 reads an element of 'x' that thread 0 has added to",
    ),
    "places that depend on values and coincide": (
        scatter_by_value,
        3,
        lambda: [array([0.5, 1.5, 1.25]), numbers(4)],
        "thread 2 writes",
    ),
    "views that overlap": (shift, 5, lambda: (lambda x: [x[:-1], x[1:]])(numbers(6)), "'source'"),
    "an index that another thread overwrites": (
        follow_and_rotate,
        4,
        lambda: [sim.array([1, 2, 3, 0], dtype=int), numbers(4), numbers(4)],
        "'following'",
    ),
}


@pytest.mark.parametrize("case", RACES.values(), ids=RACES)
def test_a_race_is_refused_by_name(case):
    kernel, dim, arguments, words = case
    arguments = arguments()
    with sim.Tape(), pytest.raises(sim.GradientError, match="depends on the order of the threads") as caught:
        sim.launch(kernel, dim, arguments)
    assert words in str(caught.value) and kernel.name in str(caught.value) and "test_tape_races.py" in str(caught.value)


@pytest.mark.parametrize("name", ["constraints that share a point", "places that depend on values and coincide"])
def test_a_race_on_a_gpu_is_refused_too(name):
    """By a look at the addresses, and by a run of the kernel: on copies in memory of the CPU."""
    kernel, dim, arguments, words = RACES[name]
    with backend("cuda"):
        arguments = arguments()
        before = [a.numpy() for a in arguments]
        with sim.Tape(), pytest.raises(sim.GradientError, match="depends on the order of the threads") as caught:
            sim.launch(kernel, dim, arguments)
        assert words in str(caught.value)
        for a, b in zip(arguments, before, strict=True):
            np.testing.assert_array_equal(a.numpy(), b)


@pytest.mark.parametrize("case", RACES.values(), ids=RACES)
def test_without_gradients_or_with_one_thread_it_runs(case):
    kernel, dim, arguments, _ = case
    with sim.Tape():
        sim.launch(kernel, 1, arguments())
    sim.launch(kernel, dim, arguments())


def program(kernel, dim, *others):
    def run(x):
        loss = sim.zeros(1, dtype=f64, requires_grad=True)
        sim.launch(
            kernel,
            dim,
            [
                *(make() if callable(make) else make for make in others[0]),
                x,
                *(make() if callable(make) else make for make in others[1]),
            ],
        )
        sim.launch(squares, x.shape[0], [x, loss])
        return loss

    return run


def test_what_shares_nothing_is_right():
    assert_gradient(program(relax_edges, 2, [table([[0, 1], [3, 2]])], []), numbers(4))
    assert_gradient(program(swap_if_greater, 4, [], [2, 4]), array([0.5, -1.0, 0.75, 0.25]))


def test_places_that_depend_on_values_and_differ_are_right():
    def run(place):
        x = sim.zeros(4, dtype=f64, requires_grad=True)
        loss = sim.zeros(1, dtype=f64, requires_grad=True)
        sim.launch(scatter_by_value, 3, [place, x])
        sim.launch(squares, 4, [x, loss])
        return loss

    assert_gradient(run, array([0.5, 2.5, 1.25]))


@pytest.mark.parametrize(("kernel", "dim", "arguments"), [
    (blocks_of_three, 4, lambda: [numbers(4), numbers(12)]), (mark_positive, 4, lambda: [numbers(4), numbers(1)]),
    (first_thread_only, 4, lambda: [numbers(4), numbers(1)]),
    (cells_of_a_row, (2, 3), lambda: [array(np.ones((3, 2)))]),
    (shift, 3, lambda: (lambda x: [x[:3], x[3:]])(numbers(6))), (squares, 6, lambda: [numbers(6), numbers(1)]),
])  # fmt: skip
def test_what_has_no_race_is_recorded(kernel, dim, arguments):
    with sim.Tape() as tape:
        sim.launch(kernel, dim, arguments())
    assert len(tape.launches) == 1


def test_blocks_and_rows_of_a_thread_are_known_without_running():
    for kernel, types in ((blocks_of_three, "x y"), (cells_of_a_row, "x")):
        found = next(iter(kernel.specialisations.values()), None) or kernel.specialise(
            tuple(p.type for p in kernel.parameters)
        )
        active = frozenset(range(len(types.split())))
        groups = {p: k for k, p in enumerate(found.func.params)}
        assert not potential_races(found.func, groups, found.differentiated(active, ()).tbr)


@pytest.mark.parametrize("change", ["assign", "numpy"])
def test_the_verdict_follows_the_index_array(change):
    edges, x = table([[0, 1], [2, 3]]), numbers(4)
    with sim.Tape():
        sim.launch(relax_edges, 2, [edges, x])
    if change == "numpy":
        edges.numpy()[1, 0] = 1
    else:
        edges.assign(np.array([[0, 1], [1, 3]], np.int32))
    with sim.Tape(), pytest.raises(sim.GradientError, match="order of the threads"):
        sim.launch(relax_edges, 2, [edges, x])


def test_the_verdict_follows_values_that_decide_places():
    place, x = array([0.5, 1.5, 2.5]), numbers(4)
    with sim.Tape():
        sim.launch(scatter_by_value, 3, [place, x])
        place.assign(np.array([0.5, 1.5, 1.75]))
        with pytest.raises(sim.GradientError, match="order of the threads"):
            sim.launch(scatter_by_value, 3, [place, x])


def test_looking_for_races_changes_nothing():
    place, x = array([0.5, 1.5, 2.5]), numbers(4)
    before = x.numpy().copy()
    with sim.Tape(), pytest.raises(sim.GradientError):
        sim.launch(relax_edges, 2, [table([[0, 1], [1, 2]]), x])
    assert np.array_equal(x.numpy(), before)
    with sim.Tape():
        sim.launch(scatter_by_value, 3, [place, x])
    np.testing.assert_array_equal(x.numpy()[:3], place.numpy() ** 2)


# ------------------------------------------------------------------------------------------------ against a search on
# the host
READ, STORE, ADD, CONSTANT, NOTHING = range(5)


@sim.func
def place(form: int, i: int, n: int, table: sim.array[int]):
    if form == 0:
        return i
    if form == 1:
        return (i + 1) % n
    if form == 2:
        return (2 * i) % n
    if form == 3:
        return n - 1 - i
    if form == 4:
        return 3
    return table[i]


@sim.kernel
def three_accesses(x: sim.array[f64], table: sim.array[int], kinds: sim.vec3i, forms: sim.vec3i, own: sim.array[f64]):
    i = sim.tid()
    for j in range(3):
        at = place(forms[j], i, x.shape[0], table)
        if own[i] > f64(0.0):
            if kinds[j] == READ:
                own[i] = own[i] + x[at] * x[at]
            elif kinds[j] == STORE:
                x[at] = own[i] * own[i]
            elif kinds[j] == ADD:
                x[at] += own[i]
            elif kinds[j] == CONSTANT:
                x[at] = 0.5


def races(kinds, forms, table, active, n):
    """Whether two threads meet at an element in a way that makes the result depend on their order."""
    touched = {}
    for i in active:
        for kind, form in zip(kinds, forms, strict=True):
            at = (i, (i + 1) % n, (2 * i) % n, n - 1 - i, 3, table[i])[form]
            if kind != NOTHING:
                touched.setdefault(at, set()).add((i, kind))
    harmless = ({READ}, {ADD}, {CONSTANT})
    return any(
        a[0] != b[0] and {a[1], b[1]} not in harmless for meeting in touched.values() for a in meeting for b in meeting
    )


def test_random_accesses_are_refused_exactly_where_threads_meet():
    rng, n, found = np.random.default_rng(8), 8, {True: 0, False: 0}
    for case in range(400):
        kinds, forms, table = (
            rng.integers(0, 5, 3),
            rng.integers(0, 6, 3),
            rng.permutation(n) if case % 2 else rng.integers(0, n, n),
        )
        start = np.where(rng.random(4) < 0.8, 0.5, -0.5)
        want = races(kinds, forms, table, np.flatnonzero(start > 0.0), n)
        arguments = [
            numbers(n),
            sim.array(table.astype(np.int32)),
            sim.vec3i(*map(int, kinds)),
            sim.vec3i(*map(int, forms)),
            array(start),
        ]
        try:
            with sim.Tape():
                sim.launch(three_accesses, 4, arguments)
            refused = False
        except sim.GradientError as problem:
            assert "depends on the order of the threads" in str(problem)
            refused = True
        found[want] += 1
        assert refused == want, (case, kinds, forms, table, start)
    assert min(found.values()) > 50
