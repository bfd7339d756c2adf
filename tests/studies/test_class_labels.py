"""Classes of records go by the names that the data set and the model have for them."""

from types import SimpleNamespace

import pytest

from attnscan.inputs.sentence import Pair, Record
from attnscan.studies.losses import class_number, numbered_labels

NAMED = SimpleNamespace(num_labels=3, label2id={"contradiction": 0, "Neutral": 1, "entailment": 2})
GENERIC = SimpleNamespace(num_labels=2, label2id={"LABEL_0": 0, "LABEL_1": 1})


def labelled(label: str | None, number: int | None = None) -> Record:
    return Record(Pair("a"), "p.csv:2", label, class_number=number)


@pytest.mark.parametrize(
    ("label", "number", "expected"),
    [
        ("entailment", None, 2),
        (" ENTAILMENT ", None, 2),
        ("entailment", 0, 2),  # the data set's number of it is another
        ("2", None, 2),
        ("3", None, None),
        ("positive", None, None),
        ("positive", 1, None),  # the data set has other classes
    ],
)
def test_labels_go_by_the_names_of_the_model(
    label: str, number: int | None, expected: int | None
) -> None:
    assert class_number(labelled(label, number), NAMED) == expected


def test_numbers_count_where_the_model_has_no_names() -> None:
    assert class_number(labelled("equivalent", 1), GENERIC) == 1
    assert class_number(labelled("equivalent", 2), GENERIC) is None
    assert class_number(labelled("equivalent"), GENERIC) is None


def test_note_says_where_numbers_are_taken_as_the_models() -> None:
    note = (
        "labels are numbers, and are taken as the model's: 0 contradiction, 1 neutral, 2 entailment"
    )
    records = [labelled("-1"), labelled(None), labelled("entailment", 0), labelled("1")]
    assert numbered_labels(records, NAMED) == note
    assert numbered_labels(records[:3], NAMED) == ""
    assert numbered_labels([labelled("equivalent", 1)], GENERIC).endswith("0 label_0, 1 label_1")
