"""When do induction heads appear? A small decoder is trained on repeated random words, and traced.

    python examples/when_heads_appear.py [RUN]     (pip install 'attnscan[plot]' accelerate)

An induction head looks at the word that came after the same word before. It needs a head below it
that looks at the previous word, so that one comes first (Olsson et al. 2022). The checkpoints are
saved in RUN, for `attnscan trace RUN --pairs RUN/texts.txt`, and the picture in RUN/trace.svg. It
takes some minutes on a CPU.
"""

import sys
from pathlib import Path

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
    Trainer,
    TrainingArguments,
)

import attnscan

WORDS = [f"{a}{b}" for a in ("ba", "de", "ki", "lo", "mu", "ne", "pa", "ri") for b in "bdgl"]
LENGTH = 32  # words of a sequence
SHORTEST = 6  # of the words that come twice: their number varies, so that no distance tells
LONGEST = 15
BATCH = 64
STEPS = 200
EVERY = 10
IGNORED = -100  # a label that is not learnt


def repeated_words(seed: int) -> torch.Tensor:
    """Some random words twice, as numbers."""
    draw = torch.Generator().manual_seed(seed)
    count = int(torch.randint(SHORTEST, LONGEST + 1, (), generator=draw))
    return torch.randperm(len(WORDS), generator=draw)[:count].repeat(2)


class RepeatedWords(torch.utils.data.Dataset):
    """Sequences that begin with words that come twice; the same for each number."""

    def __len__(self) -> int:
        return BATCH * STEPS

    def __getitem__(self, number: int) -> dict[str, torch.Tensor]:
        words = repeated_words(number)
        draw = torch.Generator().manual_seed(number)
        ids = torch.randint(len(WORDS), (LENGTH,), generator=draw)
        ids[: len(words)] = words
        ids += 2  # behind [PAD] and [UNK]
        labels = ids.clone()
        labels[: len(words) // 2 + 1] = IGNORED  # nothing tells the words that come first
        labels[len(words) :] = IGNORED
        return {"input_ids": ids, "labels": labels}


def make_tokenizer() -> PreTrainedTokenizerFast:
    """A token for each word."""
    numbers = {token: number for number, token in enumerate(["[PAD]", "[UNK]", *WORDS])}
    tokenizer = Tokenizer(models.WordLevel(numbers, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="[UNK]", pad_token="[PAD]")


def make_model() -> LlamaForCausalLM:
    """Two layers of four heads, untrained."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=2 + len(WORDS),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=2 * LENGTH,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=0,
    )
    return LlamaForCausalLM(config)


def main() -> None:
    """Train, label the heads every few steps, and say when two kinds of heads appeared."""
    run = Path(sys.argv[1]) if sys.argv[1:] else Path("run")
    tokenizer = make_tokenizer()
    arguments = TrainingArguments(
        output_dir=str(run),
        max_steps=STEPS,
        per_device_train_batch_size=BATCH,
        learning_rate=3e-3,
        lr_scheduler_type="constant",
        save_steps=EVERY,
        logging_steps=EVERY,
        report_to=[],
        seed=0,
        disable_tqdm=True,
    )
    trainer = Trainer(
        model=make_model(),
        args=arguments,
        train_dataset=RepeatedWords(),
        processing_class=tokenizer,
    )
    texts = []
    for seed in range(10**6, 10**6 + 40):  # none that it is trained on
        texts.append(" ".join(WORDS[number] for number in repeated_words(seed)))
    run.mkdir(parents=True, exist_ok=True)
    (run / "texts.txt").write_text("\n".join(texts) + "\n", encoding="utf-8")
    callback = attnscan.TrainerCallback(trainer=trainer, pairs=texts, every=EVERY)
    trainer.add_callback(callback)
    trainer.train()
    frame = callback.to_frame()
    best = frame.groupby("step")[["previous-word", "induction"]].max()
    print(best.round(2).to_string())
    for pattern, scores in best.items():
        appeared = scores[scores > 0.5].index.min()
        print(f"a head gives more than half of its attention to {pattern} from step {appeared} on")
    attnscan.plot(callback.trace, output=run / "trace.svg")


if __name__ == "__main__":
    main()
