"""The local web page of `byheart serve`, to compile, query and inspect models, change weights, plan sizes and view figures."""
