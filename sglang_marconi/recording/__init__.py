"""Records what a live server is asked for, as a trace that the simulator replays."""
