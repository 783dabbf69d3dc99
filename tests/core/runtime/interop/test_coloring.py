"""Colors of graphs: right by looking at every edge, few by what graph theory says of the graph."""

import warnings

import numpy as np
import pytest
from sim.utils import (
    GraphColoringAlgorithm,
    graph_coloring_assign,
    graph_coloring_balance,
    graph_coloring_get_groups,
)

import sim

MCS, GREEDY = GraphColoringAlgorithm.MCS, GraphColoringAlgorithm.GREEDY


def as_edges(pairs):
    return sim.array(np.reshape(pairs, (-1, 2)), dtype=sim.int32)


def colored(pairs, count, algorithm=MCS):
    """Colors of the nodes and how many there are; no edge may join two of one color."""
    colors = sim.zeros(count, dtype=sim.int32)
    used = graph_coloring_assign(as_edges(pairs), colors, algorithm)
    found = colors.numpy().copy()
    check(pairs, found)
    assert sorted(set(found.tolist())) == list(range(used))
    return found, used


def check(pairs, colors):
    pairs = np.reshape(pairs, (-1, 2)).astype(int)
    assert (colors[pairs[:, 0]] != colors[pairs[:, 1]]).all()


def random_graph(seed, count, edges):
    pairs = np.random.default_rng(seed).integers(0, count, (edges, 2))
    return pairs[pairs[:, 0] != pairs[:, 1]]


def triangulated(n):
    """A grid of n x n nodes, with one diagonal in each of its squares."""
    at = np.arange(n * n).reshape(n, n)
    sides = [(at[:, :-1], at[:, 1:]), (at[:-1], at[1:]), (at[:-1, :-1], at[1:, 1:])]
    return np.concatenate([np.stack([a.ravel(), b.ravel()], 1) for a, b in sides])


@pytest.mark.parametrize("algorithm", [MCS, GREEDY, 0, 1])
@pytest.mark.parametrize(("count", "edges"), [(2, 5), (30, 60), (300, 1500)])
def test_no_edge_joins_two_of_one_color(algorithm, count, edges):
    for seed in range(5):
        pairs = random_graph(seed, count, edges)
        _, used = colored(pairs, count, algorithm)
        degrees = np.bincount(np.unique(np.sort(pairs, axis=1), axis=0).ravel(), minlength=count)
        assert used <= degrees.max() + 1


