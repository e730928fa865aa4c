"""The local web page of `byheart serve`, to compile, query, inspect and damage models, plan sizes and view figures."""
