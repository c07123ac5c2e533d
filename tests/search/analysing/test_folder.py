"""The command `analyse` on folders of logs and of event files, as a person types it."""

import json
from importlib.machinery import ModuleSpec
from math import sqrt
from pathlib import Path

import pytest
from mlflow import MlflowClient
from torch.utils.tensorboard import SummaryWriter

from fathom.search.analysing import folder as analyse_folder
from tests.support.command_line import assert_refused, here
from tests.support.contract import valid
from tests.support.light import without
from tests.support.tables import DEPTHS, planted_loss

STEPS = (100, 200, 300)


def said(*arguments: object) -> tuple[int, str, str]:
    done = here("analyse", *arguments)
    return done.returncode, done.stdout, done.stderr


def width(depth: int) -> int:
    """The width with which a depth has 10M parameters."""
    return round(sqrt(1e7 / 12 / depth))


def nanogpt(depth: int) -> str:
    """A log as nanoGPT prints it."""
    lines = ["number of parameters: 10.00M"]
    for step in STEPS:
        loss = planted_loss(depth) + 10 / step - 10 / STEPS[-1]
        lines += [f"step {step}: train loss {loss - 0.5:.4f}, val loss {loss:.4f}"]
        lines += [f"iter {step}: loss {3 - 0.01 * depth:.4f}, time 120.00ms, mfu 3.10%"]
    return "\n".join(lines)


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    folder = tmp_path / "logs"
    folder.mkdir()
    for depth in DEPTHS:
        for seed in range(3):
            (folder / f"d{depth}_seed{seed}.log").write_text(nanogpt(depth))
    return folder


def test_a_folder_of_logs_has_an_answer_by_the_loss_of_validation(logs: Path) -> None:
    status, out, error = said(logs)

    assert (status, error) == (0, "")
    assert "45 rows, 15 runs of 5 shapes" in out
    assert "depth, loss = val_loss, params_total = number_of_parameters, step, seed, run" in out
    assert "identified" in out
    found = valid(json.loads(said(f"{logs}/*.log", "--json")[1]))
    assert found["answers"][0]["verdict"]["kind"] == "identified"
    assert "loss = train_loss" in said(logs, "--map", "train_loss=loss")[1]


def test_a_pattern_reads_lines_of_another_form_and_flags_may_name_its_groups(
    tmp_path: Path,
) -> None:
    for depth in DEPTHS:
        for seed in range(3):
            folder = tmp_path / f"depth={depth},width={width(depth)},seed={seed}"
            folder.mkdir()
            (folder / "stdout").write_text(
                "".join(
                    f"{phase}@{step} -> {planted_loss(depth) - 0.3 * (phase == 'train'):.4f};\n"
                    for step in STEPS
                    for phase in ("train", "held")
                )
            )
    line = r"(?P<phase>\w+)@(?P<step>\d+) -> (?P<loss>\S+)"
    source = f"{tmp_path}/*/stdout"

    status, out, error = said(source, "--line", line, "--where", "phase=held")
    assert (status, error) == (0, "")
    assert "identified" in out
    parts = json.loads(said(source, "--line", line, "--by", "phase", "--json")[1])["answers"]
    assert [part["question"]["held"] for part in parts] == [{"phase": "held"}, {"phase": "train"}]
    assert "got lines such as 'train@100 ->" in said(source)[2]


def test_a_folder_of_event_files_has_an_answer(tmp_path: Path) -> None:
    for depth in DEPTHS:
        for seed in range(3):
            writer = SummaryWriter(str(tmp_path / f"run{depth}-{seed}"))
            for step in STEPS:
                writer.add_scalar("Loss/val", planted_loss(depth), step)
            shape = {"n_layer": depth, "n_embd": width(depth), "seed": seed}
            writer.add_hparams(shape, {"hparam/loss": 3.0})
            writer.close()
    status, out, error = said(tmp_path)

    assert (status, error) == (0, "")
    assert "depth = n_layer, loss = Loss/val, d_model = n_embd, step, seed, run" in out
    assert "identified" in out


def test_without_the_reader_of_event_files_the_line_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def absent(_name: str) -> ModuleSpec | None:
        return None

    monkeypatch.setattr(analyse_folder, "find_spec", absent)
    (tmp_path / "events.out.tfevents.1.host").write_bytes(b"")
    status, _, error = said(tmp_path)

    assert (status, error.count("\n")) == (2, 1)
    assert 'run `pip install "fathom-depth[tensorboard]"` first' in error
    (tmp_path / "a.log").write_text("step 1 loss 3.2")
    assert "or read its logs with --line" in said(tmp_path)[2]


