"""Fragments are cut where episodes begin and end, and their rows follow each other exactly."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from trajectory_cases import clinic_courses, codec_of, cut_of, maze_episodes, waiting_rooms

from tacit.data.trajectories import Trajectories
from tacit.methods.synthesis.trajectories import public_encoder
from tacit.methods.synthesis.trajectories.fragments import FragmentEncoder


def test_a_fragment_begins_with_the_episode_or_behind_its_condition() -> None:
    data = maze_episodes(3)
    codec = codec_of(data)
    condition, steps, mask = cut_of(data, codec, [0, 1, 50])
    assert condition.begins.tolist() == [1.0, 0.0, 0.0]
    torch.testing.assert_close(condition.time * 300, torch.tensor([0.0, 2.0, 51.0]))
    rows = torch.tensor(np.asarray(data.columns["observations"]))
    for place, first in enumerate((0, 2, 51)):
        torch.testing.assert_close(condition.first[place], codec.encode_observation(rows[first : first + 1])[0])
    assert not condition.previous[0].any()
    assert condition.previous[1].any()
    assert mask.all()
    assert steps.shape == (3, 8, codec.step_size)


def test_endings_tell_after_how_many_rows_and_whether_by_termination() -> None:
    data = waiting_rooms(6)  # lengths 1, 4, 4, 4, 4, 1
    codec = codec_of(data, horizon=4, longest=4)
    condition, _, mask = cut_of(data, codec, [0, 1, 2, 3, 4])
    assert condition.ending.tolist() == [1, 4 + 4, 4 + 2, 4 + 1, 0]
    assert mask.sum(-1).tolist() == [1, 4, 2, 1, 0]
    flags = codec.flags(condition.ending)
    assert flags[0].tolist() == [[1, 1, 0], [0, 0, 0], [0, 0, 0], [0, 0, 0]]
    assert flags[2, 1].tolist() == [1, 0, 1]
    assert flags[:4, :, 0].bool().equal(mask[:4])


def test_an_episode_without_any_flag_ends_where_its_rows_do() -> None:
    data = maze_episodes(2)
    columns = {name: np.asarray(column) for name, column in data.columns.items()}
    columns["truncations"] = np.zeros(len(columns["rewards"]), bool)
    owner = np.repeat([0, 1], np.diff(data.episodes))
    bare = Trajectories.from_arrays(**columns, unit_ids=owner, episode_ids=owner, spec=data.spec, simulated=True)
    last = int(data.episodes[1])
    condition, _, _ = cut_of(bare, codec_of(bare), [last - 5, last - 9, last - 10])
    assert condition.ending.tolist() == [4, 8, 0]


@pytest.mark.parametrize("make", [maze_episodes, clinic_courses, waiting_rooms])
def test_decoded_rows_are_the_real_ones_and_link_exactly(make: type) -> None:
    data: Trajectories = make()
    codec = codec_of(data, horizon=4)
    starts = data.episodes[:-1][np.diff(data.episodes) >= 4][:20]
    condition, steps, mask = cut_of(data, codec, starts.tolist())
    real = {name: torch.tensor(np.asarray(column)) for name, column in data.columns.items()}
    rows, after = codec.decode(real["observations"][starts], steps)
    assert torch.equal(rows["observations"][:, 1:], rows["next_observations"][:, :-1])
    assert torch.equal(rows["next_observations"][:, -1], after)
    for name, column in rows.items():
        expected = torch.stack([real[name][start : start + 4] for start in starts])
        torch.testing.assert_close(column[mask], expected[mask], atol=2e-3, rtol=1e-4)
    places = codec.places(condition.first, steps)
    observed = codec.encode_observation(rows["observations"].flatten(0, 1)).view_as(places)
    torch.testing.assert_close(places[mask], observed[mask], atol=2e-3, rtol=1e-3)


def test_seen_undoes_observed() -> None:
    for data in (maze_episodes(2), waiting_rooms()):
        codec = codec_of(data)
        raw = torch.tensor(np.asarray(data.columns["observations"])[:10])
        torch.testing.assert_close(codec.decode_observation(codec.encode_observation(raw)), raw, atol=1e-5, rtol=1e-5)


def test_numbers_of_few_public_values_keep_to_them() -> None:
    data = clinic_courses(400)
    encoder = public_encoder(data.spec, data)
    seen = np.asarray(data.columns["observations"])
    assert encoder.atoms[:4] == ((), (), (), ())
    assert encoder.atoms[4] == (0.0, 1.0)  # addicted or not
    assert encoder.atoms[5] == tuple(np.unique(seen[:, 5]).tolist())  # the number of the visit
    assert encoder.atoms[6] == tuple(np.unique(data.columns["rewards"]).tolist())
    steps = torch.randn(20, 8, FragmentEncoder(encoder, 8, 30).step_size, generator=torch.Generator().manual_seed(0))
    rows, _ = FragmentEncoder(encoder, 8, 30).decode(torch.tensor(seen[:20]), steps)
    assert set(rows["rewards"].ravel().tolist()) <= set(encoder.atoms[6])
    assert set(rows["next_observations"][..., 4].ravel().tolist()) <= {0.0, 1.0}
    assert public_encoder(data.spec, clinic_courses(3)).atoms == ((),) * 7  # of so few rows nothing is known
    maze = maze_episodes(60)
    assert not any(public_encoder(maze.spec, maze).atoms)


def test_public_steps_have_a_usual_size_even_where_they_are_constant() -> None:
    for data in (maze_episodes(20), clinic_courses(), waiting_rooms()):
        codec = FragmentEncoder(public_encoder(data.spec, data), 4, 30)
        assert codec.encoder.spec == data.spec
        _, steps, mask = cut_of(data, codec, data.episodes[:-1].tolist())
        assert float(steps[mask].abs().max()) < 20
        if data.spec.observation.size == 6:  # the clinic: no addiction changes, every visit is the next one
            assert not steps[mask][:, -2].any()
            torch.testing.assert_close(steps[mask][:, -1], torch.ones(int(mask.sum())))
