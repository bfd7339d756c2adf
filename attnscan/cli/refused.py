"""Options that most commands have, and why the others have them not: a reason each, for whoever asks."""

from __future__ import annotations

SHARED = ("--unit", "--threshold", "--heads", "--without-delimiters", "--norm", "--pattern", "--top", "--id")
"""Options that mean the same in every command that has them."""
_NO_HEADS = "it says which words help to predict which, and looks at no head"
_NAMED_FIRST = "name the heads first, as in: attnscan {} 2-0,6-11 A B"
_REASONS = {
    "heads": {"--heads": "it ranks all heads; --top shows the best, and attnscan classify --heads shows some"},
    "profile": {
        "--threshold": "a profile has shares, and no labels",
        "--without-delimiters": "special tokens are parts of a profile; their shares stand beside the others",
    },
    "show": {
        "--unit": "weights are shown token by token; attnscan classify --unit word scores words",
        "--heads": _NAMED_FIRST.format("show"),
        "--without-delimiters": "it shows weights as they are; the line above them says what the head does on words",
        "--pattern": "it shows weights, whichever pattern they follow",
    },
    "explain": {
        "--unit": "queries and keys are of tokens",
        "--threshold": "its sentences hold from 0.25 above chance on; attnscan classify --threshold labels by others",
        "--heads": _NAMED_FIRST.format("explain"),
        "--without-delimiters": "queries and keys make the weights on special tokens, too",
        "--norm": "queries and keys make weights, not what is carried",
        "--top": "name the heads that are to be explained",
    },
    "predictive": dict.fromkeys(
        ("--threshold", "--heads", "--without-delimiters", "--norm", "--pattern", "--top"), _NO_HEADS
    ),
    "report": {
        "--without-delimiters": "the page shows scores with and without them, and switches by itself",
        "--pattern": "the page shows all patterns",
        "--top": "--heads names the heads that the page carries",
    },
    "serve": {
        "--heads": "the page shows all heads",
        "--without-delimiters": "the page shows scores with and without them, and switches by itself",
        "--pattern": "the page shows all patterns",
        "--top": "the page shows all heads, and sorts them",
    },
    "plot": {
        "--pattern": "--kind scores and --kind layers draw all patterns side by side",
        "--top": "--heads names the heads that are drawn",
    },
    "ablate": {
        "--without-delimiters": "heads are chosen by their labels with every key, as attnscan heads gives them",
        "--norm": "a head is switched off whole, whatever it carries",
    },
    "similar": {
        "--unit": "attention is compared token by token",
        "--without-delimiters": "attention is compared over all keys",
        "--pattern": "heads are compared by all of their attention, whichever pattern it follows",
        "--top": "--nearest N says how many heads stand beside each",
    },
    "compare": {
        "--without-delimiters": "models are compared by scores with every key; attnscan heads has those without",
    },
}


_ONE_ALONE = {"--id": ("heads", "it writes no pair's own scores; attnscan heads --per-pair does, with their ids")}
"""Options of one command, and why all others have them not."""


def why_refused(command: str, option: str) -> str:
    """Why a command does not have an option that others have; empty where there is nothing to say."""
    owner, why = _ONE_ALONE.get(option, (command, ""))
    return _REASONS.get(command, {}).get(option, "" if command == owner else why)
