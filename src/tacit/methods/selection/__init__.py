"""Private selection: hyper-parameters chosen on the records themselves, under one promise (arXiv:2110.03620).

judge = synthesis.MatchingPlan(matching=synthesis.TableMatching.of(spec))
plan = SelectionPlan(candidates=(synthesis.TransitionsPlan(...), ...), judge=judge).calibrate(unit=unit, epsilon=10.0,
delta=1e-6) release = fit(plan, vault, attempt=synthesis.fit, judge=synthesis.Closeness())
"""

from tacit.methods.selection.algorithm import PlanChoice, SelectedRelease, SelectionPlan, fit

__all__ = ["PlanChoice", "SelectedRelease", "SelectionPlan", "fit"]
