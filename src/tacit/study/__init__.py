"""A study: private records, what may be spent on them, and one flow from a plan to a release that is saved."""
