"""What the experiments share: rows, configurations, checks, the queue, tables and pictures."""
