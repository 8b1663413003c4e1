"""Who uploads this round, and with how many Hz on every link."""
