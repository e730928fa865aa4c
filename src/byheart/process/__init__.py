"""Child processes, pools of workers, progress, and the limit on memory per input."""
