"""Questions put to a model, or to replicas of it side by side, with sets of heads switched off."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from attnscan.model.attention_function import OnOutput
from attnscan.model.output_tap import OutputTap
from attnscan.model.running import check_finite, in_halves
from attnscan.studies.losses import Loss, Probe, replica


@dataclass(frozen=True)
class Piece:
    """A batch of questions, and sets of heads to put them without."""

    questions: Sequence[Probe]
    inputs: dict[str, Tensor]
    first: int
    """The first set's number; 0 is the intact model's."""
    off: Tensor
    """Shape: [set, layer, head], bool."""


class Answerer:
    """A model, or a replica of it, that answers with heads switched off."""

    def __init__(self, measure: Loss, means: Tensor | None, device: torch.device) -> None:
        self._measure, self._means, self._device = measure, means, device
        self.tap = OutputTap(measure.encoder, measure.whole)
        self.whole: torch.nn.Module = measure.whole

    def replica(self) -> Answerer:
        """Another one, with the same weights."""
        return Answerer(replica(self._measure), self._means, self._device)

    def answers(self, piece: Piece) -> Tensor:
        """To every question with every set off. Shape: [question, set, number]."""

        def of_rows(rows: Sequence[int]) -> Tensor:
            asked, sets = (
                torch.tensor(numbers) for numbers in zip(*(divmod(row, len(piece.off)) for row in rows), strict=True)
            )
            repeated = {name: values[asked.to(values.device)] for name, values in piece.inputs.items()}
            edit = _switch(piece.off[sets].to(self._device), self._means)
            every = [piece.questions[number] for number in asked]
            answers = self._measure.answers(every, lambda: self.tap.run(repeated, edit))
            check_finite(answers, "the model's answers")
            return answers

        rows, length = range(len(piece.questions) * len(piece.off)), piece.inputs["input_ids"].shape[1]
        answers = torch.cat(list(in_halves(rows, of_rows, lambda _: length, self._device)))
        return answers.view(len(piece.questions), len(piece.off), -1)


def _switch(off: Tensor, means: Tensor | None) -> OnOutput:
    """What switches heads off. Shape: `off` [input, layer, head], bool; `means` [layer, head, dimension]."""

    def edit(layer: int, output: Tensor) -> None:
        inputs, heads = off[:, layer].nonzero(as_tuple=True)
        output[inputs, :, heads] = 0 if means is None else means[layer, heads][:, None].to(output)

    return edit
