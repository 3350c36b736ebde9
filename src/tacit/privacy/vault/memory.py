"""What a callback could keep between two calls, as one fingerprint that changes when any of it does.

Guarantee: a callback of the user's that writes into something which `fingerprint` reaches has another fingerprint
afterwards. Vaults compare fingerprints after the trials on invented rows, before every later step, and at a release.

Edge cases:
    | what could be written into | what happens |
    |---|---|
    | attributes of the callback, its class, its functions; defaults; closures | seen |
    | globals and attributes of modules and classes that the code names | seen |
    | what `functools.lru_cache` holds of the user's functions | seen |
    | cached properties | seen; they are computed first |
    | buffers and attributes of a model's layers, whoever wrote them, and of its parameters | seen |
    | parameters, their gradients, training flags | may change between steps; the first two not within one |
    | the state of a call | a copy (`copy_plain_state`), compared after the call |
    | arrays that are not writeable | not read, so that large public tables cost nothing |
    | files, devices, the environment, threads, C extensions, the inside of installed libraries | not seen |
    | what is named at run time alone (`globals()[name]`, `setattr(module, name, ...)`) | not seen |

Python has no sandbox: code that wants to hide something can. So the certificate names the user's callbacks as an
assumption.
"""

from __future__ import annotations

import copyreg
import functools
import gc
import hashlib
import sys
from collections import OrderedDict, deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from itertools import chain
from pathlib import Path
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, MappingProxyType, MethodType, ModuleType
from typing import Any

import numpy as np

from tacit.errors import MechanismError
from tacit.privacy.vault.removal import silence_warnings

_LRU_CACHE = type(functools.lru_cache(len))
_LIBRARIES = frozenset({"tacit", "numpy", "torch"}) | sys.stdlib_module_names
_NOBODYS = _LIBRARIES | {"tokenizers"}
PLAIN = frozenset({type(None), bool, int, float, complex, str, bytes, type(...)})
_CONTAINERS = frozenset({dict, OrderedDict, list, tuple, set, frozenset})
_PARTS = ("__self__", "__func__", "fget", "fset", "fdel")
_INSTALLED = frozenset({"site-packages", "dist-packages"})
_PYTHON = Path(functools.__file__).resolve().parent


@silence_warnings()  # what is looked at may be deprecated
def fingerprint(callback: Any, *, still: bool = False) -> bytes:
    """A digest of the callback, or of the model, and of all that its code names and could change, 32 bytes."""
    # still: a model's parameters and gradients count too, which may change from step to step and not within one
    trained = hasattr(callback, "named_modules")
    own = list(callback.modules()) if trained else [callback]
    reader = _Reader({_root(type(entry).__module__) for entry in own} - _LIBRARIES, weights=still or not trained)
    digest, visited = hashlib.blake2b(digest_size=32), dict[int, tuple[int, object]]()
    waiting: list[object] = [_layer_contents(layer, still) for layer in own] if trained else own
    while waiting:
        value = waiting.pop()
        if type(value) in PLAIN:
            digest.update(value if isinstance(value, bytes) else f"{value!r};".encode())
        elif id(value) in visited:
            digest.update(f"again {visited[id(value)][0]};".encode())
        else:
            visited[id(value)] = len(visited), value  # held, so that no other object gets its id
            name, contents = reader.read(value)
            digest.update(f"{name} {len(contents)};".encode())
            waiting.extend(contents)
    return digest.digest()


@silence_warnings()
def outline(value: Any) -> object:
    """The structure of a callback's public state: types, names, shapes and dtypes, texts and flags; hashable.

    Of a model: its layers with their training flags, and whether parameters need gradients.
    """
    if hasattr(value, "named_modules"):
        layers, found = [value], list[object]()
        for layer in layers:  # which grows
            tensors = (*layer._parameters.values(), *layer._buffers.values())
            found.append((type(layer), layer.training))
            found.extend((x.shape, x.dtype, x.requires_grad) for x in tensors if x is not None)
            layers.extend(inner for inner in layer._modules.values() if inner is not None)
        return tuple(found)
    if (isinstance(value, np.generic) and value.dtype.kind in "bSU") or isinstance(value, Enum):
        return value
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return tuple(value.shape), value.dtype
    if isinstance(value, Mapping):
        return tuple((name, outline(entry)) for name, entry in value.items())
    if isinstance(value, tuple | list):
        return type(value), tuple(outline(entry) for entry in value)
    if hasattr(value, "__dataclass_fields__") and not isinstance(value, type):
        return type(value), tuple(outline(getattr(value, name, None)) for name in value.__dataclass_fields__)
    return value if value is None or isinstance(value, bool | str) else type(value)


