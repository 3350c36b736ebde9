import itertools
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.privacy.ledger.persistent import PersistentDict

# CRC-32 maps both words to one value, and so all 32 texts of five of them.
COLLIDING = ["".join(words) for words in itertools.product(("plumless", "buckeroo"), repeat=5)]
KEYS = [*COLLIDING, *(f"plan {number}" for number in range(100)), "", "é", "\ud800"]


def filled(keys: list[str]) -> PersistentDict[int]:
    mapping = PersistentDict[int]()
    for number, key in enumerate(keys):
        mapping = mapping.put(key, number)
    return mapping


def test_the_colliding_keys_collide() -> None:
    assert len({zlib.crc32(key.encode()) for key in COLLIDING}) == 1


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(KEYS), st.none() | st.integers(0, 9)), max_size=300))
def test_every_version_stays_the_dict_that_it_was(moves: list[tuple[str, int | None]]) -> None:
    mapping, model = PersistentDict[int](), dict[str, int]()
    versions = []
    for key, value in moves:
        if value is None:
            mapping = mapping.drop(key)
            model.pop(key, None)
        else:
            mapping = mapping.put(key, value)
            model[key] = value
        versions.append((mapping, dict(model)))
    for version, then in versions:
        assert dict(version) == then
        assert len(version) == len(then)
        assert all(version.get(key) == then.get(key) for key in KEYS)


def test_keys_of_one_checksum_have_values_of_their_own() -> None:
    mapping = filled(KEYS)
    assert len(mapping) == 135
    assert [mapping[key] for key in KEYS] == list(range(135))
    for key in COLLIDING[:31]:
        mapping = mapping.drop(key)
    assert len(mapping) == 104
    assert mapping[COLLIDING[31]] == 31
    assert COLLIDING[0] not in mapping


def test_two_ways_to_the_same_content_are_equal() -> None:
    straight, detour = filled(["a", "b"]), filled(["a", "c"]).put("b", 1).drop("c")
    assert straight == detour
    assert straight != detour.put("b", 2)


@pytest.mark.parametrize("key", [5, None, ("plan",), ["plan"], b"plan"])
def test_what_is_no_text_is_no_key(key: object) -> None:
    mapping = filled(["plan"])
    assert key not in mapping
    assert mapping.get(key) is None
    with pytest.raises(KeyError):
        mapping[key]


def test_a_change_shares_all_but_a_few_nodes_with_the_version_before() -> None:
    def nodes(node: object) -> set[int]:
        return {id(node)}.union(*map(nodes, node)) if isinstance(node, tuple) else {id(node)}

    before = filled([f"plan {number}" for number in range(5000)])
    after = before.put("plan 17", 0)
    assert len(nodes(before.root)) > 500
    assert len(nodes(after.root) - nodes(before.root)) <= 5  # one path from the root to a leaf
