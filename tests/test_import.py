"""Certificates, ledgers and budgets are checked anywhere: without PyTorch and every other optional package."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tacit
from tacit.methods import METHODS

ROOT = Path(__file__).parents[1]
CERTIFICATES = ROOT / "tests" / "golden" / "certificates"
OPTIONAL = ("torch", "safetensors", "gymnasium", "minari", "h5py", "pandas", "pyarrow", "jinja2")

BLOCKED = f"""
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {OPTIONAL!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Blocker())
"""


def run(code: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", BLOCKED + code, *words], capture_output=True, text=True, timeout=240)


def test_the_public_names_load_without_optional_packages() -> None:
    done = run(
        "import tacit\n"
        "tacit.Unit, tacit.Box, tacit.Discrete, tacit.PublicSpec, tacit.Trajectories, tacit.TacitError\n"
        "tacit.Ledger, tacit.Composition, tacit.Vault, tacit.Certificate, tacit.Release\n"
        "print(tacit.synthesis.TransitionsPlan().steps > 0, 'torch' in sys.modules)"
    )
    assert (done.returncode, done.stdout) == (0, "True False\n"), done.stderr


def test_importing_tacit_loads_only_itself() -> None:
    done = run("import tacit\nprint(sorted(n for n in sys.modules if n.partition('.')[0] in ('numpy', 'scipy')))")
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr


def test_checking_needs_no_optional_package(tmp_path: Path) -> None:
    unit = tacit.Unit("person", "replace_one", 1_000)
    tacit.Ledger(tmp_path / "ledger", unit, epsilon=1.0, delta=1e-6, composition=tacit.Composition(1.0)).close()
    certificate().save(tmp_path / "certificate")
    commands = ("certificate verify", "certificate show", "certificate label", "ledger show")
    done = run(LOADED, *(f"{words} {tmp_path / words.split()[0]}" for words in commands))
    assert done.stderr.split() == ["0", "0", "0", "0", *PRICED]
    assert ["person" in page for page in done.stdout.split(PAGE)] == [True, True, True, True, False]


HEAVY = ("numpy", "scipy", "scipy.optimize", "scipy.stats", "dp_accounting", "torch", "pandas", "pyarrow", "jinja2")
HEAVY += ("tyro", "gymnasium")
PAGE = "\f"
LOADED = f"""
import shlex
from tacit.cli import main
codes = [(main(shlex.split(words)), print(end={PAGE!r}))[0] for words in sys.argv[1:]]
print(*codes, *sorted(set({HEAVY!r}) & set(sys.modules) - {{"tyro"}}), file=sys.stderr)
"""
"""Several commands in one process, which unloads nothing; their exit codes, and what they loaded together."""
PRICED = ["dp_accounting", "numpy", "scipy"]
PLANS = sorted({f"tacit.methods{method.plan.partition(':')[0]}" for method in METHODS})
LANGUAGE = "tacit.methods.alignment."
"""Plans of language models still load PyTorch, with the model that they are made for."""


def test_a_plan_loads_numpy_and_nothing_heavier() -> None:
    code = f"""
from importlib import import_module
for name in sys.argv[1:]:
    import_module(name)
