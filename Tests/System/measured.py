"""Figures with a bound, which `scripts/verify` compares: repeatedly, on an idle machine.

`scripts/test` runs wherever a developer is, beside other work: it asserts what happens, never how fast. A check prints its
figures in both; no figure makes it fail.
"""

import os

# scripts/verify runs this process. Checks that only measure run then.
VERIFYING = bool(os.environ.get("DECART_VERIFY"))


def measured(name, value, unit, at_most=None, at_least=None):
    """Prints a figure and its bound for scripts/verify. Returns whether it is within the bound."""
    relation, bound = ("<=", at_most) if at_least is None else (">=", at_least)
    print(f"measured {name}: {value:.4g} {unit} {relation} {bound:g}", flush=True)
    return value <= bound if at_least is None else value >= bound