def copy_plain_state(state: Any, where: str) -> Any:
    """A copy of a callback's public state, which must be plain data: what is written into it leads nowhere."""
    # Plain data are None, flags, numbers, texts, members of enumerations, NumPy arrays (not of objects), and tuples,
    # mappings with texts as names, and frozen dataclasses of such. Arrays are read-only.
    kind = type(state)
    if kind in PLAIN or (isinstance(state, np.generic) and not isinstance(state, np.void)) or isinstance(state, Enum):
        return state
    if isinstance(state, np.ndarray) and not state.dtype.hasobject:
        copied = np.array(state, subok=False)
        copied.flags.writeable = False
        return copied.view()
    if kind is tuple:
        return tuple(copy_plain_state(entry, where) for entry in state)
    if kind in (dict, MappingProxyType) and all(type(name) is str for name in state):
        return {name: copy_plain_state(entry, where) for name, entry in state.items()}
    if is_dataclass(state) and not isinstance(state, type) and state.__dataclass_params__.frozen:  # type: ignore[attr-defined]
        duplicate = object.__new__(kind)
        for field in fields(state):
            object.__setattr__(duplicate, field.name, copy_plain_state(getattr(state, field.name), where))
        return duplicate
    what = f"the state of a callback holds a {kind.__name__}, into which it could write what it knows of people"
    expected = "numbers, texts, NumPy arrays, and tuples, dictionaries and frozen dataclasses of these"
    remedy = "pass a tuple for a list, tensor.numpy() for a tensor, and fields of its own for an object"
    raise MechanismError(what, where=where, expected=expected, remedy=remedy)


@silence_warnings()
def find_foreign(*values: object) -> list[Any]:
    """Classes, functions and networks in these objects that are not tacit's own."""
    # Tacit's own are plain data, arrays and tensors, instances of its classes, its functions, and networks that its own
    # layers are made of. Functions and classes of Python, NumPy, PyTorch and tokenizers are nobody's, but not a network
    # of PyTorch's layers that no layer of tacit's holds.
    found: list[Any] = []
    visited: dict[int, object] = {}
    neutral: dict[int, bool] = {}  # by the id of a class or function, which what is visited holds
    waiting: list[tuple[object, bool]] = [(value, False) for value in values]
    while waiting:
        value, built = waiting.pop()
        kind: Any = type(value)
        if kind in PLAIN or id(value) in visited or (kind in _CONTAINERS and not value):
            continue
        visited[id(value)] = value  # held, so that no other object gets its id
        if kind is np.ndarray and value.dtype != object:  # type: ignore[attr-defined]
            continue
        named: Any = value if isinstance(value, type | FunctionType | BuiltinFunctionType) else kind
        root, network = _root(named.__module__), hasattr(value, "named_modules") and not isinstance(value, type)
        if id(named) not in neutral:
            neutral[id(named)] = _is_neutral(named)
        if not neutral[id(named)] or _is_wrapped_user_code(value) or (network and root != "tacit" and not built):
            found.append(named)
        built = built or root == "tacit" if network else built and isinstance(value, Mapping | list | tuple)
        waiting.extend([(entry, built) for entry in _members(value)])
    return found


def _is_neutral(named: Any) -> bool:
    """Whether a class or function is of a library, and so are the methods and the base classes of a class."""
    if not isinstance(named, type):
        return _root(named.__module__) in _NOBODYS and _is_genuine(_root(named.__module__))
    return all(
        _has_library_code(base) if _root(base.__module__) == "tacit" else _has_library_code_cached(base)
        for base in named.__mro__
    )


