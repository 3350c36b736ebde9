import inspect as _inspect
import json
import re as _re
from experiments import fuzz_worker as _worker


_rows = json.load(open("experiments/results/fuzz.json"))["cells"]  # of commit 82bbe36


def configuration(key):
    (own,) = _re.findall(r"rng\.random\(\) < ([\d.]+) else", _inspect.getsource(_worker.main))
    seconds = globals()["PATIENCE"] if 'f"-timeout={PATIENCE}"' in _inspect.getsource(fuzz) else _worker.SECONDS
    return {
        "reader": key,
        "file": READERS[key].file,
        "inputs at least": min(200, _rows[key]["values"]["tried"]),
        "own mutations": float(own),
        "largest input": _worker.LARGEST,
        "seconds of an input": seconds,
        "memory of an input": _worker.MEMORY,
        "longest message": _worker.LONGEST,
    }
