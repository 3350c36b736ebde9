"""Where days begin: homes of a person, vectors of norm 1, what is read out of a noisy mean, and simulated starts."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest
from tests.geolife import GRID as CHINA
from tests.geolife import PEOPLE, geolife

from tacit.data.mobility.days import Days, spec_of
from tacit.data.mobility.grids import H3Grid, RegularGrid
from tacit.errors import DataError
from tacit.evaluation.movement.measures import jensen_shannon
from tacit.methods.mobility import blocks
from tacit.methods.mobility.blocks import Level, estimate_probabilities
from tacit.methods.mobility.places import CLIP, STARTS, Homes, HomeSums, StartDistribution
from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.privacy.mechanisms.device_sums import sum_over_all
from tacit.privacy.vault import plan as plans
from tacit.privacy.vault.devices import StackedDevices
from tacit.privacy.vault.federated_vault import FederatedVault
from tacit.privacy.vault.invented import invented_rows
from tacit.privacy.vault.plan import PrivatePlan
from tacit.privacy.vault.vault import Vault
from tacit.units import Unit
from tacit_worlds import city

GRID = RegularGrid(0.0, 0.0, 0.9, 0.9, 0.1)  # 10 x 10 cells
HALVES = 0.5**0.5


def homes_of(days, people):
    """What the summary keeps of everybody: homes [U, most days]."""
    order = np.argsort(days.person, kind="stable")
    count = np.bincount(days.person, minlength=people)
    at = np.arange(len(order)) - np.repeat(np.cumsum(count) - count, count)
    homes = np.full((people, max(1, count.max())), -1)
    homes[days.person[order], at] = days.cells[order, 0]
    return {"homes": homes}


def noisy(sums, homes, noise, seed):
    exact = sums(homes).sum(axis=0) / sums.people
    return exact + np.random.default_rng(seed).normal(0, noise, sums.size)


def by_cell(starts):
    """The probability of every cell, each of a block's the same."""
    block = starts.grid.coarsen(np.arange(starts.grid.size), starts.factor)
    return (starts.probabilities / np.bincount(block))[block]


# -- what a person adds -----------------------------------------------------------------------------------------------


def test_vectors_are_histograms_of_norm_one():
    sums = HomeSums(GRID, 3, 5, None)
    assert sums.size == 4
    # Cells 0, 4 and 44 lie in the south-western of the four blocks, 5 in the south-eastern, 99 in the north-eastern.
    found = sums({"homes": np.array([[0, 4, 44, 5], [99, 99, -1, -1], [-1, -1, -1, -1]])})
    assert found == pytest.approx(np.array([[3, 1, 0, 0], [0, 0, 0, 10**0.5], [0, 0, 0, 0]]) / 10**0.5)
    both = HomeSums(GRID, 3, 5, 2)({"homes": np.array([[0, 5], [99, -1]])})
    assert both == pytest.approx(np.array([[1, 1, 0, 0, 2], [0, 0, 0, 3**0.5, 3**0.5]]) / 6**0.5)


def test_the_homes_of_rows_are_the_first_cells_of_whole_days():
    cells = np.array([[7] * 48, [8] * 20 + [9] * 28, [3] * 48])
    days = Days(cells, np.array([0, 0, 1]), GRID)
    data = days.trajectories(simulated=True)
    rows = {name: np.zeros((2, 100), column.dtype) for name, column in data.columns.items()}
    mask, starts = np.zeros((2, 100), bool), np.zeros((2, 100), bool)
    for person, (first, last) in enumerate(((0, 94), (94, 141))):
        for name, column in data.columns.items():
            rows[name][person, : last - first] = column[first:last]
        mask[person, : last - first], starts[person, 0 : last - first : 47] = True, True
    assert Homes()({**rows, "mask": mask, "starts": starts})["homes"].tolist() == [[7, 8], [3, -1]]
    mask[0, 93] = False  # the second day is cut
    assert Homes()({**rows, "mask": mask, "starts": starts})["homes"].tolist() == [[7, -1], [3, -1]]