def _has_library_code(kind: type) -> bool:
    """Whether a class and the functions that it holds are of libraries; somebody may have put others into it."""
    modules = {kind.__module__, *(one.__module__ for one in vars(kind).values() if type(one) is FunctionType)}
    return all(_root(module) in _NOBODYS and _is_genuine(_root(module)) for module in modules)


_has_library_code_cached = functools.cache(_has_library_code)  # layers of PyTorch have hundreds of functions


def _is_wrapped_user_code(value: Any) -> bool:
    """Whether a library made this of code of the user's: of functions that NumPy or PyTorch compiled or wrapped."""
    if isinstance(value, np.ufunc):
        return getattr(np, value.__name__, None) is not value
    return type(value).__name__ in ("ScriptFunction", "ScriptMethod")


def _members(value: Any) -> Iterator[object]:
    if isinstance(value, type):
        return
    if isinstance(value, FunctionType):
        yield from (value.__defaults__, value.__kwdefaults__)
        yield from chain.from_iterable(map(_content, value.__closure__ or ()))
    elif isinstance(value, MethodType):
        yield from (value.__self__, value.__func__)
    elif isinstance(value, functools.partial):
        yield from (value.func, value.args, value.keywords)
    elif isinstance(value, Mapping):
        yield from chain(value.keys(), value.values())
    elif isinstance(value, list | tuple | set | frozenset | deque):
        yield from () if PLAIN.issuperset(map(type, value)) else value
    elif isinstance(value, np.ndarray):
        yield from value.ravel().tolist()
    yield from getattr(value, "__dict__", {}).values()
    for name in _slots(type(value)):  # type: ignore[arg-type]
        yield getattr(value, name, None)


@functools.cache
def _slots(kind: type) -> tuple[str, ...]:
    """Names of a class's slots and of those of its bases."""
    slots = (vars(base).get("__slots__", ()) for base in kind.__mro__)
    return tuple(chain.from_iterable((names,) if isinstance(names, str) else names for names in slots))


@dataclass(frozen=True)
class _Reader:
    """How objects are read: whose code is walked besides the user's own files, and whether models are at rest."""

    roots: set[str]
    weights: bool

    def read(self, value: Any) -> tuple[str, Sequence[object]]:
        """What an object is called, and what it holds."""
        kind: Any = type(value)
        if kind in (list, tuple, set, frozenset):
            return (repr(value), ()) if PLAIN.issuperset(map(type, value)) else (kind.__name__, list(value))
        if kind is dict:
            return "dict", [*value.keys(), *value.values()]
        if isinstance(value, type | FunctionType) or kind is _LRU_CACHE:
            return f"{value.__module__}.{value.__qualname__}", self._code(value) if self._walks(value) else ()
        if isinstance(value, MethodType | property | staticmethod | classmethod):
            return kind.__name__, [getattr(value, name, None) for name in _PARTS]
        if isinstance(value, CellType):
            return "cell", _content(value)
        if isinstance(value, np.ndarray) and value.dtype != object:
            numbers = value.tobytes() if value.flags.writeable else value.ctypes.data
            return f"{value.dtype} {value.shape}", [numbers]
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(value, torch.Tensor):
            read = self.weights or not isinstance(value, torch.nn.Parameter)
            return f"{value.dtype} {tuple(value.shape)}", [vars(value), *([_numbers(value, torch)] if read else ())]
        return f"{kind.__module__}.{kind.__qualname__}", _state(value)

    def _walks(self, value: Any) -> bool:
        """Whether a class or a function is the user's own."""
        return not _is_library_module(value.__module__) or _root(value.__module__) in self.roots

    def _code(self, value: Any) -> Sequence[object]:
        """What a class, a function or a cache of the user's holds and names."""
        if isinstance(value, type):
            given = {name for name in vars(value) if name.startswith("__") and name.endswith("__")}
            functions = {  # of the names that Python gives, only these can hold anything
                name
                for name, entry in vars(value).items()
                if isinstance(entry, FunctionType) and entry.__code__.co_filename != "<string>"
            }
            entries = {name: entry for name, entry in vars(value).items() if name not in given - functions}
            return [*value.__bases__, *entries, *entries.values()]
        if isinstance(value, FunctionType):
            named = chain.from_iterable(self._named(_names(value.__code__), value.__globals__, set()))
            held = value.__defaults__, value.__kwdefaults__, value.__dict__ or None, value.__closure__
            return [_code_digest(value.__code__), *held, *named]
        info = value.cache_info()
        return [info.misses, info.currsize, *sorted(gc.get_referents(value), key=id)]

    def _named(self, names: tuple[str, ...], space: Mapping[str, Any], seen: set[int]) -> Iterator[tuple[str, object]]:
        """Globals and modules that code names, and what it names of the modules and of others' classes among them."""
        for name in names:
            value = space.get(name, self) if seen else space.get(name, sys.modules.get(name, self))
            if value is self:
                continue
            if not isinstance(value, ModuleType) and not (isinstance(value, type) and not self._walks(value)):
                yield name, value
            elif id(value) not in seen:
                seen.add(id(value))
                yield from self._named(names, vars(value), seen)


