"""`attnscan.trace` over the checkpoints of a run, and `attnscan.TrainerCallback` while
it trains.
"""

import json
import random
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from support.toy_bert import Plan, save_toy_bert
from support.toy_decoder import tokenizer_of
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

import attnscan
from attnscan.errors import ModelError, OptionError

PAIRS = [
    ("the cat sat on the mat .", "a cat ran to the store ."),
    ("a dog ran to the mat .", "the dog sat on a mat ."),
    ("i went to the store .", "the store bought a dog ."),
    ("the mat sat on a store .", "i bought the cat ."),
    ("a cat bought the mat .", "the cat went to a dog ."),
    ("i ran to a dog .", "a dog went to the cat ."),
]
OPTIONS: dict[str, Any] = {"pairs": PAIRS, "predictive": "off", "related": False}
PLANS: list[Plan] = [
    {},
    {(0, 0): "next-word"},
    {(0, 0): "next-word", (1, 1): "previous-word"},
    {(0, 0): "next-word", (1, 1): "previous-word"},
]
"""What heads of each checkpoint do; the steps are 0, 50, 100 and 1000."""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkpoints of a run, as transformers' Trainer names them."""
    directory = tmp_path_factory.mktemp("run")
    for step, plan in zip((0, 50, 100, 1000), PLANS, strict=True):
        save_toy_bert(directory / f"checkpoint-{step}", 2, 2, plan)
    return directory


@pytest.fixture(scope="module")
def traced(run: Path) -> Any:
    names = sorted(map(str, run.iterdir()))  # 1000 before 50
    return attnscan.trace(names, **OPTIONS)


def test_checkpoints_are_in_the_order_of_their_steps(traced: Any) -> None:
    assert [checkpoint.step for checkpoint in traced.checkpoints] == [0, 50, 100, 1000]


def test_a_directory_of_checkpoints_stands_for_them(run: Path, traced: Any) -> None:
    again = attnscan.trace(run, **OPTIONS)
    pd.testing.assert_frame_equal(again.to_frame(), traced.to_frame())


def test_each_checkpoint_is_as_heads_has_it(traced: Any) -> None:
    for checkpoint in traced.checkpoints:
        alone = attnscan.heads(model=checkpoint.name, **OPTIONS).to_frame()
        rows = traced.to_frame()[traced.to_frame()["step"] == checkpoint.step]
        shared = rows.reset_index(drop=True)[alone.columns]
        pd.testing.assert_frame_equal(shared, alone, check_like=True)


def test_planted_heads_begin_where_they_were_planted(traced: Any) -> None:
    assert traced.since[0, 0] == 1 and traced.since[1, 1] == 2
    last = traced.to_frame().query("step == 1000").set_index("name")
    assert last.loc["L0H0", ["label", "since"]].tolist() == ["next-word", 50]
    assert last.loc["L1H1", ["label", "since"]].tolist() == ["previous-word", 100]


def test_a_label_that_was_lost_begins_again(run: Path, tmp_path: Path) -> None:
    copies = []
    for letter, step in zip("abc", (50, 0, 100), strict=True):
        copies.append(shutil.copytree(run / f"checkpoint-{step}", tmp_path / f"model-{letter}"))
    result = attnscan.trace(copies, **OPTIONS)  # no numbers in the names: as given
    assert [checkpoint.step for checkpoint in result.checkpoints] == [None] * 3
    assert result.since[0, 0] == 2
    assert result.to_frame()["since"].iloc[0] == str(copies[2])


def test_the_trainers_state_comes_before_the_name(run: Path, tmp_path: Path) -> None:
    first = shutil.copytree(run / "checkpoint-100", tmp_path / "model-9")
    second = shutil.copytree(run / "checkpoint-0", tmp_path / "model-2")
    (first / "trainer_state.json").write_text(json.dumps({"global_step": 1}))
    result = attnscan.trace([second, first], **OPTIONS)
    assert [checkpoint.step for checkpoint in result.checkpoints] == [1, 2]