def test_decoys_have_homes_of_norm_at_most_one():
    rows = invented_rows(spec_of(GRID), 20, 200, seed=1, rows_of="first")
    norms = np.linalg.norm(HomeSums(GRID, 20, 2, 2)(Homes()(rows)), axis=1)
    assert ((norms == 0) | (np.abs(norms - 1) < 1e-12)).all()


@dataclass(frozen=True, kw_only=True)
class OneSum(PrivatePlan):
    """The starts alone."""

    method: ClassVar[str] = "test"
    source: ClassVar[str] = "this test"
    noise_multiplier: float | None = None

    def parts(self):
        return (sum_over_all(6, name=STARTS, clip_norm=CLIP, noise_multiplier=self.noise_multiplier, rows_per_unit=94),)


@pytest.mark.parametrize("federated", [False, True])
def test_both_vaults_release_the_mean_of_the_vectors(tmp_path, federated):
    rng = np.random.default_rng(0)
    days = Days(np.repeat(rng.integers(0, 100, (10, 1)), 48, axis=1), np.arange(10) % 6, GRID)
    unit = Unit("person", "add_or_remove", 6)
    ledger = Ledger(tmp_path / "ledger", unit, epsilon=1e6, delta=1e-2, composition=SUM)
    source = days.trajectories(simulated=True)
    opened = FederatedVault(StackedDevices(source), ledger) if federated else Vault(source, ledger)
    plan = plans.account(replace(OneSum(), noise_multiplier=0.04), unit=unit, delta=1e-3)
    sums = HomeSums(GRID, 6, 2, 2)
    run = opened.reserve(plan)
    found = opened.noisy_sum(run, STARTS, sums)
    expected = sums(homes_of(days, 6)).sum(axis=0) / 6
    assert found.shape == (1, sums.size)
    assert np.abs(found[0] - expected).max() < 6 * 0.04 / 6
    assert np.abs(found[0] - expected).max() > 0


# -- the public rule --------------------------------------------------------------------------------------------------


def test_blocks_follow_the_noise_and_nothing_else():
    assert blocks.side_km(RegularGrid(-0.05, 0.0, 0.05, 1.0, 0.01)) == pytest.approx(1.112, abs=1e-3)
    sizes = [HomeSums.for_people(CHINA, 83, noise).factor for noise in (1e-3, 0.01, 0.044, 0.1, 0.5)]
    assert sizes == sorted(sizes)
    assert HomeSums.for_people(CHINA, 83, 0.044) == HomeSums(CHINA, 83, 10, 8)
    assert HomeSums.for_people(city.GRID, 9_481, 4e-4) == HomeSums(city.GRID, 9_481, 5, None)
    assert HomeSums.for_people(city.GRID, 83, 0.0).factor == 1
    wide = HomeSums.for_people(CHINA, 100_000, 0.0)
    assert wide.size * 100_000 <= blocks.NUMBERS < CHINA.size * 100_000


# -- what is read -----------------------------------------------------------------------------------------------------


def test_without_noise_what_is_read_is_what_people_added():
    homes = {"homes": np.array([[0], [0], [0], [99]])}
    for farther in (None, 2):
        starts = HomeSums(GRID, 4, 1, farther).read(HomeSums(GRID, 4, 1, farther)(homes).mean(axis=0), 0.0)
        assert starts.probabilities[[0, 99]] == pytest.approx([0.75, 0.25], abs=1e-4)
        assert starts.probabilities.sum() == pytest.approx(1, abs=1e-12)


