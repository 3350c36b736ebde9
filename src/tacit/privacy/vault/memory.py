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
    | buffers and attributes of a model | seen; its parameters and training flags may change between steps |
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
import io
import pickle
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

_LRU_CACHE = type(functools.lru_cache(len))
_LIBRARIES = frozenset({"tacit", "numpy", "torch"}) | sys.stdlib_module_names
_INSTALLED = frozenset({"site-packages", "dist-packages"})


def fingerprint(callback: Any) -> bytes:
    """A digest of the callback, or of the model, and of all that its code names and could change, 32 bytes."""
    digest = hashlib.blake2b(digest_size=32)
    trained = hasattr(callback, "named_modules")
    memory = _Memory(digest, {_root(type(callback).__module__)} - _LIBRARIES, weights=not trained)
    memory.dump(_layers(callback) if trained else callback)
    return digest.digest()


def outline(value: Any) -> object:
    """The structure of a callback's public state: types, names, shapes and dtypes, texts and flags; hashable.

    Of a model: its modules with their training flags, and its parameters and buffers.
    """
    if hasattr(value, "named_modules"):
        modules = tuple((name, type(module), module.training) for name, module in value.named_modules())
        tensors = (*value.named_parameters(), *value.named_buffers())
        return modules, tuple((name, tuple(x.shape), x.dtype, x.requires_grad) for name, x in tensors)
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return tuple(value.shape), value.dtype
    if isinstance(value, Mapping):
        return tuple((name, outline(entry)) for name, entry in value.items())
    if isinstance(value, tuple | list):
        return type(value), tuple(outline(entry) for entry in value)
    if hasattr(value, "__dataclass_fields__") and not isinstance(value, type):
        return type(value), tuple(outline(getattr(value, name, None)) for name in value.__dataclass_fields__)
    return value if value is None or isinstance(value, bool | str) else type(value)


class _Memory(pickle.Pickler):
    """Writes whatever it reaches into a digest; nothing is ever read back.

    An object is written as a name and, after it was entered in the pickler's memo, its contents: so cycles end.
    """

    def __init__(self, digest: Any, roots: set[str], weights: bool) -> None:
        sink = io.BytesIO()
        sink.write = digest.update  # type: ignore[method-assign]
        super().__init__(sink, protocol=5)
        self._roots, self._weights = roots, weights

    def reducer_override(self, value: Any) -> Any:
        """How an object that is no plain number, text or container is written (see `pickle.Pickler`)."""
        if value is str:
            return NotImplemented
        if isinstance(value, type | FunctionType) or type(value) is _LRU_CACHE:
            name = f"{value.__module__}.{value.__qualname__}"
            return str, (name,), self._code(value) if self._walks(value) else None
        if isinstance(value, np.ndarray) and not value.flags.writeable:
            return str, (f"{value.ctypes.data} {value.shape} {value.strides} {value.dtype}",)
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(value, torch.Tensor):
            return str, (f"{tuple(value.shape)} {value.dtype}",), self._numbers(value, torch)
        return self._object(value)

    def _object(self, value: Any) -> Any:
        kind: Any = type(value)
        for name in _computed(kind):
            with suppress(Exception):
                getattr(value, name)
        contents: Any = getattr(value, "__dict__", None)
        try:
            reduce = copyreg.dispatch_table.get(kind)
            reduced = reduce(value) if reduce else value.__reduce_ex__(5)
        except Exception:  # a lock, a file, a vault
            reduced = f"{kind.__module__}.{kind.__qualname__}"
        return reduced if isinstance(reduced, tuple) else (str, (reduced,), contents)

    def _walks(self, value: Any) -> bool:
        """Whether a class or a function is the user's own."""
        return _root(value.__module__) in self._roots or not _of_a_library(str(value.__module__))

    def _code(self, value: Any) -> object:
        """What a class, a function or a cache of the user's holds and names."""
        if isinstance(value, type):
            return value.__bases__, [list(pair) for pair in vars(value).items() if _counts(*pair)]
        if isinstance(value, FunctionType):
            cells = [_content(cell) for cell in value.__closure__ or ()]
            named = list(self._named(_names(value.__code__), value.__globals__, set()))
            return value.__defaults__, value.__kwdefaults__, value.__dict__, cells, named
        info = value.cache_info()
        return info.misses, info.currsize, sorted(gc.get_referents(value), key=id)

    def _named(self, names: tuple[str, ...], space: Mapping[str, Any], seen: set[int]) -> Iterator[list[object]]:
        """Globals and modules that code names, and what it names of the modules and of others' classes among them."""
        for name in names:
            value = space.get(name, self) if seen else space.get(name, sys.modules.get(name, self))
            if value is self:
                continue
            if not isinstance(value, ModuleType) and not (isinstance(value, type) and not self._walks(value)):
                yield [name, value]
            elif id(value) not in seen:
                seen.add(id(value))
                yield from self._named(names, vars(value), seen)

    def _numbers(self, tensor: Any, torch: Any) -> bytes | None:
        if isinstance(tensor, torch.nn.Parameter) and not self._weights:
            return None
        return bytes(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())


def _layers(model: Any) -> list[object]:
    """What the user's own layers hold besides parameters and layers: classes, buffers and attributes."""
    layers = [layer for layer in model.modules() if not _of_a_library(type(layer).__module__)]
    usual = vars(sys.modules["torch"].nn.Module()).keys() if layers else ()
    return [
        (type(layer), layer._buffers, [[name, entry] for name, entry in vars(layer).items() if name not in usual])
        for layer in layers
    ]


def _counts(name: str, entry: object) -> bool:
    """Whether an entry of a class can hold anything: of the names that Python gives, only functions can."""
    return not (name.startswith("__") and name.endswith("__")) or isinstance(entry, FunctionType)


def _content(cell: CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # empty
        return None


@functools.cache
def _names(code: CodeType) -> tuple[str, ...]:
    """Names of globals, attributes and modules in code and in the functions within it."""
    inner = [_names(constant) for constant in code.co_consts if isinstance(constant, CodeType)]
    return tuple(sorted({*code.co_names}.union(*inner)))


@functools.cache
def _computed(kind: type) -> tuple[str, ...]:
    """A class's cached properties, which are computed first: their first use is no change."""
    entries = [pair for base in kind.__mro__ for pair in vars(base).items()]
    return tuple(name for name, entry in entries if isinstance(entry, functools.cached_property))


@functools.cache
def _of_a_library(module: str) -> bool:
    path = getattr(sys.modules.get(module), "__file__", None) or ""
    return _root(module) in _LIBRARIES or not _INSTALLED.isdisjoint(Path(path).parts)


def _root(module: object) -> str:
    return str(module).partition(".")[0]
