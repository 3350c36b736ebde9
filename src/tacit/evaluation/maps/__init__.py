"""Maps of days of movement: one HTML file that shows trips by the time of day, density and flows, without a network.

`render` takes one or two `Panel`s. Real days are drawn only where they are declared public.
"""

from tacit.evaluation.maps.page import MOST_TRIPS, render
from tacit.evaluation.maps.panel import Kind, Panel

__all__ = ["MOST_TRIPS", "Kind", "Panel", "render"]
