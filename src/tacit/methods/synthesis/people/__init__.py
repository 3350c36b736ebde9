"""Whole people from structured noisy tables."""

from tacit.methods.synthesis.people.algorithm import PeopleSynthesizer as PeopleSynthesizer
from tacit.methods.synthesis.people.algorithm import fit as fit
from tacit.methods.synthesis.people.plan import PeoplePlan as PeoplePlan
