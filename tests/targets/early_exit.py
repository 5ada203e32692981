"""A network that leaves early where it is sure: a trunk, and an If whose branches have layers of their own."""

from __future__ import annotations

import numpy as np

from infer_opt.calibrate.sample_set import Feed
from tests.targets.networks import Feeds, Network, normal

EARLY, LATE = "exit/then_branch", "exit/else_branch"

TEXT = """net (float[1,8,12,12] x) => (float[1,10] scores)
{
  [trunk] t = Conv<pads=[1,1,1,1]>(x, w, b)
  r = Relu(t)
  pooled = GlobalAveragePool(r)
  flat = Flatten(pooled)
  [head] logits = MatMul(flat, k)
  chances = Softmax(logits)
  best = ReduceMax<keepdims = 0>(chances)
  sure = Greater(best, limit)
  [exit] scores = If(sure) <
    then_branch = early () => (float[1,10] a) {
      [early_conv] e = Conv(r, w, b)
      er = Relu(e)
      ep = GlobalAveragePool(er)
      ef = Flatten(ep)
      [early_matmul] a = MatMul(ef, v)
    },
    else_branch = late () => (float[1,10] c) {
      [late_conv] d = Conv<pads=[1,1,1,1]>(r, w, b)
      dr = Relu(d)
      [deeper] q = Conv(dr, u, b)
      s = Add(q, q)
      lp = GlobalAveragePool(s)
      lf = Flatten(lp)
      [late_matmul] c = MatMul(lf, v)
    }
  >
}"""
CONSTANTS = {
    "w": normal(8, 8, 3, 3, scale=0.2),
    "b": normal(8, seed=1, scale=0.3),
    "u": normal(8, 8, 3, 3, seed=2, scale=0.2),
    "k": normal(8, 10, seed=3, scale=4.0),
    "v": normal(8, 10, seed=4),
    "limit": np.float32(0.9),
}
EARLY_EXIT = Network(TEXT, CONSTANTS)


def takes_early(feed: Feed) -> bool:
    """Whether a sample leaves early, by the model's own test of its own first head."""
    found = Network(TEXT.replace("(float[1,10] scores)", "(float[1,10] scores, bool sure)"), CONSTANTS).run(feed)
    return bool(found["sure"])


def samples(early: int, late: int) -> Feeds:
    """So many samples that leave early and late, in turns as long as there are both."""
    found: dict[bool, list[Feed]] = {True: [], False: []}
    rng = np.random.default_rng(0)
    while len(found[True]) < early or len(found[False]) < late:
        bias = rng.normal(0, rng.choice([0.1, 1.5]), (1, 8, 1, 1))
        feed = {"x": (rng.normal(0, 1, (1, 8, 12, 12)) + bias).astype(np.float32)}
        found[takes_early(feed)].append(feed)
    kept = [found[True][:early], found[False][:late]]
    return Feeds([each[i] for i in range(max(early, late)) for each in kept if i < len(each)])
