"""A trained shape in MLflow's registry: `search/tracking/writing/register.py`."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from fathom.models.network.transformer import Transformer
from fathom.search.export.best import BestShape
from fathom.search.study.planning.budget import expand_budgets
from fathom.search.study.planning.space.shapes import feasible_shapes
from fathom.search.study.store_uri import TrackingError, check_model_name
from fathom.search.tracking.writing.register import register_model
from tests.support.dry_run import study
from tests.support.places import ROOT

LOAD = """
import sys
import mlflow, torch
from tests.support.places import ROOT
mlflow.set_tracking_uri(sys.argv[1])
tokens, logits = torch.load(sys.argv[3])
model = mlflow.pytorch.load_model(sys.argv[2])
assert torch.equal(model(tokens), logits)
served = mlflow.pyfunc.load_model(sys.argv[2])
assert served.predict(tokens.numpy()).shape == logits.shape
print(sys.modules["fathom.models"].__file__)
"""


@pytest.mark.drill
def test_a_registered_model_loads_by_name_with_the_code_that_it_brings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    config = study()
    shape = feasible_shapes(config, expand_budgets(config)[0], 256)[0]
    model = Transformer(shape, config.model.parametrization.build())
    model.initialise(torch.Generator().manual_seed(0))
    torch.save(model.state_dict(), tmp_path / "weights.pt")
    chosen = BestShape(config, config.budgets[0], shape)
    uri = f"sqlite:///{tmp_path}/mlflow.db"

    address = register_model(chosen, tmp_path / "weights.pt", "best", uri)

    assert address == "models:/best/1"
    tokens = torch.randint(256, (2, 9), generator=torch.Generator().manual_seed(1))
    torch.save((tokens, model.eval()(tokens).detach()), tmp_path / "expected.pt")
    command = [sys.executable, "-c", LOAD, uri, address, str(tmp_path / "expected.pt")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not Path(done.stdout.strip()).is_relative_to(ROOT)


@pytest.mark.parametrize("name", ["", "  ", "a/b", "models:/a"])
def test_a_name_that_the_registry_would_refuse_is_refused_before_training(name: str) -> None:
    with pytest.raises(TrackingError, match="`--register` must be a name without"):
        check_model_name(name)
