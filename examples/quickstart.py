"""The ten lines of the README: a table becomes a Transformer that has it by heart."""

import byheart as bh

model = bh.compile("examples/capitals.csv")
print(model.predict("capital of France"), model.predict("capital of Atlantis"))
print(model.certificate)

model.save("out/capitals")
again = bh.load("out/capitals")
print(type(again.module).__name__, next(again.module.parameters()).dtype)
