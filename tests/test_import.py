"""Certificates, ledgers and budgets are checked anywhere: without PyTorch and every other optional package."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import tacit

ROOT = Path(__file__).parents[1]
CERTIFICATES = ROOT / "tests" / "golden" / "certificates" / "format_1"
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
        "tacit.Ledger, tacit.RdpOrder, tacit.Vault, tacit.Certificate, tacit.Release\n"
        "print(tacit.synthesis.TransitionsPlan().steps > 0, 'torch' in sys.modules)"
    )
    assert (done.returncode, done.stdout) == (0, "True False\n"), done.stderr


def test_importing_tacit_loads_only_itself() -> None:
    done = run("import tacit\nprint(sorted(n for n in sys.modules if n.partition('.')[0] in ('numpy', 'scipy')))")
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr


@pytest.mark.parametrize(
    "words", [("certificate", "verify"), ("certificate", "show"), ("certificate", "label"), ("ledger", "show")]
)
def test_checking_needs_no_optional_package(words: tuple[str, str], tmp_path: Path) -> None:
    path = tmp_path / "evidence"
    if words[0] == "ledger":
        with tacit.Ledger(path, tacit.Unit("person", "replace_one", 1_000), epsilon=1.0, delta=1e-6):
            pass
    else:
        certificate().save(path)
    done = run("from tacit.cli import main\nsys.exit(main(sys.argv[1:]))", *words, str(path))
    assert done.returncode == 0, done.stderr
    assert "person" in done.stdout


LOADED = """
from tacit.cli import main
code = main(sys.argv[1:])
heavy = {"numpy", "scipy", "scipy.stats", "dp_accounting", "torch", "pandas"}
print(*sorted(heavy & set(sys.modules)), file=sys.stderr)
sys.exit(code)
"""
PRICED = ["dp_accounting", "numpy", "scipy", "scipy.stats"]


@pytest.mark.parametrize("name", ["synthesis", "consensus_prefixes", "devices_laplace", "void"])
def test_a_certificate_is_shown_without_any_accountant(name: str) -> None:
    done = run(LOADED, "certificate", "show", str(CERTIFICATES / f"{name}.json"))
    assert (done.returncode, done.stderr) == (0, "\n")
    assert done.stdout.startswith("# Privacy certificate")


@pytest.mark.parametrize("words", [("--help",), ("certificate", "show", "--help")])
def test_help_needs_no_accountant(words: tuple[str, ...]) -> None:
    done = run(LOADED, *words)
    assert (done.returncode, done.stderr) == (0, "\n")


def test_verifying_loads_the_accountants_and_no_more() -> None:
    done = run(LOADED, "certificate", "verify", str(CERTIFICATES / "synthesis.json"))
    assert (done.returncode, done.stderr.split()) == (0, PRICED)


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
        parts=[part.certified() for part in plan.parts()],
        delta=1e-5,
        plan_id=plans.plan_id(plan),
        plan=plans.public_fields(plan),
        ledger_head="0" * 64,
        dataset_id="0" * 32,
        simulated=True,
        void_reason=None,
        releases=[],
        budget=(8.0, 1e-5),
        covered=plan.label().covered,
        not_covered=plan.label().not_covered,
        assumptions=plan.label().assumptions,
        not_protected=plan.label().not_protected,
        epsilon_target=plan.epsilon,
    )
