"""Small tables of searches: every setting was drawn, and the best depth is planted."""

import numpy as np

DEPTHS = np.arange(2, 17)
BEST = 7
Row = dict[str, object]


def drawn(
    rows: int = 120, *, depth_matters: float = 0.15, shift: float = 0.0, growth: float = 0.0
) -> list[Row]:
    """Rows at settings that were drawn; the best rate goes with depth by `shift`, and the size by
    the power `growth`."""
    generator = np.random.default_rng(3)
    found: list[Row] = []
    for _ in range(rows):
        depth = int(generator.choice(DEPTHS))
        rate, decay, dropout = generator.uniform(-1, 1, 3)
        optimizer = str(generator.choice(["adamw", "muon"]))
        x = np.log(depth / BEST)
        loss = 3 + depth_matters * x**2 + 0.2 * (rate - shift * x) ** 2 + 0.05 * (decay - 0.3) ** 2
        loss += 0.02 * (optimizer == "adamw") + generator.normal(0, 0.001)
        found.append(
            {
                "depth": depth, "loss": loss, "params": 1e7 * (depth / BEST) ** growth,
                "lr": 1e-3 * 10**rate, "weight_decay": 0.1 * 10**decay,
                "dropout": 0.1 + dropout / 10, "optimizer": optimizer,
            }
        )  # fmt: skip
    return found
