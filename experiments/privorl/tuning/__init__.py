"""Settings of synthesizers and agents, chosen on public rows."""
