"""The local page: compile, ask, look inside, break, plan and read figures in a browser. Started by `byheart serve`."""