def _layer_contents(layer: Any, still: bool) -> object:
    """What a layer holds besides other layers and flags: its class, buffers and attributes, and those of parameters."""
    usual = vars(sys.modules["torch"].nn.Module()).keys()
    parameters = [parameter for parameter in layer._parameters.values() if parameter is not None]
    numbers = [(parameter, parameter.grad) for parameter in parameters] if still else []
    held = {name: entry for name, entry in vars(layer).items() if name not in usual}
    watched = still or _root(type(layer).__module__) not in _LIBRARIES  # a target network's are public, and move
    return type(layer), layer._buffers if watched else (), held, [vars(one) for one in parameters], numbers


def _content(cell: CellType) -> Sequence[object]:
    try:
        return [cell.cell_contents]
    except ValueError:  # empty
        return ()


def _numbers(tensor: Any, torch: Any) -> bytes:
    return bytes(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())


def _state(value: Any) -> Sequence[object]:
    """What any other object holds, as it says where it is copied; else its attributes."""
    kind: Any = type(value)
    for name in _cached_properties(kind):
        with suppress(Exception):
            getattr(value, name)
    try:
        reduce = copyreg.dispatch_table.get(kind)
        reduced = reduce(value) if reduce else value.__reduce_ex__(4)
    except Exception:  # a lock, a file, a vault
        reduced = getattr(value, "__dict__", None)
    if not isinstance(reduced, tuple):
        return [reduced]
    return [*reduced[:3], *(list(entries or ()) for entries in reduced[3:5])]


@functools.cache
def _names(code: CodeType) -> tuple[str, ...]:
    """Names of globals, attributes and modules in code and in the functions within it."""
    inner = [_names(constant) for constant in code.co_consts if isinstance(constant, CodeType)]
    return tuple(sorted({*code.co_names}.union(*inner)))


@functools.cache
def _code_digest(code: CodeType) -> bytes:
    """The instructions of code and of the functions within it: of two with one name, which it is."""
    digest = hashlib.blake2b(code.co_code + repr(code.co_names).encode(), digest_size=16)
    for constant in code.co_consts:
        digest.update(_code_digest(constant) if isinstance(constant, CodeType) else repr(constant).encode())
    return digest.digest()


@functools.cache
def _cached_properties(kind: type) -> tuple[str, ...]:
    """A class's cached properties, which are computed first: their first use is no change."""
    entries = [pair for base in kind.__mro__ for pair in vars(base).items()]
    return tuple(name for name, entry in entries if isinstance(entry, functools.cached_property))


@functools.cache
def _is_library_module(module: object) -> bool:
    path, root = getattr(sys.modules.get(str(module)), "__file__", None) or "", _root(module)
    return (root in _LIBRARIES and _is_genuine(root)) or not _INSTALLED.isdisjoint(Path(path).parts)


@functools.cache
def _is_genuine(root: str) -> bool:
    """Whether a module of Python's name is Python's: a file of the user's by the same name may stand before it."""
    path = getattr(sys.modules.get(root), "__file__", None)
    return root not in sys.stdlib_module_names or path is None or _PYTHON in Path(path).resolve().parents


def _root(module: object) -> str:
    return str(module).partition(".")[0]
