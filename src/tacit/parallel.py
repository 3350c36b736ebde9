"""The same work on many things, in processes of this machine or on a Ray cluster: post-processing and invented data.

Nothing over private records is spread like this. How many runs a private choice of settings makes is secret, and
processes would show it: `tacit.privacy` and `tacit.methods` may not import this module.
"""

from __future__ import annotations

import contextlib
import multiprocessing
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


@contextlib.contextmanager
def parallel_map(
    function: Callable[[Item], Result], items: Sequence[Item], *, jobs: int, address: str | None = None
) -> Iterator[Iterator[Result]]:
    """The results for all items, in their order, each when it is asked for and ready.

    What has not begun when the block ends is not begun any more.

    Args:
        function: of a module, as processes import it; it gets one item.
        items: what it is called with.
        jobs: how many calls run at once, each in a fresh process with one thread; 1 is this process.
        address: of a Ray cluster that runs them instead ("local" starts one here); its nodes see the same files under
            the same paths.

    Raises:
        Whatever the function raises, where its result is asked for.
        ModuleNotFoundError: there is an address, and no Ray.
    """
    if address is not None:
        yield from _map_on_ray(function, items, jobs, address)
    elif jobs == 1:
        yield map(function, items)
    else:
        with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), _use_one_thread) as pool:
            try:
                yield pool.map(function, items)
            finally:
                pool.shutdown(cancel_futures=True)


def _map_on_ray(
    function: Callable[[Item], Result], items: Sequence[Item], jobs: int, address: str
) -> Iterator[Iterator[Result]]:
    import ray

    ray.init(address=address, log_to_driver=False)
    task = ray.remote(_run_single_threaded)

    def results() -> Iterator[Result]:
        pending: deque[Any] = deque()
        for item in items:
            if len(pending) == jobs:
                yield ray.get(pending.popleft())
            pending.append(task.remote(function, item))
        while pending:
            yield ray.get(pending.popleft())

    try:
        yield results()
    finally:
        ray.shutdown()


def _run_single_threaded(function: Callable[[Item], Result], item: Item) -> Result:
    _use_one_thread()
    return function(item)


def _use_one_thread() -> None:
    import torch

    torch.set_num_threads(1)
