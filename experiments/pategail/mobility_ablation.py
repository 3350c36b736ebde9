"""What the parts of PateGAIL++ are worth: its rewards of samples on Geolife's 83 people, one thing changed at a time.

Rows without noise (epsilon inf), where a critic's shape shows best: the weight of the gradient penalty (10 is the
recipe's); a spectral norm instead of it; the discriminator of PATEGAIL (cross-entropy, no penalty); 40 and 80 % of the
people; and rewards that are all zero. Rows at epsilon 10: the recipe, 40 % of the people, and noise by every device
(`local`), and each is then private against the server too. The last averaged policy is judged, none picked.
"""

import math

from experiments.lib.check import Figures, at_least, at_most
from experiments.lib.experiment import command_line
from experiments.pategail.mobility_ways import Change, Changes

PENALTIES = (0.0, 1.0, 5.0, 10.0, 15.0, 20.0)
ROWS = Changes(
    __file__,
    (
        *(Change(f"penalty {weight:g}", critic=(("penalty", weight),)) for weight in PENALTIES),
        Change("spectral norm", critic=(("penalty", 0.0), ("spectral", True))),
        Change("cross-entropy", critic=(("penalty", 0.0), ("loss", "cross_entropy"))),
        Change("80 % of the people", people=66),
        Change("40 % of the people", people=33),
        Change("silent", changes=(("zero_contribution", True),)),
        Change("recipe", 10.0),
        Change("40 % of the people", 10.0, people=33),
        Change("local", 10.0, changes=(("noise", "device"),)),
    ),
)
rows, configuration, store, run_row = ROWS.rows, ROWS.configuration, ROWS.store, ROWS.run_row


def figures() -> Figures:
    results = store()
    seq = {(change.name, change.epsilon): float(ROWS.column(results, change).mean()) for change in ROWS.every}
    nothing, recipe = seq["silent", math.inf], seq["penalty 10", math.inf]
    local, central = seq["local", 10.0], seq["recipe", 10.0]
    yield at_most("no noise: SEQ of the recipe over that of silence", recipe / nothing, 0.5)
    yield at_least("epsilon 10: SEQ of noise by every device over that of central noise", local / central, 1.0)


if __name__ == "__main__":
    command_line(__file__)
