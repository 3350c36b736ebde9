"""Simulators and demonstrations that only the tables of PrivORL use."""
