def configuration(key):
    import inspect
    import re
    campaign, *rest = key.split("/")
    sample = re.search(r"Open Bandit sample \(([^)]*)\)", inspect.getsource(run))[1]
    data = {"campaign": campaign, "sample": sample, "spec": open_bandit.spec(campaign), "target": "mean of bts over the week"}
    asked = {"data": describe(data), "unit": describe(UNIT)}
    if rest == ["nonprivate"]:
        return asked | {"estimates": "without privacy"}
    described = describe(plans(np.full((1, 2), 0.5)))
    described["unclipped"]["clip"] = "the largest ratio"
    promise = {"epsilon": float(rest[0].removeprefix("epsilon=")), "delta": DELTA, "unit": UNIT}
    return asked | {"plans": described, "records": ["all", "without clicks"], "guarantee": describe(promise)}