def test_as_few_colors_as_there_can_be():
    """A path and a tree have two, a cycle of odd length three, n nodes that all meet n; a k-tree has k + 1, whatever
    the numbers of its nodes: there the search finds them, as every longer cycle has a chord."""
    assert colored([(i, i + 1) for i in range(9)], 10)[1] == 2
    assert colored([(i, (i - 1) // 2) for i in range(1, 31)], 31)[1] == 2
    assert colored([(i, (i + 1) % 7) for i in range(7)], 7)[1] == 3
    assert colored([(i, j) for i in range(6) for j in range(i)], 6)[1] == 6
    assert colored([], 4)[1] == 1
    assert colored(triangulated(12), 144)[1] == 3
    rng = np.random.default_rng(3)
    for k in (2, 3):
        cliques, pairs, names = [tuple(range(k))], [(i, j) for i in range(k) for j in range(i)], rng.permutation(60)
        for node in range(k, 60):
            base = cliques[rng.integers(len(cliques))]
            pairs += [(node, other) for other in base]
            cliques += [(*base[:i], *base[i + 1 :], node) for i in range(k)]
        assert colored(names[np.array(pairs)], 60)[1] == k + 1


@pytest.mark.parametrize("algorithm", [MCS, GREEDY])
def test_balancing_keeps_colors_right_and_evens_them_out(algorithm):
    for pairs, count in ((random_graph(1, 400, 900), 400), (triangulated(20), 400)):
        colors = sim.zeros(count, dtype=sim.int32)
        used = graph_coloring_assign(as_edges(pairs), colors, algorithm)
        ratio = graph_coloring_balance(as_edges(pairs), colors, used, 1.1)
        sizes = np.bincount(colors.numpy(), minlength=used)
        check(pairs, colors.numpy())
        assert ratio == sizes.max() / sizes.min() <= 1.11


def test_balancing_changes_no_more_than_it_has_to():
    def balanced(pairs, colors, count, target, **limit):
        a = sim.array(np.array(colors), dtype=sim.int32)
        ratio = graph_coloring_balance(as_edges(pairs), a, count, target, **limit)
        check(pairs, a.numpy())
        return ratio, a.list()

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert balanced([], [0, 0, 0, 0, 1], 2, 4.0) == (4.0, [0, 0, 0, 0, 1])
        assert balanced([], [0, 0, 0, 0, 1], 2, 2.0) == (1.5, [1, 0, 0, 0, 1])
        assert balanced([], [0, 0, 0, 0, 0, 1], 2, 2.0, max_iterations=1) == (2.0, [1, 0, 0, 0, 0, 1])
        # a star: its middle is alone in its color, whatever is done
        assert balanced([(0, i) for i in range(1, 6)], [0, 1, 1, 1, 1, 1], 2, 1.0) == (5.0, [0, 1, 1, 1, 1, 1])
        # nodes 2 and 4 of one color and two that cannot leave: the least changes hands, and it ends
        assert balanced([(0, 1), (0, 2), (1, 2)], [0, 1, 2, 0], 3, 1.0)[0] == 2.0
        # node 4 has to give way before anything of the largest group can be moved; better than 3 by moving one
        pairs = [(0, 2), (1, 2), (1, 4), (2, 3), (2, 5), (3, 4), (4, 5)]
        assert balanced(pairs, [1, 1, 0, 1, 2, 1], 3, 1.1)[0] == 1.0
        assert balanced([], [], 0, 1.1) == (1.0, [])
    with pytest.warns(UserWarning, match="3 nodes were given other colors, which was the limit; the ratio is inf"):
        assert balanced([], [0, 0, 0], 4, 1.1)[0] == np.inf
    with pytest.warns(UserWarning, match="0 nodes were given other colors, which was the limit; the ratio is 4"):
        assert balanced([], [0, 0, 0, 0, 1], 2, 1.1, max_iterations=0) == (4.0, [0, 0, 0, 0, 1])


def test_groups_are_the_nodes_of_each_color():
    colors = sim.array([0, 2, 0, 1, 2, 0], dtype=sim.int32)
    groups = graph_coloring_get_groups(colors, 4)
    assert [g.list() for g in groups] == [[0, 2, 5], [3], [1, 4], []]
    assert {g.dtype for g in groups} == {sim.int32}
    of_numpy = graph_coloring_get_groups(colors, 3, return_wp_array=False)
    assert [g.tolist() for g in of_numpy] == [[0, 2, 5], [3], [1, 4]] and of_numpy[0].dtype == np.int32


def test_views_are_colored_in_place():
    edges = as_edges([(0, 1), (2, 0), (1, 9), (9, 9)])[:2]
    both = sim.full((3, 2), -1, dtype=sim.int32)
    assert graph_coloring_assign(edges, both[:, 1]) == 2
    assert both.numpy().tolist() == [[-1, 0], [-1, 1], [-1, 1]]


@pytest.mark.parametrize(
    ("what", "said"),
    [
        (lambda e, c: graph_coloring_assign(as_edges([(0, 1), (1, 3)]), c), "edge 1 joins nodes 1 and 3; there are"),
        (lambda e, c: graph_coloring_assign(as_edges([(-1, 1)]), c), "edge 0 joins nodes -1 and 1"),
        (lambda e, c: graph_coloring_assign(as_edges([(2, 2)]), c), "edge 0 joins node 2 with itself"),
        (lambda e, c: graph_coloring_assign(e, sim.zeros(0, dtype=sim.int32)), "edge 0 joins nodes 0 and 1"),
        (lambda e, c: graph_coloring_assign(as_edges([]), sim.zeros(0, dtype=sim.int32)), "the graph is empty"),
        (lambda e, c: graph_coloring_assign(e, sim.zeros(3)), r"node_colors is an array of shape \(3,\) of float32"),
        (lambda e, c: graph_coloring_assign(c, c), r"edges is an array of shape \(3,\) of int32"),
        (lambda e, c: graph_coloring_assign([(0, 1)], c), "edges is a list"),
        (lambda e, c: graph_coloring_assign(e, c, 2), "there is no algorithm 2; there are MCS, GREEDY"),
        (lambda e, c: graph_coloring_balance(e, c, 2, 1.1), "nodes 0 and 1 have color 0 both"),
        (lambda e, c: graph_coloring_balance(as_edges([(0, 7)]), c, 2, 1.1), "edge 0 joins nodes 0 and 7"),
        (lambda e, c: graph_coloring_balance(as_edges([]), c, 0, 1.1), "node 0 has color 0; color_count=0"),
        (lambda e, c: graph_coloring_get_groups(c, 0), "node 0 has color 0"),
    ],
)
def test_what_is_no_graph_is_an_error(what, said):
    with pytest.raises(sim.utils.UtilityError, match=said):
        what(as_edges([(0, 1)]), sim.zeros(3, dtype=sim.int32))


def test_limits_that_are_none():
    given = (as_edges([]), sim.zeros(3, dtype=sim.int32), 1, 1.1)
    for limit, kind in ((-1, ValueError), (2**31, ValueError), (True, TypeError), (1.5, TypeError), ("1", TypeError)):
        with pytest.raises(kind, match="max_iterations is"):
            graph_coloring_balance(*given, max_iterations=limit)
