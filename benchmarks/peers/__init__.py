"""What the policy gradient is compared with, written for the comparison and then left as it is."""
