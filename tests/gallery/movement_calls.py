"""Wrong calls of the imitation of movement; none of them spends anything."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from wrong_calls import DELTA, PRIVATE_ID, UNIT, WrongCall, ledger, shorten

from tacit import hub
from tacit.cli.declarations import Map
from tacit.cli.generate import draw
from tacit.data.mobility import Rules, from_cells, from_plt, from_points
from tacit.data.mobility.days import SLOTS, Days
from tacit.data.mobility.grids import RegularGrid, grid_from_json
from tacit.methods import mobility
from tacit.methods.mobility import Simulator, StartDistribution, TablePolicy, pategail
from tacit.methods.mobility.baselines import BaselinePlan as Baseline
from tacit.privacy.certificate.certificate import Release
from tacit.privacy.vault.devices import StackedDevices
from tacit.privacy.vault.federated_vault import FederatedVault
from tacit.privacy.vault.vault import Vault
from tacit.study.folder import load_release
from tacit.study.movement import Whereabouts, square_grid, translate_errors
from tacit.units import Unit

GRID = RegularGrid(39.9, 116.0, 40.0, 116.1, 0.05)
RULES = Rules("Asia/Shanghai", carry=48, observed=1)
HEADER, HOME = "user,time,lat,lon", "39.95,116.05"
NOON = "2024-05-06T12:00:00+08:00"
BOX = (39.8, 116.0, 40.0, 116.2)


def points(folder: Path, *rows: str, header: str = HEADER, name: str = "points.csv") -> Path:
    path = folder / name
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


def days(people: int = 3) -> Days:
    cells = np.random.default_rng(0).integers(GRID.size, size=(2 * people, SLOTS))
    return Days(cells, np.repeat(np.arange(people), 2), GRID)


def source(**words: object) -> None:
    Whereabouts(source=(Path("points.csv"),), **words).movement("user", 100, None)  # type: ignore[arg-type]


def point_outside_the_grid(folder: Path) -> None:
    from_points(points(folder, f"{PRIVATE_ID},{NOON},12.5,116.05", f"bob,{NOON},{HOME}"), GRID, RULES)


def point_outside_the_grid_of_a_command(folder: Path) -> None:
    path = points(folder, f"{PRIVATE_ID},{NOON},12.5,116.05", f"bob,{NOON},{HOME}")
    with translate_errors():
        from_points(path, GRID, RULES)


def swapped_coordinates(folder: Path) -> None:
    from_points(points(folder, f"{PRIVATE_ID},{NOON},116.05,39.95"), GRID, RULES)


def time_without_a_zone(folder: Path) -> None:
    from_points(points(folder, f"{PRIVATE_ID},{NOON[:19]},{HOME}"), GRID, RULES)


def time_without_a_zone_in_a_command(folder: Path) -> None:
    path = points(folder, f"{PRIVATE_ID},{NOON[:19]},{HOME}")
    with translate_errors():
        from_points(path, GRID, RULES)


def no_zone_of_the_days(folder: Path) -> None:
    Rules()


def zone_that_is_unknown(folder: Path) -> None:
    source(zone="Mars/Base", box=BOX, cell=500.0)


def person_in_two_files(folder: Path) -> None:
    files = [points(folder, f"{PRIVATE_ID},{NOON},{HOME}", name=name) for name in ("one.csv", "two.csv")]
    from_points(files, GRID, RULES)


def unknown_column_of_people(folder: Path) -> None:
    from_points(points(folder, f"{PRIVATE_ID},{NOON},{HOME}", header="phone,time,lat,lon"), GRID, RULES)


def person_without_an_id(folder: Path) -> None:
    from_points(points(folder, f"{PRIVATE_ID},{NOON},{HOME}", f",{NOON},{HOME}"), GRID, RULES)


def times_out_of_order(folder: Path) -> None:
    rows = (f"{PRIVATE_ID},{NOON},{HOME}", f"{PRIVATE_ID},{NOON.replace('12', '11')},{HOME}")
    from_points(points(folder, *rows), GRID, RULES)


def latitude_that_is_no_number(folder: Path) -> None:
    from_points(points(folder, f"{PRIVATE_ID},{NOON},north,116.05"), GRID, RULES)


def no_whole_day(folder: Path) -> None:
    from_points(points(folder, f"{PRIVATE_ID},{NOON},{HOME}"), GRID, Rules("UTC"))


def folder_without_plt_files(folder: Path) -> None:
    (folder / "geolife").mkdir()
    from_plt(folder / "geolife", GRID, RULES)


def cells_of_another_shape(folder: Path) -> None:
    np.savez(folder / "cells.npz", days=np.zeros((2, 24), np.int64), user=np.zeros(2, np.int64))
    from_cells(folder / "cells.npz", GRID, places=None)


def box_too_small(folder: Path) -> None:
    square_grid((39.9, 116.0, 39.901, 116.001), metres=500.0)


def box_with_swapped_coordinates(folder: Path) -> None:
    square_grid((116.0, 39.9, 116.2, 40.0), metres=500.0)


def cell_in_other_units(folder: Path) -> None:
    square_grid(BOX, metres=0.01)


def no_grid(folder: Path) -> None:
    source(zone="UTC", box=BOX)


def grid_of_another_version(folder: Path) -> None:
    grid_from_json({"kind": "triangles"})


def records_and_a_city(folder: Path) -> None:
    source(city=50)


def more_people_than_the_population(folder: Path) -> None:
    with ledger(folder, unit=Unit("person", "add_or_remove", 2), delta=0.1) as own:
        Vault(days().trajectories(), own)


def more_devices_than_the_population(folder: Path) -> None:
    with ledger(folder, unit=Unit("person", "add_or_remove", 2), delta=0.1) as own:
        FederatedVault(StackedDevices(days().trajectories()), own)


def imitation_with_a_delta_above_one_over_the_population(folder: Path) -> None:
    mobility.OneShotPlan().calibrate(unit=UNIT, epsilon=1.0, delta=0.01)


def critics_of_another_population(folder: Path) -> None:
    pategail.recipe("linear", 50).calibrate(unit=UNIT, epsilon=1.0, delta=DELTA)


def copied_starts_and_a_finite_epsilon(folder: Path) -> None:
    pategail.PateGailPlan.paper(100).calibrate(unit=UNIT, epsilon=1.0, delta=DELTA)


def baseline_that_does_not_exist(folder: Path) -> None:
    Baseline(model="magic")  # type: ignore[arg-type]


def homes_outside_the_grid(folder: Path) -> None:
    plan = mobility.OneShotPlan(box=(10.0, 10.0, 11.0, 11.0)).calibrate(unit=UNIT, epsilon=1.0, delta=DELTA)
    mobility.build_contributions(plan, GRID)


def days_on_another_grid(folder: Path) -> None:
    plan = mobility.OneShotPlan().calibrate(unit=UNIT, epsilon=1.0, delta=DELTA)
    with ledger(folder) as own:
        mobility.fit(plan, Vault(days().trajectories(), own), grid=RegularGrid(0.0, 0.0, 1.0, 1.0, 0.1))


def simulator_of_another_version(folder: Path) -> None:
    Simulator.from_json({"format": PRIVATE_ID})


def simulator_with_parts_of_somebodys_own(folder: Path) -> None:
    from tacit.envs.movement import FixedPolicy
    from tacit.envs.spaces import JumpLaw

    law = JumpLaw(GRID, (0.5, 2.0), (1.0,))
    value = Simulator(GRID, FixedPolicy((0.2,) * 5), StartDistribution.uniform(GRID), law)
    hub.save(Release(value, None), folder / "simulator")  # type: ignore[arg-type]


def policy_that_is_no_table_of_probabilities(folder: Path) -> None:
    TablePolicy(mobility.StateLayout(), np.ones((1, 6, 5)))


def simulator_that_is_not_there(folder: Path) -> None:
    load_release(folder / "nowhere", "simulator")


def truncated_simulator(folder: Path) -> None:
    (folder / "simulator").mkdir()
    (folder / "simulator" / "certificate.json").write_text(json.dumps({}))
    for name in (hub.MODEL, hub.CONFIG):
        (folder / "simulator" / name).write_text("{}")
        shorten(folder / "simulator" / name, 1)
    load_release(folder / "simulator", "simulator")


def map_of_real_days(folder: Path) -> None:
    points(folder, f"{PRIVATE_ID},{NOON},{HOME}", name="days.csv")
    draw(Map(source=folder / "days.csv", out=folder / "map.html"))


def no_day_to_draw(folder: Path) -> None:
    draw(Map(source=folder / "nowhere", out=folder / "map.html", days=0))


MOVEMENT_CALLS: tuple[WrongCall, ...] = (
    point_outside_the_grid,
    point_outside_the_grid_of_a_command,
    swapped_coordinates,
    time_without_a_zone,
    time_without_a_zone_in_a_command,
    no_zone_of_the_days,
    zone_that_is_unknown,
    person_in_two_files,
    unknown_column_of_people,
    person_without_an_id,
    times_out_of_order,
    latitude_that_is_no_number,
    no_whole_day,
    folder_without_plt_files,
    cells_of_another_shape,
    box_too_small,
    box_with_swapped_coordinates,
    cell_in_other_units,
    no_grid,
    grid_of_another_version,
    records_and_a_city,
    more_people_than_the_population,
    more_devices_than_the_population,
    imitation_with_a_delta_above_one_over_the_population,
    critics_of_another_population,
    copied_starts_and_a_finite_epsilon,
    baseline_that_does_not_exist,
    homes_outside_the_grid,
    days_on_another_grid,
    simulator_of_another_version,
    simulator_with_parts_of_somebodys_own,
    policy_that_is_no_table_of_probabilities,
    simulator_that_is_not_there,
    truncated_simulator,
    map_of_real_days,
    no_day_to_draw,
)
