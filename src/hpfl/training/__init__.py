"""The round itself: one state machine, run alike in simulation and deployment."""
