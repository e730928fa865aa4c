"""The ten lines of the README: a table becomes a Transformer that has it by heart."""

import byheart as bh

data = bh.Dataset.from_csv("examples/capitals.csv")
model = bh.compile(data, method="kajitsuka-sato-2025", precision="exact")
print(model.predict(["capital of France", "capital of Georgia"]))
print(model.certificate)

model.save("out/capitals")
again = bh.load("out/capitals")
print(bh.verify(again, data).holds)
