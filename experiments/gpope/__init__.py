"""GPOPE: private off-policy evaluation."""
