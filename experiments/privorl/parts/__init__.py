"""What the tables of PrivORL share: domains, ways to make rows, agents, pages."""
