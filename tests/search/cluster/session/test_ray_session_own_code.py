"""A user's modules reach the workers of a cluster, where the working folder is not."""

import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from fathom.search.cluster.session import ray_session
from tests.support.command_line import run
from tests.support.places import ROOT
from tests.support.ray_folder import own_ray_folder

SCRIPT = """
import importlib, os, shutil, sys
import ray
from ray.cluster_utils import Cluster
from fathom.objectives.user_code import CHECKOUT, named, own_modules
from fathom.search.cluster.session.ray_session import join_cluster

# Another checkout of Fathom may be installed here.
others = [place for place in sys.path if os.path.isdir(os.path.join(place, "objectives"))]
sys.path[:] = [place for place in sys.path if place == str(CHECKOUT) or place not in others]

cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
os.environ["RAY_ADDRESS"] = cluster.address
module, build = named("models.mine:build", "model function")
assert build() == "models and helper", build()
assert sorted(map(os.path.basename, own_modules())) == ["helper.py", "models"], own_modules()
assert join_cluster(own_code=True) == cluster.address
os.rename(sys.argv[1], sys.argv[1] + "-gone")  # another machine has no such folder

@ray.remote
def there():
    import fathom.models.shape
    module = importlib.import_module("models.mine")
    return module.build(), module.__file__, fathom.models.shape.Shape.__module__

said, file, ours = ray.get(there.remote(), timeout=100)
assert said == "models and helper", said
assert not file.startswith(sys.argv[1]), file
assert ours == "fathom.models.shape"
print("all seen")
"""


@pytest.mark.drill
def test_modules_of_the_working_folder_reach_workers_and_do_not_clash_with_ours(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "work"
    (folder / "models").mkdir(parents=True)
    (folder / "models" / "__init__.py").touch()
    (folder / "models" / "mine.py").write_text(
        "import helper\n\ndef build():\n    return 'models and ' + helper.NAME\n"
    )
    (folder / "helper.py").write_text("NAME = 'helper'\n")
    (folder / "unused.py").write_text("1 / 0\n")

    with own_ray_folder():
        there = os.environ | {"PYTHONPATH": str(ROOT)}
        done = run(sys.executable, "-c", SCRIPT, folder, cwd=folder, env=there, timeout=280)

    assert done.stdout.endswith("all seen\n"), done.stderr[-2000:]


def test_code_that_is_installed_on_every_node_sends_no_modules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ray lets every worker fail at an empty list of them."""
    monkeypatch.chdir(tmp_path)
    assert "py_modules" not in ray_session._worker_environment(own_code=True)
    mine = SimpleNamespace(__file__=str(tmp_path / "mine.py"))
    monkeypatch.setitem(sys.modules, "mine", mine)
    found = ray_session._worker_environment(own_code=True)
    assert found["py_modules"] == [mine.__file__]
