"""What no paper has: improvement, whole people, scale, audits, judges of our own."""
