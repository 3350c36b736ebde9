def configuration(key):
    from experiments import trajectory_ways as ways
    from experiments.trajectory_domains import DELTA, DOMAINS, unit

    parts = key.split("/")
    with_agent = NAME == "table2_trajectories"
    domain, way, epsilon = parts[0], parts[2 if with_agent else 1], float(parts[3 if with_agent else 2])
    here, found = DOMAINS[domain], ways.WAYS[way]
    whole = {
        "domain": then_rows(here),
        "table": then_table(here, found, epsilon),
        "guarantee": {"unit": describe(unit(here)), "epsilon": epsilon, "delta": DELTA} if found.private else None,
    }
    if NAME != "table2_trajectories":
        whole |= then_measures(here)
    if NAME == "table2_trajectories":
        whole |= then_judge(here, parts[1])
    if NAME == "figure8_horizon":
        whole |= then_judge(here, "iql")
    return whole


def then_defaults(function, *, without=("seed", "progress")):
    import inspect

    parameters = inspect.signature(function).parameters.items()
    given = {name: one.default for name, one in parameters if one.default is not inspect.Parameter.empty}
    return {name: describe(value) for name, value in given.items() if name not in without}


def then_others(here):
    from experiments.trajectory_domains import MazePeople
    from tacit.envs import clinic, goal_episodes, maze
    from tacit.envs.maze_layouts import LAYOUTS

    if isinstance(here, MazePeople):
        walks = {"shortest": goal_episodes.SHORTEST, "longest": here.longest, "collect": then_defaults(maze.collect)}
        own = {"mazes": here.mazes, "episodes": here.public_episodes, "provenance": here.provenance}
        return {"layout": describe(LAYOUTS[here.layout]), "walks": walks, "public": own}
    courses = {"horizon": here.longest, "lost": clinic.LOST, "doctors": clinic.DOCTORS}
    own = {"staffs": here.staffs, "patients": here.public_patients, "provenance": here.provenance}
    return {"courses": courses, "public": own}


def then_rows(here):
    own = {"type": type(here).__name__, "population": here.population, "episodes": here.episodes}
    return {**own, **then_others(here)}


def then_judge(here, agent):
    from unittest import mock

    from experiments import synthesis_fits, synthesis_mazes, synthesis_returns, trajectory_domains

    if isinstance(here, trajectory_domains.MazePeople):
        config = describe(synthesis_returns.config(here.layout, agent, synthesis_fits.FULL))
        judge = then_evaluated()
        return {"agent": config, "judge": judge}
    seen = {}

    def trained(learner, network, features, table, *, steps, seed, **others):
        seen["agent"] = {"learner": describe(learner), "network": describe(network), "features": describe(features)}
        seen["agent"] |= {**then_defaults(real), **others, "steps": steps}

    def judged(policies, *, episodes, seed):
        seen["judge"] = {"episodes": episodes}
        return [0.0]

    real = trajectory_domains.train
    with (
        mock.patch.object(trajectory_domains, "train", trained),
        mock.patch.object(trajectory_domains.clinic, "evaluate", judged),
    ):
        here.judged(agent, [{}], 0, synthesis_fits.FULL)
    return seen


def then_evaluated():
    """What a maze's returns pass to `evaluate`, by their names."""
    from unittest import mock

    from experiments import synthesis_mazes

    seen = []

    real = synthesis_mazes.evaluate

    def evaluated(layout, policies, *, starts, seed, **given):
        seen.append((then_defaults(real) | given)["episodes"])
        return starts

    with mock.patch.object(synthesis_mazes, "evaluate", evaluated):
        starts = synthesis_mazes.Maze("umaze").returns(None, 0)
    (episodes,) = set(seen)
    return {"starts": describe(starts), "episodes": episodes}


def then_planned(plan):
    import dataclasses

    own = {one.name: describe(getattr(plan, one.name)) for one in dataclasses.fields(plan) if one.name != "raking"}
    raking = None if plan.raking is None else then_tables_of(plan.raking)
    return {"type": type(plan).__name__, **own, "raking": raking}


def then_tables_of(tables):
    import dataclasses

    named = [[[axis.column, axis.index, len(axis.edges) - 1] for axis in table] for table in tables.tables]
    names = [one.name for one in dataclasses.fields(tables) if one.name not in ("cut", "joint")]
    own = {name: describe(getattr(tables, name)) for name in names}
    decoding = {"decoding": tables.cut.decoding} if hasattr(tables.cut, "decoding") else {}
    return {"type": type(tables).__name__, **own, **decoding, "tables": named}


def then_table(here, found, epsilon):
    from unittest import mock

    from experiments import synthesis_fits, trajectory_domains, trajectory_fragments, trajectory_transitions
    from experiments import trajectory_ways as ways
    from tacit.methods.synthesis import Raking
    from tacit.methods.synthesis.baselines import raking_alone

    scale = synthesis_fits.FULL
    if isinstance(found, ways.Real):
        return {"method": "real trajectories"}

    def of_bounds(self, seed):
        make = Raking.plane if isinstance(self, trajectory_domains.MazePeople) else Raking.of
        return make(self.spec, population=self.population)

    with (
        mock.patch.object(trajectory_domains.MazePeople, "raking", of_bounds),
        mock.patch.object(trajectory_domains.Patients, "raking", of_bounds),
    ):
        if isinstance(found, trajectory_fragments.Fragments):
            told = found.told
            public = trajectory_fragments.many(here) if told else here
            return {
                "method": "trajectories",
                "plan": then_planned(found.plan(here, scale)),
                "public": then_others(public),
                "rows": scale.rows if found.rows else None,
                "trajectories": None if found.rows else here.samples,
            }
        if isinstance(found, trajectory_transitions.Transitions):
            plan = then_planned(found.plan(here, epsilon, scale))
            return {"method": "diffusion", "plan": plan, "rows": scale.rows}
        plan = then_planned(raking_alone.RakingPlan(raking=here.raking(0)))
        return {"method": "raking alone", "plan": plan, "rows": scale.rows}


def then_measures(here):
    import inspect
    import re

    from experiments import table13_trajscore as closeness

    def steps(function, quick):
        (number,) = re.findall(rf"steps ?= ?{quick} if scale.quick else ([\d_]+)", inspect.getsource(function))
        return int(number)

    encoder = inspect.unwrap(closeness.encoder)
    stride = -(-here.longest // closeness.SEEN)
    own = {"horizon": here.longest, "stride": stride, "steps": steps(encoder, 50)}
    without = ("seed", "progress", "real_groups", "synthetic_groups")
    classifier = then_defaults(closeness.two_sample, without=without)
    return {
        "classifier": {**classifier, "steps": steps(closeness.measured, 100)},
        "encoder": then_defaults(closeness.train_encoder) | own,
        "trajscore": then_defaults(closeness.traj_score),
        "measured": closeness.MEASURED,
    }
