"""`tacit demo`: one study of invented patients, from whose budget three answers are paid and a fourth is refused.

Everything is asked as a newcomer would ask it, by `tacit.Study`; the command line that asks the same is printed. What
the answers are worth is measured in the simulator, on patients that nobody learned from.
"""

from __future__ import annotations

import math
import shlex
import time
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from tacit import plain_files
from tacit.agents.discrete_offline import train
from tacit.agents.features import Scaled
from tacit.agents.learners import CQL
from tacit.agents.networks import Mlp
from tacit.cli.console import progress, say
from tacit.cli.declarations import DemoClinic
from tacit.data.trajectories import Trajectories
from tacit.envs.rollouts import FloatArray, MemoryDomain
from tacit.envs.serving import returns
from tacit.errors import BudgetExceeded
from tacit.study import file, simulators
from tacit.study.folder import REPORT, require_free
from tacit.study.study import Study

BUDGET = 4.0
BEST = 84
"""Points of the best policy found that sees one visit at a time (`tacit_worlds.clinic`)."""
CHANGE = 1.1
"""Points that a course gains where the rule is followed in 5 % of the visits; exact, by `clinic_model`."""
SEEN = ("symptoms", "first_marker", "second_marker", "side_effects")
COURSES: Mapping[str, Any] = {"gamma": 1.0, "horizon": 24, "episodes_per_unit": 4, "range": (-9.0, 5.0)}
MEMORY = ("symptoms:0.7", "first_marker:mean", "second_marker:mean", "side_effects:0.7")
COLUMNS: Mapping[str, Any] = {"memory": MEMORY, "columns": SEEN, "value_columns": ("symptoms", "side_effects")}
RULE: Mapping[str, Any] = {"policy": "tacit_worlds.clinic:protocol", "policy_from": ("public",), "method": "wpdis"}


@dataclass(frozen=True)
class DemoScale:
    """How many patients there are, steps of a learner, and fresh patients who judge."""

    patients: int
    steps: int
    fresh: int


USUAL, QUICK = DemoScale(10_000, 1_000, 4_000), DemoScale(400, 10, 50)


@dataclass(frozen=True)
class DemoAnswer:
    """What one request came to.

    Args:
        name: what was wanted.
        epsilon: what it was asked to cost.
        figure, sentence: the answer, at a glance and in a sentence.
        command: the line of a shell that asks the same.
        seconds: of the processor; None of what was refused.
        run: the folder of its run, where there is one.
    """

    name: str
    epsilon: float
    figure: str
    sentence: str
    command: str
    seconds: float | None = None
    run: str = ""


def demo(command: DemoClinic) -> None:
    """Simulate, ask four times, judge, report.

    Raises:
        TacitError: see the exit codes of `tacit.cli.app.main`.
    """
    size, out = QUICK if command.quick else USUAL, command.out
    torch.set_num_threads(1)  # networks this small lose more to the hand-over between threads than they gain
    require_free(out, resume=None)
    with progress(f"Simulating {size.patients:,} patients, of whom none lives"):
        world = simulators.load("clinic")
        columns = world.collect(size.patients, seed=command.seed)
        people = Trajectories.from_arrays(**columns, spec=world.spec(labels=True), unit_name="patient", simulated=True)
        people.save(out / "records")
    written = file.template("records", "patient", size.patients, BUDGET, 0.0, None, {})
    plain_files.write(out / file.NAME, written)
    say(f"{out / file.NAME} says whose the {size.patients:,} records are, and that all releases may cost epsilon 4.\n")
    study, answers = Study.open(out / file.NAME), list[DemoAnswer]()
    judge = DemoJudge(world, size, command.seed)
    histories = {"trajectories": size.patients}
    requests: tuple[tuple[Any, str, dict[str, Any], str], ...] = (
        (_improvement, "improve", {"epsilon": 1.0, **COURSES, **COLUMNS, "environment": "clinic"}, "better"),
        (_evaluation, "evaluate", {"epsilon": 1.0, **COURSES, **RULE}, "rule"),
        (_synthesis, "synthesize", {"epsilon": 2.0, **histories}, "courses"),
    )
    for ask, verb, words, run in requests:
        line = shell_line(verb, out / file.NAME, {**words, "out": out / run})
        say(f"$ {line}")
        begun = time.process_time()
        with progress(f"tacit {verb}"):
            value = getattr(study, verb)(**words, out=out / run).value
        seconds = time.process_time() - begun
        with progress("Judging the answer in the simulator"):
            name, figure, sentence = ask(value, judge, columns)
        answers.append(DemoAnswer(name, words["epsilon"], figure, sentence, line, seconds, run))
        say(f"{name}: {figure}. {sentence} [{seconds:.0f} s]\n")
    answers.append(_refusal(study, {"epsilon": BUDGET, **histories}, out))
    plain_files.write(out / REPORT, render(study, answers, judge.scores, size, out))
    say(f"{study}\n\nOpen     {out / REPORT}\nWhat next")
    for what, line in next_steps(out).items():
        say(f"  {what:20s}{line}")


