"""What tacit is compared with: loops written for a comparison and then left as they are, and other libraries."""
