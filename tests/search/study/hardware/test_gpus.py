"""The types of GPU that a plan knows: `search/study/hardware/gpus.py`."""

from pathlib import Path

import pytest

from fathom.search.study.file.errors import ConfigError
from fathom.search.study.file.study_file import parse
from fathom.search.study.hardware import gpus
from fathom.search.study.hardware.gpus import ASSUMED, GPUS, choose_gpu, gpu_named, recognised
from fathom.search.study.hardware.machine import this_machine
from fathom.search.study.planning.plan import plan_study
from tests.support.places import ROOT


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of a cluster, which is not there yet."""
    monkeypatch.setattr(gpus, "CLUSTER_FILES", (tmp_path / "cluster.yaml",))
    return tmp_path / "cluster.yaml"


DRIVERS = {
    "Tesla T4": "T4", "NVIDIA L4": "L4", "NVIDIA A10G": "A10G", "NVIDIA L40S": "L40S",
    "NVIDIA A100-SXM4-40GB": "A100-40GB", "NVIDIA A100-PCIE-40GB": "A100-40GB",
    "NVIDIA A100-SXM4-80GB": "A100-80GB", "NVIDIA A100 80GB PCIe": "A100-80GB",
    "NVIDIA H100 PCIe": "H100-PCIe", "NVIDIA H100 80GB HBM3": "H100", "NVIDIA H200": "H200",
    "NVIDIA B200": "B200",
}  # fmt: skip
"""Name that a driver gives -> the type."""


@pytest.mark.parametrize(("driver", "name"), DRIVERS.items())
def test_a_driver_s_name_is_recognised(driver: str, name: str) -> None:
    assert gpu_named(driver).name == name
    assert gpu_named(name.lower()).name == name


@pytest.mark.parametrize("name", ["L40", "A100", "NVIDIA GeForce RTX 4090", "", "H100x"])
def test_an_unknown_type_is_refused_with_the_known_ones(name: str) -> None:
    assert recognised(name) is None
    with pytest.raises(ConfigError, match=r"`--gpu` must be one of T4, L4, .*, B200, got"):
        gpu_named(name)


@pytest.mark.parametrize("vocabulary", [256, 50_257])
def test_a_search_at_1b_takes_about_what_40_percent_of_an_h100_makes_of_it(vocabulary: int) -> None:
    config = parse("""
study: large
objective: {name: language, corpus: stdlib, context: 1024}
budgets: [1B]
count: non_embedding
resources: {gpus_per_trial: 1, max_concurrent_trials: 8}
""")
    (plan,) = plan_study(config, vocabulary, this_machine(config.resources, config.train, "H100"))

    expected = 6 * 1e9 * plan.expected_tokens / (0.4 * 989e12) / 8 / 3600
    assert expected / 1.5 < plan.hours < expected * 1.5


@pytest.mark.parametrize("file", ["cluster.yaml", "deploy/gcp.yaml"])
def test_the_gpu_of_a_shipped_cluster_file_is_the_one_of_its_machines(
    cluster: Path, file: str
) -> None:
    cluster.write_text((ROOT / file).read_text())

    choice = choose_gpu(None, ())

    assert choice.gpu.name == "L4"
    machine = "g6.xlarge" if file == "cluster.yaml" else "g2-standard-4"
    assert choice.source.startswith(f"{machine} in {cluster} has this GPU; for another, name yours")


@pytest.mark.parametrize(
    "text",
    ["{", "[]", "available_node_types: 3", "available_node_types: {a: 1, b: {node_config: [2]}}",
     "available_node_types: {head: {node_config: {InstanceType: m7i.xlarge}}}",
     "available_node_types: {a: {node_config: {InstanceType: g6.xlarge}},"
     " b: {node_config: {InstanceType: p5.48xlarge}}}"],
)  # fmt: skip
def test_a_cluster_file_that_tells_no_type_is_as_good_as_none(cluster: Path, text: str) -> None:
    cluster.write_text(text)

    choice = choose_gpu(None, ())

    assert choice.gpu is ASSUMED
    assert choice.source.startswith("A100-80GB is assumed; name yours with --gpu (T4, ")


def test_gpus_here_come_before_a_cluster_file_and_a_name_before_both(cluster: Path) -> None:
    cluster.write_text((ROOT / "cluster.yaml").read_text())
    here = ("NVIDIA H200", "NVIDIA H200")

    assert choose_gpu(None, here) == gpus.GpuChoice(gpu_named("H200"), "H200", 2)
    assert choose_gpu("B200", here) == gpus.GpuChoice(gpu_named("B200"), "B200", 0)
    unknown = choose_gpu(None, ("NVIDIA GeForce RTX 4090",))
    assert (unknown.gpu, unknown.device) == (ASSUMED, "NVIDIA GeForce RTX 4090")
    assert "NVIDIA GeForce RTX 4090 is unknown here" in unknown.source


def test_every_machine_type_has_a_gpu_that_is_known() -> None:
    assert set(gpus.INSTANCES.values()) <= {gpu.name for gpu in GPUS}
