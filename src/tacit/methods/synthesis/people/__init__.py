"""Whole people from structured noisy tables."""

from tacit.methods.synthesis.people.algorithm import PeoplePlan as PeoplePlan
from tacit.methods.synthesis.people.algorithm import PeopleSynthesizer as PeopleSynthesizer
from tacit.methods.synthesis.people.algorithm import fit as fit