def test_a_town_is_found_in_a_large_country_and_noise_is_not_a_town():
    """Three in five people in one of 4,096 blocks, at a noise of 3 % of the people; the others anywhere."""
    big = RegularGrid(0.0, 0.0, 6.3, 6.3, 0.1)
    sums, noise = HomeSums(big, 100, 1, 8), 0.03
    rng = np.random.default_rng(3)
    homes = {"homes": np.where(np.arange(100) < 60, 777, rng.integers(0, big.size, 100))[:, None]}
    found = [sums.read(noisy(sums, homes, noise, seed), noise).probabilities for seed in range(10)]
    assert np.mean([p[777] for p in found]) == pytest.approx(0.6, abs=0.12)
    nobody = [sums.read(np.random.default_rng(s).normal(0, noise, sums.size), noise).probabilities for s in range(10)]
    assert np.median([p.max() for p in nobody]) < 0.25


def test_reading_looks_at_the_mean_and_the_noise_alone():
    sums = HomeSums.for_people(GRID, 50, 0.05)
    mean = np.random.default_rng(0).normal(0.1, 0.05, sums.size)
    one, other = sums.read(mean, 0.05), sums.read(mean[None], 0.05)
    assert (one.probabilities == other.probabilities).all()
    assert (one.probabilities >= 0).all()


def test_cells_add_up_to_their_parents():
    rng = np.random.default_rng(0)
    parent = np.repeat(np.arange(4), 25)
    coarse, fine = np.array([0.7, 0.3, 0.0, 0.0]), np.zeros(100)
    fine[:25], fine[30] = 0.7 / 25, 0.3
    levels = [
        Level(coarse + rng.normal(0, 0.01, 4), 0.01, np.zeros(4, np.int64)),
        Level(fine + rng.normal(0, 0.01, 100), 0.01, parent),
    ]
    found = estimate_probabilities(levels, np.full(100, 0.01))
    assert np.bincount(parent, found) == pytest.approx(coarse, abs=0.03)
    assert found[30] == pytest.approx(0.3, abs=0.03)


def test_a_declared_box_holds_what_nobody_is_seen_to_hold():
    box = (0.0, 0.0, 0.15, 0.15)
    sums = HomeSums(GRID, 10, 1, None, box)
    latitude, longitude = GRID.centres(np.arange(100)).T
    inside = (latitude < 0.15) & (longitude < 0.15)
    homes = {"homes": np.array([0, 1, 10, 11, 0, 1, 10, 11, 0, 55])[:, None]}
    held = [
        [s.read(noisy(s, homes, 0.3, seed), 0.3).probabilities[inside].sum() for seed in range(10)]
        for s in (sums, HomeSums(GRID, 10, 1, None))
    ]
    assert np.mean(held[0]) > 0.7 > 0.4 > np.mean(held[1])
    uniform = StartDistribution.uniform(GRID, box=box)
    assert uniform.probabilities.max() == 0.25
    assert set(uniform.draw(200, np.random.default_rng(0)).tolist()) == {0, 1, 10, 11}
    with pytest.raises(DataError, match="holds no block"):
        HomeSums(GRID, 10, 1, None, (50.0, 0.0, 51.0, 1.0))


def test_city_homes_of_ten_thousand_people_are_close_at_epsilon_two():
    made = city.city(9_481, 4, seed=1)
    noise = 1 / (0.502 * 0.3**0.5 * 9_481)  # mu of epsilon 2 at delta 1e-5, three tenths of rho
    sums = HomeSums.for_people(made.days.grid, 9_481, noise)
    truth = np.bincount(made.days.cells[:, 0], minlength=made.days.grid.size).astype(float)
    homes = homes_of(made.days, 9_481)
    cells = np.arange(made.days.grid.size)
    for seed in range(3):
        found = by_cell(sums.read(noisy(sums, homes, noise, seed), noise))
        apart = [
            jensen_shannon(np.bincount(at, truth), np.bincount(at, found))
            for at in (made.days.grid.coarsen(cells, 6), made.days.grid.coarsen(cells, 12))
        ]
        assert apart[0] < 0.012  # blocks of 3 km
        assert apart[1] < 0.006  # of 6 km