@pytest.mark.parametrize(
    ("files", "arguments", "message"),
    [
        ({}, [], "got no file; name the logs by a pattern"),
        ({"a.bin": ""}, [], "got 1 other files"),
        ({"runs.csv": "a,b"}, [], "got tables; analyse one: `fathom analyse "),
        (
            {"wandb/run-1.wandb": ""},
            [],
            "got W&B's own (run-1.wandb), which only W&B reads; export",
        ),
        ({"a.log": "step 1 loss 3"}, [], "--map COLUMN=depth, or put it into the name"),
        ({"d8.log": "step 1 loss 3"}, [], "such as w512 or params=124M"),
        ({"d8.log": "Epoch one"}, [], "say how a line looks with --line"),
        ({"d8.log": "x"}, ["--line", "("], "`--line` must be a regular expression of Python"),
        ({"d8.log": "x"}, ["--experiment", "a", "--line", "x"], "`--line` is for a folder or"),
        ({"d8.log": "step 1 loss 3"}, ["--map", "nll=loss"], "`--map` must name a column of"),
    ],
)
def test_a_folder_that_does_not_do_is_one_line_with_what_helps(
    tmp_path: Path, files: dict[str, str], arguments: list[str], message: str
) -> None:
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    status, out, error = said(tmp_path, *arguments)

    assert (status, out, error.count("\n")) == (2, "", 1)
    assert message in error


def test_a_config_in_a_folder_of_logs_holds_for_each_of_them(logs: Path) -> None:
    (logs / "config.yaml").write_text("n_embd: 64\nbatch_size: 32\n")
    status, out, error = said(logs)
    assert (status, error) == (0, "")
    assert "d_model = n_embd" in out


def test_a_store_of_mlflow_that_is_a_folder_is_read_by_its_experiment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    client = MlflowClient((tmp_path / "mlruns").as_uri())
    experiment = client.create_experiment("mine")
    for depth in DEPTHS:
        own = client.create_run(experiment).info.run_id
        for name, value in (("n_layer", depth), ("n_params", 10_000_000), ("seed", 0)):
            client.log_param(own, name, value)
        client.log_metric(own, "val_loss", planted_loss(depth), step=1)
    monkeypatch.delenv("MLFLOW_ALLOW_FILE_STORE")
    (tmp_path / "mlruns" / "damaged").mkdir()

    status, out, error = said(tmp_path / "mlruns")
    assert not caplog.text, "MLflow tells the root logger of it, with a traceback"
    assert (status, out, error.count("\n")) == (2, "", 1)
    assert "`--experiment` must name one of the experiments of" in error
    assert error.rstrip().endswith("which has mine")
    status, out, error = said(tmp_path / "mlruns", "--experiment", "mine")
    assert (status, error) == (0, "")
    assert "MLflow's mine: 5 rows, 5 runs of 5 shapes" in out


def test_a_pattern_for_nothing_is_one_line(tmp_path: Path) -> None:
    status, _, error = said(tmp_path / "none", "--line", "(?P<loss>x)")
    assert (status, error.count("\n")) == (2, 1)
    assert "where there is nothing; check the path" in error


@pytest.mark.timeout(60)
def test_the_whole_disk_is_not_searched_for_a_pattern(tmp_path: Path) -> None:
    assert_refused(here("analyse", "/**/*.log"), "which is the whole disk; name their folder")
    study = tmp_path / "s.yaml"
    study.write_text("study: s\nobjective: {name: language, corpus: '/**/*'}\nbudgets: [100k]\n")
    assert_refused(here("plan", study), "which is the whole disk; name their folder")


def test_logs_need_few_packages(logs: Path) -> None:
    absent = (
        "torch",
        "ray",
        "mlflow",
        "optuna",
        "tensorboard",
        "google",
        "pandas",
        "pyarrow",
        "yaml",
    )
    (logs / "config.yaml").write_text("batch_size: 32")
    done = without(absent, "analyse", logs)

    assert (done.returncode, done.stderr) == (0, "")
    assert "could not be read: config.yaml (pip install pyyaml)" in " ".join(done.stdout.split())
