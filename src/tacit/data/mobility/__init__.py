"""Records of where people were, as whole days on a public grid: grids, days, readers of positions, files of trips.

grid = RegularGrid(39.4, 115.7, 41.1, 117.4, 0.01)
rules = Rules(zone="Asia/Shanghai", outside="drop")
days = from_points("points.csv.gz", grid, rules, recorded="UTC")
vault = Vault(days.trajectories(), ledger)
"""

from tacit.data.mobility.days import Days
from tacit.data.mobility.grids import Grid, H3Grid, RegularGrid
from tacit.data.mobility.points import UNIX, Rules
from tacit.data.mobility.readers import from_cells, from_checkins, from_gpx, from_plt, from_points, from_skmob
from tacit.data.mobility.readers import from_trackintel as from_trackintel

__all__ = ["UNIX", "Days", "Grid", "H3Grid", "RegularGrid", "Rules", "from_cells", "from_checkins", "from_gpx"]
__all__ += ["from_plt", "from_points", "from_skmob", "from_trackintel"]
