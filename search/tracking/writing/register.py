"""Puts a trained shape into MLflow's registry, from which it can be loaded without Fathom."""

import shutil
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

import mlflow
import numpy as np
import torch
from mlflow.models import ModelSignature
from mlflow.types import Schema, TensorSpec

from fathom import models
from fathom.models.network.transformer import Transformer
from fathom.search.export.best import BestShape
from fathom.search.study.planning.plan import listed_sizes
from fathom.search.tracking.stores import store
from fathom.search.tracking.stores.artifacts import check_store
from fathom.search.tracking.writing.metrics import LONGEST_PARAM


def register_model(
    chosen: BestShape, weights: Path, name: str, uri: str, *, trust: bool = False
) -> str:
    """Logs the model in a new run of the study's experiment; returns the model's address.

    The model is pickled together with its code, so that `mlflow.pytorch.load_model` needs torch but
    not Fathom. A traced graph would accept sequences of one length only.

    Raises:
        TrackingError: when the address of the store can never be used, or without `trust` leads to
            a store that was not made here.
    """
    study = chosen.config.study
    check_store(uri, study, trust=trust)
    store.settle()
    store.check(uri)
    client = store.connect(uri)
    if client.get_experiment_by_name(study) is None:
        client.create_experiment(study, store.artifact_location(uri, study))
    model = _model(chosen, weights)
    check_store(uri, study, trust=trust)
    mlflow.set_tracking_uri(uri)
    mlflow.set_experiment(study)
    with (
        warnings.catch_warnings(),
        _code_of_the_model() as code,
        mlflow.start_run(run_name=f"{name}, trained"),
    ):
        warnings.simplefilter("ignore")  # MLflow's flavour warns of type hints of its own
        mlflow.log_params(_params(chosen))
        logged = mlflow.pytorch.log_model(
            model,
            name="model",
            registered_model_name=name,
            serialization_format="pickle",
            signature=_signature(chosen),
            code_paths=[str(code)],
            pip_requirements=[f"torch=={version('torch')}", f"numpy=={version('numpy')}"],
        )
    return f"models:/{name}/{logged.registered_model_version}"


@contextmanager
def _code_of_the_model() -> Iterator[Path]:
    """Yields a folder `fathom` that contains only `fathom.models`, to be logged beside the pickled
    model."""
    with tempfile.TemporaryDirectory() as home:
        package = Path(home, "fathom")
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(Path(models.__file__).parent, package / "models", ignore=ignored)
        (package / "__init__.py").write_text('"""The part of Fathom that a model needs."""\n')
        yield package


def _model(chosen: BestShape, weights: Path) -> Transformer:
    model = Transformer(chosen.shape, chosen.config.model.parametrization.build())
    model.load_state_dict(torch.load(weights, map_location="cpu", weights_only=True))
    return model.eval()


def _signature(chosen: BestShape) -> ModelSignature:
    """Returns the model's signature: from token ids (B, T) to logits (B, T, V)."""
    tokens = TensorSpec(np.dtype(np.int64), (-1, -1))
    logits = TensorSpec(np.dtype(np.float32), (-1, -1, chosen.shape.vocab_size))
    return ModelSignature(Schema([tokens]), Schema([logits]))


def _params(chosen: BestShape) -> dict[str, str]:
    found = listed_sizes(chosen.shape) | {"budget": chosen.budget}
    return {name: str(value)[:LONGEST_PARAM] for name, value in found.items()}