print(*sorted(set({HEAVY!r}) & set(sys.modules)))
"""
    done = run(code, *(name for name in PLANS if not name.startswith(LANGUAGE)))
    assert (done.returncode, done.stdout) == (0, "numpy\n"), done.stderr


def test_a_plan_is_imported_in_a_moment() -> None:
    """Three times the quarter of a second of the design; a machine may be busy, and write no bytecode."""
    code = "import time\nimport tacit.methods.synthesis.plan\nprint(time.process_time())"
    least = min(
        float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
        for _ in range(3)
    )
    assert least < 0.75


def test_a_dry_run_loads_the_accountants_and_no_more(tmp_path: Path) -> None:
    records = tmp_path / "records"
    box, numbers = tacit.Box((0.0,), (1.0,)), np.zeros((2, 1))
    tacit.Trajectories.from_arrays(
        observations=numbers,
        actions=numbers,
        rewards=np.zeros(2),
        next_observations=numbers,
        terminations=np.ones(2, bool),
        unit_ids=["ann", "bob"],
        unit_name="transition",
        spec=tacit.PublicSpec(box, box, box, "declared", difference=(0.1,)),
        simulated=True,
    ).save(records)
    promise = ("--epsilon", "1", "--delta", "1e-5", "--population", "1000", "--relation", "add_or_remove")
    words = ("synthesize", str(records), "--out", str(tmp_path / "run"), "--unit", "transition", *promise, "--dry-run")
    words += ("--budget-epsilon", "1", "--budget-sampled", "1")
    command = [sys.executable, "-c", "import sys\n" + LOADED, shlex.join(words)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.stderr.splitlines()[-1].split() == ["0", *PRICED]


def test_certificates_are_shown_without_any_accountant() -> None:
    names = ("synthesis", "consensus_prefixes", "devices_laplace", "void")
    done = run(LOADED, *(f"certificate show {shlex.quote(str(CERTIFICATES / name))}.json" for name in names))
    assert done.stderr == "0 0 0 0 numpy\n"
    assert [page.startswith("# Privacy certificate") for page in done.stdout.split(PAGE)] == [True] * 4 + [False]


def test_help_needs_no_accountant() -> None:
    assert run(LOADED, "--help", "synthesize --help", "certificate show --help").stderr == "0 0 0\n"


def test_verifying_loads_the_accountants_and_no_more() -> None:
    done = run(LOADED, f"certificate verify {shlex.quote(str(CERTIFICATES))}/synthesis.json")
    assert done.stderr.split() == ["0", *PRICED]


def test_no_package_has_two_exact_versions() -> None:
    """All files of constraints are given to one installation of a developer's environment."""
    pins = [
        line.partition("==")[0].lower().replace("_", "-")
        for name in ("core", "all", "development", "federated")
        for line in (ROOT / "constraints" / f"{name}.txt").read_text(encoding="utf-8").splitlines()
        if not line.startswith(("#", "-c"))
    ]
    assert len(pins) > 100
    assert sorted(set(pins)) == sorted(pins)


def test_a_command_without_its_package_says_what_to_install(tmp_path: Path) -> None:
    words = ("sample", "--model", str(tmp_path), "--count", "1", "--out", str(tmp_path / "rows"))
    done = run("from tacit.cli import main\nsys.exit(main(sys.argv[1:]))", *words)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("tacit: This command needs the package ")
    assert "pip install 'tacit[torch]'" in done.stderr


def test_every_public_name_is_there_and_no_other() -> None:
    assert set(tacit.__all__) == set(dir(tacit))
    assert all(getattr(tacit, name) is not None for name in tacit.__all__)
    assert tacit.synthesis.fit.__module__ == "tacit.methods.synthesis.algorithm"
    assert all(getattr(tacit.synthesis, name) is not None for name in tacit.synthesis.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = tacit.nothing  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = tacit.synthesis.nothing  # type: ignore[attr-defined]


def certificate() -> tacit.Certificate:
    """A certificate of one Gaussian sum over all of 1,000 persons."""
    from tacit.privacy.mechanisms.base import certificate_parts
    from tacit.privacy.vault import plan as plans

    unit = tacit.Unit("person", "add_or_remove", 1_000)
    plan = tacit.synthesis.TransitionsPlan(steps=1, sampling_rate=1.0, warmup=0, noise_multiplier=4.0).account(
        unit=unit, delta=1e-5
    )
    return tacit.Certificate.build(
        method=plan.method,
        source=plan.source,
        unit=unit,
        event=plans.event(plan),
        parts=certificate_parts(plan.parts()),
        delta=1e-5,
        plan_id=plans.plan_id(plan),
        plan=plans.public_fields(plan),
        ledger_head="0" * 64,
        dataset_id="0" * 32,
        simulated=True,
        void_reason=None,
        releases=[],
        composition=tacit.Composition(1.0),
        budget=(8.0, 1e-5),
        covered=plan.label().covered,
        not_covered=plan.label().not_covered,
        assumptions=plan.label().assumptions,
        not_protected=plan.label().not_protected,
        epsilon_target=plan.epsilon,
    )
