"""The packages that a search needs: those that a machine with PyTorch has, and those of the kit."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]

THERE = (
    *("torch", "numpy", "pandas", "pyarrow", "scipy", "scikit-learn", "matplotlib", "psutil"),
    *("transformers", "tokenizers", "safetensors", "jinja2", "grpcio", "regex", "tqdm"),
)
"""Packages of the machine; what these need is there as well."""

CARRIED = (
    *("ray", "msgpack", "jsonschema", "jsonschema-specifications", "attrs", "referencing"),
    *("rpds-py", "protobuf", "filelock", "packaging", "click"),
    *("optuna", "colorlog", "alembic", "mako", "sqlalchemy", "pyyaml"),
    # MLflow without its server's pages and its models.
    *("mlflow-skinny", "cachetools", "cloudpickle", "databricks-sdk", "sqlparse", "requests"),
    *("urllib3", "idna", "certifi", "charset-normalizer", "importlib-metadata", "zipp"),
    *("cryptography", "cffi", "fastapi", "starlette", "anyio", "annotated-doc"),
    *("opentelemetry-api", "opentelemetry-sdk", "opentelemetry-proto"),
    "opentelemetry-semantic-conventions",
    *("pydantic", "pydantic-core", "annotated-types", "typing-inspection", "typing-extensions"),
    *("typer", "shellingham", "rich", "pygments"),
)
"""Packages of the kit: those that processes of a search import, as a test finds."""


def pins() -> dict[str, str]:
    """Name of each package, in small letters and with hyphens -> the version of the tests."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pairs = (line.split("==") for line in lines if "==" in line)
    return {name.lower().replace("_", "-"): version for name, version in pairs}
