"""PrivORL: synthetic transitions and trajectories, a module for each table or figure."""
