"""The Ray engine on a local cluster: the tables of one process, whatever dies."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoModel, AutoTokenizer

import attnscan
from attnscan.errors import (
    AttnscanError,
    EngineError,
    InputError,
    ModelError,
    OptionError,
    PairsError,
)
from tests.support.links import antecedents, written
from tests.support.treebanks import planted_file

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("ray")]

PAIRS = [
    (f"The cat number {n} sat down.", f"It was {n % 7} o'clock, and the cat slept.")
    for n in range(400)
]


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    """A cluster of two processors for all tests, which calls find running."""
    ray = pytest.importorskip("ray")
    os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112 - Ray writes it so; else workers wait for other tests
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


def workers() -> list[int]:
    """The processes of workers that have begun."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "cmdline").read_bytes().startswith(b"ray::Worker"):
                found.append(int(process.name))
        except OSError:
            continue
    return found


def csv(result: Any) -> str:
    return str(result.to_frame().to_csv(float_format="%.6f"))


@pytest.fixture
def place(toy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory with a model, a treebank and a pattern: workers find them by relative names."""
    monkeypatch.chdir(tmp_path)
    Path("toy").symlink_to(toy)
    planted_file(tmp_path, "trees.conllu")
    written(tmp_path / "coref.jsonl", antecedents() * 3)
    Path("own.py").write_text(
        "def two_back(batch):\n    return batch.same_sentence & (batch.offset == -2)\n"
    )


LONG = [*PAIRS[:150], ("so " * 600, "long"), *PAIRS[150:]]
CALLS: dict[str, Callable[..., Any]] = {
    "heads": partial(attnscan.heads, PAIRS),
    "patterns": partial(
        attnscan.heads,
        PAIRS,
        pattern=["own.py:two_back", "I"],
        by="carried",
        unit="word",
        split=True,
    ),
    "long inputs skipped": partial(attnscan.heads, LONG, on_long="skip"),
    "long inputs cut": partial(attnscan.heads, LONG, on_long="truncate"),
    "profile": partial(attnscan.profile, pairs=PAIRS),
    "syntax": partial(attnscan.syntax, "trees.conllu", held="trees.conllu"),
    "links": partial(attnscan.syntax, links="coref.jsonl", held="trees.conllu"),
}


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("name", CALLS)
def test_tables_are_those_of_one_process(name: str) -> None:
    alone = CALLS[name](model="toy")
    together = CALLS[name](model="toy", engine="ray", ray_workers=2)
    assert csv(together) == csv(alone)
    assert together.signature == alone.signature


def test_bad_records_and_errors_are_those_of_one_process(toy: str, tmp_path: Path) -> None:
    """A line that cannot be read, a pair that the tokenizer cannot, one too long for the model."""
    path = tmp_path / "pairs.tsv"
    lines = ["sentence_a\tsentence_b", *map("\t".join, PAIRS)]
    lines[3] = "one cell"
    lines[200] = "\u200b\tA pair without words."
    lines[300] = "two\ttabs\there"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    reports: dict[str, list[str]] = {"local": [], "ray": []}
    tables = []
    for engine, errors in reports.items():
        result = attnscan.heads(
            path,
            on_bad=lambda error, errors=errors: errors.append(str(error)),
            model=toy,
            engine=engine,
        )
        tables.append(csv(result))
    assert tables[0] == tables[1]
    assert sorted(reports["ray"]) == sorted(reports["local"]) and len(reports["local"]) == 3
    for pairs, on_long, kind in ((path, "truncate", PairsError), (LONG, "error", InputError)):
        raised = []
        for engine in reports:
            with pytest.raises(kind) as error:
                attnscan.heads(pairs, model=toy, on_long=on_long, engine=engine)
            raised.append(str(error.value))
        assert raised[0] == raised[1]


def test_workers_may_die_ten_times(toy: str, capfd: pytest.CaptureFixture[str]) -> None:
    killed = []

    def pairs() -> Iterator[tuple[str, str]]:
        """Each time that a part has been read, a worker dies, once there is one."""
        for number, pair in enumerate(PAIRS * 7):
            if number % 256 == 255 and len(killed) < 10:
                until = time.monotonic() + 120
                alive = workers()
                while not alive and time.monotonic() < until:
                    time.sleep(0.1)
                    alive = workers()
                os.kill(alive[0], signal.SIGKILL)
                killed.append(alive[0])
            yield pair

    printed = list[str]()

    def step(doing: str, *_: int | None) -> None:
        printed.append(capfd.readouterr().out)
        if doing == "starting workers":  # before, Ray may print of another call on this cluster
            printed.clear()

    together = attnscan.heads(pairs(), model=toy, engine="ray", ray_workers=2, progress=step)
    assert len(killed) == 10
    assert printed and not any(printed)  # standard output is where tables go
    assert csv(together) == csv(attnscan.heads(PAIRS * 7, model=toy))


def test_a_killed_driver_goes_on(toy: str, tmp_path: Path) -> None:
    """Its pairs come slowly; and one process goes on, too, where the cluster left off."""
    state = tmp_path / "state.npz"
    lines = ["sentence_a\tsentence_b"]
    options = [
        "heads",
        "--pairs",
        "-",
        "--model",
        toy,
        "--state",
        str(state),
        "--csv",
        "--predictive",
        "off",
    ]
    command = [sys.executable, "-m", "attnscan", *options]
    driver = subprocess.Popen(
        [*command, "--engine", "ray"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
    )
    assert driver.stdin is not None
    until = time.monotonic() + 240
    while not state.exists() and time.monotonic() < until:
        lines += ["\t".join(pair) for pair in PAIRS[:100]]
        driver.stdin.write("".join(f"{line}\n" for line in lines[-100:]).encode())
        driver.stdin.flush()
        time.sleep(0.2)
    driver.kill()
    driver.communicate()
    assert state.exists()
    saved = state.read_bytes()
    text = "\n".join([*lines, *("\t".join(pair) for pair in PAIRS[100:])])
    file = tmp_path / "pairs.tsv"
    file.write_text(text, encoding="utf-8")
    table = (
        attnscan.heads(file, model=toy, predictive="off")
        .to_frame()
        .to_csv(index=False, float_format="%.6f")
    )
    for engine in ("ray", "local"):
        state.write_bytes(saved)
        going_on = [*command, "--engine", engine]
        done = subprocess.run(going_on, input=text, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert done.stdout.replace("\r\n", "\n") == table


@pytest.mark.parametrize(
    ("options", "kind", "text"),
    [
        ({"engine": "ray", "ray_workers": 0}, OptionError, "from 1"),
        (
            {"engine": "ray", "per_pair": "x.parquet"},
            OptionError,
            "leave out state and engine='ray'",
        ),
        ({"engine": "ray", "model": "no-such-directory/at-all"}, ModelError, "no-such-directory"),
    ],
)
def test_errors_are_one_line(
    toy: str, options: dict[str, Any], kind: type[AttnscanError], text: str
) -> None:
    with pytest.raises(kind, match=text):
        attnscan.heads(PAIRS, **{"model": toy, **options})


def test_models_in_memory_are_refused(toy: str) -> None:
    model = AutoModel.from_pretrained(toy)
    tokenizer = AutoTokenizer.from_pretrained(toy)
    with pytest.raises(EngineError, match="save_pretrained"):
        attnscan.heads(PAIRS, model=model, tokenizer=tokenizer, engine="ray")


def test_a_cluster_that_is_not_there_is_one_line(toy: str) -> None:
    command = [
        sys.executable,
        "-m",
        "attnscan",
        "heads",
        "--engine",
        "ray",
        "--ray-address",
        "127.0.0.1:1",
    ]
    done = subprocess.run([*command, "--model", toy], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert (
        done.stderr.startswith("attnscan: no Ray cluster at 127.0.0.1:1: ")
        and done.stderr.count("\n") == 1
    )
