"""Where a graft of four times the width has the host's bits, on the CPU: per precision and number of threads.

    python benchmarks/graft_identical.py HOST --text FILE.jsonl [--tokenizer FOLDER] [--facts 100] [--blocks 4] [--out FILE]

Where bits differ, the first module of the host whose output differs is named, with the number of terms of its sums before and
after: the products are the same numbers and zeros, so only the order of additions can differ. One JSON document per line.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import torch
from graft_editing import network_of, report
from made_up_facts import numbers

BLOCK = 512


@torch.no_grad()
def first_difference(host: Any, new: Any, tokens: torch.Tensor, n_added: int) -> dict[str, Any] | None:
    """The first module of the host's layers, in the order of the computation, whose output has other bits in the graft."""
    seen: dict[str, torch.Tensor] = {}
    order: list[str] = []

    def keep(name: str, into: dict[str, torch.Tensor]) -> Any:
        def hook(_: Any, __: Any, output: Any) -> None:
            into[name] = output[0] if isinstance(output, tuple) else output
            order.append(name)

        return hook

    found: dict[str, torch.Tensor] = {}
    handles = []
    for number, layer in enumerate(host.model.layers):
        for name, module in layer.named_modules():
            if name:
                handles.append(module.register_forward_hook(keep(f"{number}.{name}", seen)))
    for number, layer in enumerate(list(new.model.layers)[n_added:]):
        for name, module in layer.named_modules():
            if name:
                handles.append(module.register_forward_hook(keep(f"{number}.{name}", found)))
    host(tokens)
    names, _ = list(order), order.clear()
    new(tokens)
    for handle in handles:
        handle.remove()
    for name in names:
        old, wide = seen[name], found[name]
        if not torch.equal(old, wide[..., : old.shape[-1]]):
            module = host.model.layers[int(name.split(".", 1)[0])].get_submodule(name.split(".", 1)[1])
            other = new.model.layers[int(name.split(".", 1)[0]) + n_added].get_submodule(
                name.split(".", 1)[1]
            )
            apart = (old - wide[..., : old.shape[-1]]).abs().max().item()
            terms = [getattr(each, "in_features", None) for each in (module, other)]
            return {"module": name, "terms": terms, "largest_difference": apart}
    return None


@torch.no_grad()
def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("host", type=Path)
    parser.add_argument("--tokenizer", type=Path)
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--facts", type=int, default=100)
    parser.add_argument("--blocks", type=int, default=4)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    from byheart.graft.emission import grafted_tensors
    from byheart.graft.folder import grafted_config
    from byheart.graft.grafting import plan_graft
    from byheart.graft.host import open_host, tensor_shapes
    from byheart.graft.texts import Row, load_tokenizer, plain_format

    file, tokenizer = open_host(options.host), load_tokenizer(options.tokenizer or options.host)
    keys = plain_format(tokenizer, None, end=False)
    rows = [Row(fact.prompt, fact.answer, keys) for fact in numbers(options.facts, 0)]
    plan = plan_graft(file, tokenizer, rows, bit_identical=True)
    reviews = [json.loads(line)["text"] for line in options.text.read_text(encoding="utf-8").splitlines()]
    ids = tokenizer("\n".join(reviews[:100]), add_special_tokens=False).input_ids[: options.blocks * BLOCK]
    blocks = torch.tensor(ids).view(-1, BLOCK)
    own = {name: file.tensor(name) for name in tensor_shapes(file.shape)}
    for precision, dtype in (("float32", torch.float32), ("bfloat16", torch.bfloat16)):
        host = network_of(file.config, own, dtype)
        tensors = dict(grafted_tensors(file, plan.memory, float(file.config["rms_norm_eps"]), dtype))
        new = network_of(grafted_config(plan, file, precision), tensors, dtype)
        del tensors
        for n_threads in options.threads:
            torch.set_num_threads(n_threads)
            equal = other = 0
            largest = 0.0
            for block in blocks:
                old, found = host(block[None]).logits[0], new(block[None]).logits[0]
                equal += int((old == found).all(-1).sum())
                other += int((old.argmax(-1) != found.argmax(-1)).sum())
                largest = max(largest, (old.float() - found.float()).abs().max().item())
            report(
                options.out,
                precision=precision,
                threads=n_threads,
                positions=blocks.numel(),
                equal_bits=equal,
                other_argmax=other,
                largest_difference=largest,
                first=first_difference(host, new, blocks[:1], plan.layout.n_memory_layers),
                torch=torch.__version__,
                kernels=torch.backends.cpu.get_cpu_capability(),
            )
        del host, new


if __name__ == "__main__":
    main()
