def configuration(key):
    import inspect
    import re
    import numpy as np
    name, kind = key.split("/")
    one = SETTINGS[name]
    epochs = int(re.search(r"return (\d+) \* self.private // BATCH", inspect.getsource(Setting))[1])
    (relation,) = set(re.findall(r'relation="(\w+)"', inspect.getsource(noise) + inspect.getsource(printed) + inspect.getsource(valid)))
    training = {"private_rows": one.private, "steps": one.steps, "epochs": epochs, "batch": BATCH}
    asked = {"data": describe(one), "training": training, "relation": relation}
    if kind == "delta":
        text = inspect.getsource(valid)
        part = float(re.search(r"delta = ([\d.]+) / one.private", text)[1])
        return asked | {"promise": {"epsilon": float(re.search(r"epsilon=([\d.]+)", text)[1]), "delta_times_rows": part}}
    asked |= {"delta": DELTA, "orders": describe(np.array(ORDERS))}
    return asked if kind == "table X" else asked | {"epsilon": float(kind.removeprefix("epsilon="))}