def test_geolife_homes_are_found_at_epsilon_two():
    days = geolife()["days"]
    noise = 1 / (0.502 * 0.3**0.5 * PEOPLE)
    sums, homes = HomeSums.for_people(CHINA, PEOPLE, noise), homes_of(days, PEOPLE)
    truth = np.bincount(CHINA.coarsen(days.cells[:, 0], 10), minlength=CHINA.coarse_grid(10).size).astype(float)
    assert sums.factor == 10
    apart = [jensen_shannon(truth, sums.read(noisy(sums, homes, noise, s), noise).probabilities) for s in range(10)]
    assert np.mean(apart) < 0.19
    assert max(apart) < 0.28


# -- simulated starts -------------------------------------------------------------------------------------------------


def test_drawn_blocks_have_their_probabilities_and_homes_stay_the_same():
    p = np.zeros(25)
    p[[0, 7, 24]] = 0.5, 0.3, 0.2
    starts = StartDistribution(GRID, 2, p, homes=40)
    first, again = (starts.draw(20_000, np.random.default_rng(seed)) for seed in (0, 1))
    share = np.bincount(GRID.coarsen(first, 2), minlength=25) / 20_000
    assert share == pytest.approx(p, abs=0.015)
    assert set(first.tolist()) == set(again.tolist())
    assert len(starts.draw(0, np.random.default_rng(0))) == 0
    anew = StartDistribution(GRID, 2, p).draw(20_000, np.random.default_rng(0))
    assert np.bincount(anew, minlength=100).max() == pytest.approx(20_000 * 0.125, rel=0.1)


def test_zipf_weights_the_homes_of_a_block():
    large = RegularGrid(0.0, 0.0, 9.99, 9.99, 0.01)
    p = np.zeros(100)
    p[3] = 1.0
    counts = np.bincount(StartDistribution(large, 100, p, homes=3).draw(60_000, np.random.default_rng(0)))
    assert np.sort(counts)[::-1][:3] / 60_000 == pytest.approx([6 / 11, 3 / 11, 2 / 11], abs=0.01)


def test_starts_go_to_json_and_back():
    starts = HomeSums(GRID, 9, 2, None).read(np.random.default_rng(0).normal(0.1, 0.1, 25), 0.1)
    back = StartDistribution.from_json(starts.to_json())
    assert back.probabilities == pytest.approx(starts.probabilities, rel=1e-7)
    draws = [s.draw(200, np.random.default_rng(5)).tolist() for s in (starts, back)]
    assert draws[0] == draws[1]
    for broken in ({}, {**starts.to_json(), "blocks": [99]}, {**starts.to_json(), "homes": -1}):
        with pytest.raises(DataError):
            StartDistribution.from_json(broken)
    with pytest.raises(DataError, match="no distribution"):
        StartDistribution(GRID, 2, np.full(25, 0.05))


def test_starts_on_hexagons():
    pytest.importorskip("h3")
    grid = H3Grid(39.8, 116.2, 40.0, 116.5, 8)
    sums = HomeSums.for_people(grid, 30, 0.01)
    assert sums.factor >= 1
    truth = grid.size // 2
    homes = {"homes": np.full((30, 1), truth)}
    starts = sums.read(noisy(sums, homes, 0.01, 0), 0.01)
    assert starts.probabilities[grid.coarsen(np.array([truth]), sums.factor)[0]] > 0.8
    assert (starts.draw(50, np.random.default_rng(0)) < grid.size).all()


def test_uniform_starts_of_a_large_grid_are_uniform_blocks():
    starts = StartDistribution.uniform(CHINA, box=(39.4, 115.8, 40.6, 117.2))
    cells = starts.draw(4_000, np.random.default_rng(0))
    latitude, longitude = CHINA.centres(cells).T
    assert (starts.factor, len(np.unique(starts.probabilities))) == (10, 2)
    assert (latitude.min(), latitude.max()) == pytest.approx((39.4, 40.59), abs=0.02)
    assert (longitude.min(), longitude.max()) == pytest.approx((115.8, 117.19), abs=0.02)
    assert np.bincount(cells).max() <= 5
