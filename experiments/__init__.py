"""Experiments by paper; `lib` is what they share, `beyond` is what no paper has, `results` holds the rows."""
