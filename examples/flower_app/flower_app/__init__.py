"""A Flower app on tacit: days of people who keep their records become one private simulator of movement."""
