"""A planted treebank in the toy checkpoint's words, in which a determiner's noun is no rule's word.

It stands one to three words behind it, and a word of its part of speech may stand between.
"""

from itertools import product
from pathlib import Path

from support.toy_bert import NOUNS, VERBS


def line(number: int | str, form: str, upos: str, head: int | str, deprel: str) -> str:
    return f"{number}\t{form}\t_\t{upos}\t_\t_\t{head}\t{deprel}\t_\t_"


def planted() -> str:
    """288 sentences, in 24 documents, such as `the straw straw cat sat ran .`"""
    blocks = []
    for document, (article, noun, straws) in enumerate(product(("the", "a"), NOUNS, range(3))):
        blocks.append(f"# newdoc id = {document}\n")
        for verb, other in product(VERBS, ((), ("sat",), ("ran",))):
            at = straws + 2
            words = [
                (article, "DET", at, "det"),
                *[("straw", "NOUN", at, "amod")] * straws,
                (noun, "NOUN", at + 1, "nsubj"),
            ]
            words += [
                (verb, "VERB", 0, "root"),
                *[(form, "VERB", at + 1, "conj") for form in other],
                (".", "PUNCT", at + 1, "punct"),
            ]
            text = " ".join(form for form, *_ in words)
            rows = [line(i, *word) for i, word in enumerate(words, 1)]
            blocks.append("\n".join([f"# text = {text}", *rows, "", ""]))
    return "".join(blocks)


def planted_file(directory: Path, name: str = "planted.conllu") -> str:
    path = directory / name
    path.write_text(planted(), encoding="utf-8")
    return str(path)
