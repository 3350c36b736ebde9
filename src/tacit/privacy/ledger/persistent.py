"""A mapping whose every version stays as it is: a change makes a new one that shares all but a few nodes with the old.

A trie of the keys' checksums (Bagwell, *Ideal hash trees*, 2001) with small dicts as leaves. Everybody who holds a
version sees it whole, whatever becomes of later ones.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

Value = TypeVar("Value")
Leaf: TypeAlias = dict[str, Value]
"""Never changed once it is in a tree."""
Node: TypeAlias = "Leaf[Value] | tuple[Node[Value], ...]"

_WIDTH = 16  # branches of a node; a leaf with more keys becomes a node
_BITS = 4  # of a checksum say which branch of a node a key takes
_DEPTH = 8  # where the 32 bits of a checksum are used up: leaves there hold any number of keys


@dataclass(frozen=True, eq=False)
class PersistentDict(Mapping[str, Value]):
    """An immutable dict whose keys are texts, in no particular order; `PersistentDict()` is empty."""

    # Looking a key up, `put` and `drop` take time logarithmic in the number of keys. What is no text is no key. Keys
    # with one checksum share a leaf: many of them cost time, and nothing else.

    root: Node[Value] = field(default_factory=dict)
    size: int = 0  # number of keys

    def __getitem__(self, key: str) -> Value:
        if not isinstance(key, str):
            raise KeyError(key)
        node, left = self.root, _checksum(key)
        while isinstance(node, tuple):
            node, left = node[left % _WIDTH], left >> _BITS
        return node[key]

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[str]:
        return _keys(self.root)

    def put(self, key: str, value: Value) -> PersistentDict[Value]:
        """The version in which the key has this value."""
        return PersistentDict(_put(self.root, 0, key, _checksum(key), value), self.size + (key not in self))

    def drop(self, key: str) -> PersistentDict[Value]:
        """The version without the key, if it is there."""
        return PersistentDict(_drop(self.root, key, _checksum(key)), self.size - (key in self))


def _checksum(key: str) -> int:
    """32 bits, the same in every process."""
    return zlib.crc32(key.encode("utf-8", "surrogatepass"))


def _put(node: Node[Value], depth: int, key: str, left: int, value: Value) -> Node[Value]:
    """The node with the key; `left` is what the nodes above, `depth` of them, have not used of its checksum."""
    if isinstance(node, tuple):
        at = left % _WIDTH
        return (*node[:at], _put(node[at], depth + 1, key, left >> _BITS, value), *node[at + 1 :])
    leaf = {**node, key: value}
    if len(leaf) <= _WIDTH or depth == _DEPTH:
        return leaf
    branches: list[Leaf[Value]] = [{} for _ in range(_WIDTH)]
    for name, held in leaf.items():
        branches[(_checksum(name) >> _BITS * depth) % _WIDTH][name] = held
    return tuple(branches)


def _drop(node: Node[Value], key: str, left: int) -> Node[Value]:
    if isinstance(node, tuple):
        at = left % _WIDTH
        return (*node[:at], _drop(node[at], key, left >> _BITS), *node[at + 1 :])
    return {name: held for name, held in node.items() if name != key}


def _keys(node: Node[Value]) -> Iterator[str]:
    if isinstance(node, tuple):
        for branch in node:
            yield from _keys(branch)
    else:
        yield from node
