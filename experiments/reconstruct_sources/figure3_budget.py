def configuration(key):
    import inspect
    *kind, delta, number = key.split("/")
    delta, number = float(delta.partition("=")[2]), float(number.partition("=")[2])
    asked = {"delta": delta, "relation": inspect.signature(_epsilon).parameters["relation"].default}
    if kind:
        return {**asked, "epsilon": number}
    pool = {"rounds": ROUNDS, "rate": RATE}
    return {**asked, "noise_multiplier": number, "participations": list(RETURNS), "pool": pool}
