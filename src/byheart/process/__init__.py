"""Child processes, pools of workers, and how much memory one input may ask for."""
