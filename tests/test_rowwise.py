"""A row's bits are its own: beside any others, in any place of a batch and of memory, in any layout, on any threads."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest

from tacit import rowwise
from tacit.agents.policies import Policy
from tacit.data.spec import Box, Discrete, PublicSpec

SHAPES = ((1, 1), (3, 2), (5, 3), (8, 4), (16, 5), (20, 20), (32, 6), (64, 2), (64, 17), (128, 64), (300, 3))


def placed(rows, offset):
    """A copy that begins so many entries behind a multiple of 64 bytes."""
    memory = np.empty(rows.nbytes + 64 + offset * rows.itemsize, np.uint8)
    start = -memory.ctypes.data % 64 + offset * rows.itemsize
    copy = memory[start : start + rows.nbytes].view(rows.dtype).reshape(rows.shape)
    copy[...] = rows
    return copy


def wide(rng, shape, dtype):
    return (rng.normal(size=shape) * np.exp(3 * rng.normal(size=shape))).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_row_of_a_product_is_the_same_beside_any_others(shape, dtype):
    rng = np.random.default_rng(shape)
    w, x = wide(rng, shape, dtype), wide(rng, (400, shape[0]), dtype)
    w[:, -1] = w[:, 0]
    whole = rowwise.product(x, w)
    assert np.array_equal(whole[:, 0], whole[:, -1])  # two actions that tie
    for size in range(1, 301):
        start, offset = rng.integers(100), rng.integers(8)
        part = placed(x[start : start + size], offset)
        assert np.array_equal(rowwise.product(part, placed(w, offset)), whole[start : start + size])
        if size % 50 == 1:
            turned = np.asfortranarray(part)
            assert np.array_equal(rowwise.product(turned, np.asfortranarray(w)), whole[start : start + size])
            assert np.array_equal(rowwise.product(part[::-1], w)[::-1], whole[start : start + size])


@pytest.mark.skipif(rowwise._compiled is None, reason="installed without a compiler")
def test_the_compiled_twin_gives_the_same_bits(monkeypatch):
    rng = np.random.default_rng(4)
    cases = []
    for _ in range(200):
        n, k, m = rng.integers(1, 40), rng.integers(1, 200), rng.integers(1, 60)
        x = rng.normal(size=(n, k)) * 10.0 ** rng.integers(-300, 300, (n, 1))
        x[rng.random((n, k)) < 0.2] = 0.0
        x[rng.random((n, k)) < 0.001] = rng.choice([np.nan, np.inf, 5e-324])
        cases.append((x, rng.normal(size=(k, m)) * 10.0 ** rng.integers(-100, 100, (1, m))))
    compiled = [rowwise.product(x, w) for x, w in cases]
    monkeypatch.setattr(rowwise, "_compiled", None)
    with np.errstate(all="ignore"):
        for (x, w), found in zip(cases, compiled, strict=True):
            np.testing.assert_array_equal(found, rowwise.product(x, w))


def test_no_product_inside_is_rounded():
    """Compared with whole numbers of any length: the sums are those of the split entries, in every row."""
    rng = np.random.default_rng(0)
    x, w = wide(rng, (6, 37), np.float64), wide(rng, (37, 4), np.float64)
    x1, x2, e = rowwise._split(x, 23)
    w1, w2, f = rowwise._split(w.T, 23)
    for i, j in itertools.product(range(6), range(4)):
        heavy = sum(Fraction(a) * Fraction(b) for a, b in zip(x1[i], w1[j], strict=True))
        light = sum(
            Fraction(a) * Fraction(b) + Fraction(c) * Fraction(d)
            for a, b, c, d in zip(x1[i], w2[j], x2[i], w1[j], strict=True)
        )
        assert Fraction(float(heavy)) == heavy
        assert Fraction(float(light)) == light
        assert rowwise.product(x, w)[i, j] == (float(light) + float(heavy)) * e[i, 0] * f[j, 0]
        exact = sum(Fraction(a) * Fraction(b) for a, b in zip(x[i], w[:, j], strict=True))
        assert abs(Fraction(rowwise.product(x, w)[i, j]) - exact) <= 37 * Fraction(2) ** -44 * Fraction(
            float(np.abs(x[i]).max() * np.abs(w[:, j]).max())
        )


def test_groups_have_products_of_their_own():
    rng = np.random.default_rng(1)
    x, w = rng.normal(size=(70, 9, 5)), rng.normal(size=(70, 5, 3))
    every = rowwise.product(x, w)
    assert np.array_equal(every, np.stack([rowwise.product(a, b) for a, b in zip(x, w, strict=True)]))
    assert every == pytest.approx(x @ w, abs=1e-12)


def test_edges_are_zeros_tiny_huge_and_nothing():
    w = np.array([[1.0, -2.0], [0.5, 4.0]])
    assert rowwise.product(np.array([[0.0, 0.0], [4.0, 2.0]]), w).tolist() == [[0.0, 0.0], [5.0, 0.0]]
    assert rowwise.product(np.zeros((0, 2)), w).shape == (0, 2)
    assert rowwise.product(np.zeros((3, 0)), np.zeros((0, 2))).tolist() == [[0.0, 0.0]] * 3
    tiny, huge = np.array([[2.0**-980, 0.0]]), np.array([[2.0**1020, 2.0**-1020]])
    assert rowwise.product(tiny, w)[0].tolist() == [2.0**-980, -(2.0**-979)]
    assert rowwise.product(huge, w)[0].tolist() == [2.0**1020, -(2.0**1021)]


FUNCTIONS = {"softmax": rowwise.softmax, "tanh": rowwise.tanh}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_a_row_are_the_same_beside_any_others(name):
    function, rng = FUNCTIONS[name], np.random.default_rng(2)
    for actions in (2, 3, 8, 17):
        x = 3 * rng.normal(size=(400, actions))
        whole = function(x)
        for size in range(1, 301):
            start = rng.integers(100)
            part = placed(x[start : start + size], rng.integers(8))
            assert np.array_equal(function(part), whole[start : start + size])
            if size % 50 == 1:
                assert np.array_equal(function(np.asfortranarray(part)), whole[start : start + size])
                assert np.array_equal(function(part[::-1])[::-1], whole[start : start + size])


def test_softmax_and_best_are_those_of_the_field():
    values = np.array([[0.0, np.log(3.0)], [2.0, 2.0]])
    assert rowwise.softmax(values) == pytest.approx(np.array([[0.25, 0.75], [0.5, 0.5]]))
    assert rowwise.argmax(values).tolist() == [1, 0]
    assert rowwise.one_hot(values).tolist() == [[0, 1], [1, 0]]


THREADS = """
import hashlib, numpy as np
from tacit import rowwise
rng = np.random.default_rng(0)
x, w = rng.normal(size=(3000, 96)), rng.normal(size=(96, 64))
print(hashlib.sha256(rowwise.product(x, w).tobytes()).hexdigest())
"""


def test_the_number_of_threads_changes_nothing():
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    digests = {
        subprocess.run(
            [sys.executable, "-c", THREADS],
            env=os.environ | dict.fromkeys(names, str(threads)),
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for threads in (1, 2)
    }
    assert len(digests) == 1


@pytest.mark.parametrize("replicates", [1, 3])
@pytest.mark.parametrize("greedy", [True, False])
def test_nobody_s_action_depends_on_who_else_acts(replicates, greedy):
    spec = PublicSpec(
        observation=Box((-1.0,) * 4, (1.0,) * 4), action=Discrete(3), reward=Box((0.0,), (1.0,)), source="declared"
    )
    policy, rng = Policy.default(spec, hidden=(32, 32)), np.random.default_rng(3)
    theta = policy.initial_parameters(rng, replicates)
    last = policy.network.layers(theta)[-1]
    last[..., 2] = last[..., 0]  # actions 0 and 2 tie
    seen = rng.uniform(-1, 1, (replicates * 60, 4)).astype(np.float32)
    replicate = np.repeat(np.arange(replicates), 60)
    outputs = policy.network.forward_rowwise(theta, policy.features(seen).reshape(replicates, 60, 4))
    assert np.array_equal(outputs[..., 0], outputs[..., 2])
    assert outputs == pytest.approx(policy.network.forward(theta, seen.reshape(replicates, 60, 4))[0], abs=1e-6)
    every = policy.act(theta, seen, replicate, Fixed(), greedy=greedy)
    for gone in range(1, 60):
        kept = np.arange(len(seen)) % 60 >= gone
        some = policy.act(theta, seen[kept], replicate[kept], Fixed(), greedy=greedy)
        assert np.array_equal(some, every[kept])


class Fixed:
    """A generator whose numbers are everybody's the same."""

    def exponential(self, size=None, **_):
        return np.ones(size)

    def random(self, size=None, **_):
        return np.full(size, 0.5)

    def standard_exponential(self, size=None, **_):
        return np.ones(size, np.float32)
