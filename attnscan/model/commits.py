"""Models of the hub at one commit: which one its main is at now, and the same one on other machines."""

from __future__ import annotations

import socket
from dataclasses import replace
from pathlib import Path

from attnscan.errors import ModelError
from attnscan.model.running import first_line, quiet_transformers
from attnscan.model.sources import Source, cached_as, check_docstrings, hub_answers
from attnscan.safe_text import plain


def pinned(source: Source) -> Source:
    """A model that is to be fetched, at the commit that the hub's main is at now; any other as it is.

    Raises: ModelError if the hub does not say, or has no safetensors there.
    """
    if source.revision is not None or Path(source.location).is_dir():
        return source
    from huggingface_hub import HfApi, snapshot_download

    try:
        with quiet_transformers():
            # Other than a mere question this makes the cache remember what main was, for whoever is offline later
            commit = Path(snapshot_download(source.location, allow_patterns="config.json")).name
        files = HfApi().list_repo_files(source.location, revision=commit)
    except Exception as error:  # of many kinds, by what the network does and who answers
        raise ModelError(
            f"the hub refuses the model {source.name}: {plain(first_line(error))[:200]}",
            "check its name and the network, or sign in with `hf auth login`",
        ) from error
    if not any(name.endswith(".safetensors") for name in files):
        raise ModelError(
            f"the model {source.name} at commit {commit[:12]} has no weights as safetensors",
            "save it and its tokenizer into a directory by transformers' save_pretrained(), and name that",
        )
    return replace(source, revision=commit)


def at_commit(hub_id: str, commit: str) -> Source:
    """A model of the hub at one commit and no other: as this machine's cache has it, or else to be fetched.

    Raises: ModelError if it is not in the cache, and the hub does not answer.
    """
    check_docstrings()
    if cached := cached_as(hub_id, commit):
        return cached
    if Path(hub_id).is_dir():  # transformers would load it
        raise ModelError(
            f"the directory {Path(hub_id).absolute()} of {socket.gethostname()} hides the hub's model {hub_id}",
            "rename it, or name a directory that all machines see",
        )
    if hub_answers():
        return Source(hub_id, hub_id, commit)
    raise ModelError(
        f"the model {hub_id} at commit {commit[:12]} is not in the cache of {socket.gethostname()}, "
        "and the hub does not answer there",
        f"run there, online: hf download {hub_id} --revision {commit}; or name a directory that all machines see",
    )