def test_a_bad_checkpoint_ends_the_run_before_anything_is_computed(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = tmp_path / "checkpoint-7"
    bad.mkdir()
    monkeypatch.setattr("attnscan.api.training.heads", None)
    with pytest.raises(ModelError, match=r"checkpoint-7 has no config\.json; .*or skip it with "):
        attnscan.trace([run / "checkpoint-0", bad], **OPTIONS)


def test_skip_bad_names_what_it_skips(run: Path, tmp_path: Path) -> None:
    bad = tmp_path / "checkpoint-7"
    bad.mkdir()
    result = attnscan.trace([bad, run / "checkpoint-0"], skip_bad=True, **OPTIONS)
    assert len(result.checkpoints) == 1
    assert result.skipped == (f"skipped: {bad} has no config.json",)


def test_models_of_different_shapes_are_refused(run: Path, tmp_path: Path) -> None:
    other = save_toy_bert(tmp_path / "checkpoint-2", 2, 3, {})
    with pytest.raises(ModelError, match=r"2 layers × 2 heads, and .* 2 layers × 3 heads"):
        attnscan.trace([run / "checkpoint-0", other], **OPTIONS)


def test_states_keep_the_sums_of_each_checkpoint(run: Path, tmp_path: Path) -> None:
    state = tmp_path / "run.state"
    first = attnscan.trace(run, state=state, **OPTIONS)
    kept = sorted(path.name for path in tmp_path.iterdir())
    assert kept == [f"run-checkpoint-{step}.state" for step in (0, 100, 1000, 50)]
    again = attnscan.trace(run, state=state, **OPTIONS)
    pd.testing.assert_frame_equal(again.to_frame(), first.to_frame())


def test_counts_of_kinds_are_those_of_the_labels(traced: Any) -> None:
    counts = traced.kind_counts()
    for place, checkpoint in enumerate(traced.checkpoints):
        among = checkpoint.result.among_words.ravel().tolist()
        for (rests, kind), row in counts.iterrows():
            if not rests:
                assert row[place] == among.count(kind)


WORDS = [f"w{number}" for number in range(20)]
LINES = [(" ".join(WORDS[i : i + 6]), None) for i in range(0, 12, 2)]


class Repeats(torch.utils.data.Dataset):  # type: ignore[type-arg]
    """Sequences of random words, each twice."""

    def __len__(self) -> int:
        return 64

    def __getitem__(self, number: int) -> dict[str, Any]:
        draw = torch.Generator().manual_seed(number)
        half = torch.randint(2, 22, (8,), generator=draw)
        ids = torch.cat([half, half])
        return {"input_ids": ids, "labels": ids}


def trainer_of(directory: Path, **arguments: Any) -> Trainer:
    """A trainer of a small decoder with dropout; the same every time."""
    torch.manual_seed(0)
    random.seed(0)
    np.random.seed(0)
    sizes = {"vocab_size": 22, "n_positions": 32, "n_embd": 16, "n_layer": 2, "n_head": 2}
    model = GPT2LMHeadModel(GPT2Config(**sizes, bos_token_id=None, eos_token_id=None))
    defaults = {
        "output_dir": str(directory),
        "max_steps": 6,
        "per_device_train_batch_size": 4,
        "logging_steps": 1,
        "report_to": [],
        "save_strategy": "no",
        "use_cpu": True,
        "disable_tqdm": True,
    }
    return Trainer(
        model=model,
        args=TrainingArguments(**{**defaults, **arguments}),
        train_dataset=Repeats(),
        processing_class=tokenizer_of(WORDS),
    )


def losses(trainer: Trainer) -> list[float]:
    return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]


@pytest.mark.filterwarnings("ignore:The .grad attribute:UserWarning")  # torch's compiler looks
@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"activation_checkpointing": True},
        {"bf16": True},
        {"torch_compile": True, "torch_compile_backend": "eager"},
    ],
    ids=["plain", "checkpointing", "autocast", "compiled"],
)
def test_training_is_the_same_with_and_without_it(tmp_path: Path, arguments: Any) -> None:
    plain = trainer_of(tmp_path, **arguments)
    plain.train()
    watched = trainer_of(tmp_path, **arguments)
    callback = attnscan.TrainerCallback(trainer=watched, pairs=LINES, every=2)
    watched.add_callback(callback)
    watched.train()
    assert losses(watched) == losses(plain) and len(losses(plain)) == 6
    assert len(set(losses(plain))) > 1  # a control
    assert watched.model.training


def test_the_callback_logs_through_the_trainer(tmp_path: Path) -> None:
    trainer = trainer_of(tmp_path)
    callback = attnscan.TrainerCallback(trainer=trainer, pairs=LINES, every=4)
    trainer.add_callback(callback)
    trainer.train()
    logged = [entry for entry in trainer.state.log_history if "attnscan/mean entropy" in entry]
    assert [entry["step"] for entry in logged] == [0, 4, 6]
    for entry in logged:
        counts = [value for name, value in entry.items() if name.startswith("attnscan/heads ")]
        assert sum(counts) - entry["attnscan/heads that rest"] == 4


def test_the_callback_has_a_frame_at_the_end(tmp_path: Path) -> None:
    trainer = trainer_of(tmp_path)
    callback = attnscan.TrainerCallback(trainer=trainer, pairs=LINES, every=4)
    trainer.add_callback(callback)
    trainer.train()
    frame = callback.to_frame()
    assert frame["step"].unique().tolist() == [0, 4, 6] and len(frame) == 12
    model = trainer.model
    last = attnscan.heads(
        LINES, model=model, tokenizer=trainer.processing_class, predictive="off"
    ).to_frame()
    ours = frame[frame["step"] == 6].reset_index(drop=True)
    np.testing.assert_allclose(ours["previous-word"], last["previous-word"], atol=1e-6)


def test_a_callback_needs_a_number_of_steps() -> None:
    with pytest.raises(OptionError, match="every is 0"):
        attnscan.TrainerCallback(trainer=None, every=0)
