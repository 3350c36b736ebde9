import dataclasses, inspect
from unittest import mock


def configuration(key):
    name = NAME
    if name == "table12_size":
        cell, _, count = key.rpartition("/")
        return {**then_returns(cell), "rows": int(count)}
    if name == "figure9_learning":
        return {**then_returns(key), "looks": LOOKS}
    if name == "table3_fidelity":
        from tacit.measure.two_samples import two_sample
        domain, way, epsilon, _ = key.split("/")
        return {**then_ways(domain, way, float(epsilon)), "measures": {"classifier": then_defaults(two_sample), "fewest": FEWEST, "rows": then_full().rows}}
    if name == "table11_cost":
        domain, way, epsilon, _ = key.split("/")
        return then_ways(domain, way, float(epsilon))
    return then_returns(key)


def then_full():
    from experiments import synthesis_fits
    return synthesis_fits.FULL


def then_defaults(function, *, without=("seed", "progress")):
    parameters = inspect.signature(function).parameters.items()
    given = {name: one.default for name, one in parameters if one.default is not inspect.Parameter.empty}
    return {name: describe(value) for name, value in given.items() if name not in without}


def then_returns(key):
    from experiments import synthesis_returns
    domain, agent, way, epsilon, *_ = key.split("/")
    config = describe(synthesis_returns.config(domain, agent, then_full()))
    return {**then_ways(domain, way, float(epsilon)), "agent": config, "judge": then_judge(domain)}


def then_judge(domain):
    from experiments.synthesis_domains import DOMAINS
    from tacit.envs import half_cheetah
    if domain == "half_cheetah":
        return {"episodes": then_defaults(half_cheetah.evaluate)["episodes"]}
    from experiments import synthesis_mazes
    seen = []
    real = synthesis_mazes.evaluate

    def evaluated(layout, policies, *, starts, seed, **given):
        seen.append((then_defaults(real) | given)["episodes"])
        return starts

    with mock.patch.object(synthesis_mazes, "evaluate", evaluated):
        starts = DOMAINS[domain].returns(None, 0)
    (episodes,) = set(seen)
    return {"starts": describe(starts), "episodes": episodes}


def then_rows(here):
    from tacit.envs import half_cheetah, maze
    from tacit.envs.maze_layouts import LAYOUTS
    from tacit.envs.maze_public import other_rows
    common = {"spec": describe(here.spec), "provenance": here.provenance}
    if here.name == "half_cheetah":
        return {**describe(here), **common, "collect": then_defaults(half_cheetah.collect), "other_rows": then_defaults(half_cheetah.other_rows)}
    return {**describe(here), "layout": describe(LAYOUTS[here.name]), **common, "collect": then_defaults(maze.collect), "other_rows": then_defaults(other_rows)}


def then_tables_of(tables):
    named = [[[axis.column, axis.index, len(axis.edges) - 1] for axis in table] for table in tables.tables]
    names = [one.name for one in dataclasses.fields(tables) if one.name not in ("cut", "joint")]
    own = {name: describe(getattr(tables, name)) for name in names}
    decoding = {"decoding": tables.cut.decoding} if hasattr(tables.cut, "decoding") else {}
    return {"type": type(tables).__name__, **own, **decoding, "tables": named}


def then_raking(here):
    from tacit.methods import synthesis
    make = synthesis.Raking.plane if here.spec.observation.size == 4 else synthesis.Raking.of
    return make(here.spec, population=here.population)


def then_ways(domain, way, epsilon):
    from experiments import synthesis_fits as fits
    from experiments import synthesis_ways as ways
    from experiments.synthesis_domains import DOMAINS, unit
    here, found, scale = DOMAINS[domain], ways.WAYS[way], fits.FULL
    promise = {"unit": describe(unit(here)), "epsilon": epsilon, "delta": here.delta} if found.private else None
    with mock.patch.object(fits, "raking", lambda h, s: then_raking(h), create=True):
        table = then_table(here, found, scale)
    return {"domain": then_rows(here), "table": table, "guarantee": promise}


class ThenPlan(Exception):
    pass


def then_table(here, found, scale):
    from experiments import synthesis_fits as fits
    from experiments import synthesis_ways as ways
    from tacit.methods import synthesis
    from tacit.methods.synthesis import ablations
    kind = type(found).__name__
    if kind == "Shown":
        return {"method": "real rows", "permuted": found.permuted}
    if kind == "Diffusion":
        plan = found.plan(here, scale)
        raking = None if getattr(plan, "raking", None) is None else then_tables_of(plan.raking)
        bare = dataclasses.replace(plan, raking=None) if raking is not None else plan
        change = found.change
        ablated = None
        if change == "FineCur":
            ablated = {"name": change, "share": ablations.SHARE, "curiosity": describe(synthesis.Curiosity())}
        elif change == "NonPriv":
            ablated = {"name": change, "clip": ablations.UNBOUNDED}
        return {"method": "diffusion", "plan": describe(bare), "raking": raking, "ablation": ablated, "private_rows": found.rows, "rows": scale.rows}
    if kind == "Marginals":
        import importlib
        try:
            from tacit.methods.synthesis.cut import Cut
        except ModuleNotFoundError:
            from tacit.methods.synthesis.baselines.cut import Cut
        module = importlib.import_module(f"tacit.methods.synthesis.baselines.{found.module}")
        plan = getattr(module, found.plan)
        raw = plan.paper(here.spec) if found.paper else plan(cut=Cut(here.spec, found.bins), **dict(found.settings))
        return {"method": found.module, "plan": describe(raw), "public_bins": not found.paper, "rows": scale.rows}
    if kind == "Gan":
        from tacit.methods.synthesis.baselines import pate_gan
        raw = pate_gan.PateGanPlan()
        if found.public:
            raw = dataclasses.replace(raw, pretraining=pate_gan.GanPretraining(provenance=here.provenance))
        return {"method": "pate_gan", "plan": describe(raw), "rows": scale.rows}
    if kind == "Histograms":
        return {"method": "raking alone", "raking": then_tables_of(then_raking(here)), "rows": scale.rows}
    raise ThenPlan(kind)
