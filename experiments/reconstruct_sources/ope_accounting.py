def configuration(key):
    import inspect
    import re
    text, name = inspect.getsource(noise), globals()["key"]
    fixed, poisson = re.findall(r'relation="(\w+)"', text)
    if key.startswith("noise/"):
        m, n = (int(one.replace("_", "")) for one in re.search(r"published_sigma\(([\d_]+), ([\d_]+),", text).groups())
        asked = {"epsilon": float(key.removeprefix("noise/epsilon=")), "population": m, "steps": n}
    else:
        m, n, sigma, interval = next(one for one in ROWS if name(*one[:3]) == key)
        asked = {"population": m, "steps": n, "noise_multiplier": sigma, "grid": interval}
    batch = int(re.search(r"DpEvent\(m, (\d+),", inspect.getsource(one_of_m))[1])
    return {**asked, "batch": batch, "delta": DELTA, "relations": {"fixed": fixed, "poisson": poisson}}