class DemoJudge:
    """Points of policies on fresh patients: 0 is a random treatment, 100 the best policy, which knows the truth."""

    def __init__(self, world: Any, size: DemoScale, seed: int) -> None:
        self.world, self.size, self.seed = world, size, seed
        doctors = world.unstack_policies(world.doctors())
        points = world.evaluate(doctors, episodes=max(1, size.fresh // len(doctors)), seed=seed)
        self.scores: dict[str, float] = {"The doctors of the records": float(np.mean(points))}

    def point(self) -> float:
        """The return that a point is."""
        low, high = self.world.REFERENCE
        return float(high - low) / 100

    def of_rule(self, name: str, rule: Any) -> float:
        """Of a policy of what is seen at one visit."""
        points: FloatArray = self.world.evaluate([rule], episodes=self.size.fresh, seed=self.seed)
        self.scores[name] = float(points[0])
        return self.scores[name]

    def of_improvement(self, name: str, value: Any) -> float:
        """Of a released policy, which remembers."""
        domain = MemoryDomain(self.world.Clinic(), value.memory)
        generator, horizon = np.random.default_rng(self.seed), self.world.HORIZON
        paid = returns(domain, value.actor(), 1, self.size.fresh, horizon=horizon, generator=generator)
        self.scores[name] = float(self.world.normalized_returns(paid).mean())
        return self.scores[name]

    def of_learner(self, name: str, columns: Mapping[str, Any]) -> float:
        """Of a learner that is trained on rows: discrete CQL with the settings that tacit's has by default."""
        features = Scaled(self.world.LOW, self.world.HIGH)
        network = Mlp((len(self.world.LOW), 64, 64, self.world.ACTIONS))
        learner = CQL(reward_scale=0.2)  # so that values are of the order of 1
        theta = train(learner, network, features, columns, steps=self.size.steps, seed=self.seed)
        greedy = simulators.load("agents.q_learning").epsilon_greedy
        return self.of_rule(name, greedy(lambda seen: network.forward(theta[None], features(seen)[None])[0][0], 0.0))


def _improvement(value: Any, judge: DemoJudge, columns: Mapping[str, Any]) -> tuple[str, str, str]:
    points = judge.of_improvement("The better policy, epsilon 1", value)
    doctors, statement = judge.scores["The doctors of the records"], value.statement
    proof = "the records prove no gain"
    if statement.verdict == "proven":
        gain, sure = bound(statement.gain_interval.low / judge.point(), 2), 100 * statement.gain_interval.level
        proof = (
            f"following it in {100 * statement.advice:.3g} % of the visits gains at least {gain:g} ({sure:g} % sure)"
        )
    sentence = f"The doctors have {doctors:.0f}, the best one known without memory {BEST}; {proof}."
    return "A better policy", f"{points:.0f} points", sentence


def _evaluation(value: Any, judge: DemoJudge, columns: Mapping[str, Any]) -> tuple[str, str, str]:
    judge.of_rule("The house rule, not learned", judge.world.protocol)
    change, point = value.difference, judge.point()
    low, high = bound(change.interval.low / point, 1), bound(change.interval.high / point, 1, up=True)
    sentence = f"That is what following it in 5 % of the visits changes, by the records {low:+.1f} to {high:+.1f}; "
    sentence += f"in truth it is {CHANGE:+.1f}."
    return "The house rule", f"{change.value / point:+.1f} points", sentence


def _synthesis(value: Any, judge: DemoJudge, columns: Mapping[str, Any]) -> tuple[str, str, str]:
    drawn = value.sample(judge.size.patients, seed=judge.seed).columns
    records = judge.of_learner("A learner from the records, no privacy", columns)
    points = judge.of_learner("The same learner from synthetic courses, epsilon 2", drawn)
    sentence = f"So much has a learner that is trained on them; trained on the records it has {records:.0f}."
    return "Synthetic courses", f"{points:.0f} points", sentence


def _refusal(study: Study, words: Mapping[str, Any], out: Path) -> DemoAnswer:
    words = {**words, "out": out / "more"}
    line = shell_line("synthesize", out / file.NAME, words)
    say(f"$ {line}")
    try:
        study.synthesize(**words)
    except BudgetExceeded as refusal:
        assert study.ledger is not None
        left = bound(study.ledger.left()[0], 2)
        sentence = f"The ledger refused it before a record was read: epsilon {left:.2f} is left."
        say(f"tacit: {refusal}\n")
        return DemoAnswer("More courses", words["epsilon"], "refused", sentence, line)
    raise AssertionError("the budget covers a fourth request")


def bound(value: float, digits: int, *, up: bool = False) -> float:
    """A lower bound with fewer digits, or an upper one: it is still one."""
    scale = 10.0**digits
    return (math.ceil if up else math.floor)(value * scale) / scale


def shell_line(verb: str, study: Path, words: Mapping[str, Any]) -> str:
    """The line of a shell that asks what a verb of a study is asked with these words."""
    parts = ["tacit", verb, str(study)]
    for name, value in words.items():
        values = value if isinstance(value, tuple) else (value,)
        shown = (f"{one:g}" if isinstance(one, float) else str(one) for one in values)
        parts += [f"--{name.replace('_', '-')}", *shown]
    return shlex.join(parts)


def render(study: Study, answers: list[DemoAnswer], scores: Mapping[str, float], size: DemoScale, out: Path) -> str:
    """The page about all answers."""
    view = study.ledger
    assert view is not None
    environment = Environment(
        loader=PackageLoader("tacit.cli", ""), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    style = resources.files("tacit.evaluation.report").joinpath("style.css").read_text(encoding="utf-8")
    bars = {"A random treatment": 0.0, **dict(sorted(scores.items(), key=lambda one: one[1]))}
    bars["The best one known without memory"] = BEST
    return environment.get_template("demo.html").render(
        style=Markup(style),  # a file of tacit's, not input
        size=size,
        answers=answers,
        bars=bars,
        spent=bound(view.spent()[0], 2, up=True),
        left=bound(view.left()[0], 2),
        budget=BUDGET,
        quick=size == QUICK,
        steps=next_steps(out),
    )


def next_steps(out: Path) -> dict[str, str]:
    """What to do next, with the line of a shell for it."""
    return {
        "verify a promise": f"tacit certificate verify {out / 'better' / 'certificate.json'}",
        "see the policy act": f"tacit play {out / 'better' / 'policy'}",
        "draw more courses": f"tacit sample --model {out / 'courses' / 'model'} --count 1000 --out {out / 'more.csv'}",
        "your own table": "tacit data example visits.csv",
        "other demos": "tacit demo --help",
    }
