"""DPPG: private policy gradient, and its Figure 7, alignment."""
