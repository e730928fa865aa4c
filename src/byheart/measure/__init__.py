"""What training achieves: many small models at once, capacity by search, a store that loses nothing.

`training_set`, `families`, `layout`, `draws`, `objective`, `optimisers`, `lbfgs` and `training` are the engine: they import
torch, numpy and the standard library alone, so they run on a bare GPU machine. Everything else stands on them.
"""
