def configuration(key):
    from unittest import mock
    import inspect
    from experiments import synthesis_mazes
    from experiments.synthesis_agents import TRIVIAL
    from experiments.synthesis_domains import DOMAINS
    domain, policy, _ = key.split("/")
    here = DOMAINS[domain]
    made = TRIVIAL[policy](here.layout)
    seen = []
    real = synthesis_mazes.evaluate
    defaults = {n: p.default for n, p in inspect.signature(real).parameters.items() if p.default is not inspect.Parameter.empty}
    def evaluated(layout, policies, *, starts, seed, **given):
        seen.append((defaults | given)["episodes"])
        return starts
    with mock.patch.object(synthesis_mazes, "evaluate", evaluated):
        starts = here.returns(None, 0)
    (episodes,) = set(seen)
    return {"maze": describe(here.layout), "policy": {**describe(made), "members": made.members}, "judge": {"starts": describe(starts), "episodes": episodes}}
