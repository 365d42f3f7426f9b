"""How a policy was trained to be talked to: the file beside its weights that says so."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentgym_suite.errors import DataDamaged, DataMissing, DataVersion
from agentgym_suite.files import Json, write_json_atomic
from agentgym_suite.prompts import PROMPT_TEMPLATES, StepPrompt, prompt_template
from agentgym_suite.replies import REPLY_FORMATS

RENDERER_FILE = "agentgym_suite.json"
_KEYS = {"prompt", "prompt_version", "reply_format", "history_length"}


@dataclass(frozen=True, slots=True)
class Renderer:
    """A prompt template and a reply format, as they stand in ``agentgym_suite.json``.

    Attributes:
        prompt: a name of ``prompts.PROMPT_TEMPLATES``.
        reply_format: a name of ``replies.REPLY_FORMATS``; "" is the template's.
        history_length: earlier steps that prompts show; None is the template's.

    Raises:
        UsageError: there is no such template or format.
    """

    prompt: str
    reply_format: str = ""
    history_length: int | None = None

    def __post_init__(self) -> None:
        prompt_template(self.prompt)

    @property
    def step_prompt(self) -> StepPrompt:
        """What builds the messages."""
        return StepPrompt(self.prompt, self.history_length)

    @classmethod
    def read(cls, folder: Path) -> Renderer:
        """The renderer of a policy's folder.

        Raises:
            DataMissing: the folder does not say.
            DataDamaged: what it says is no renderer of this suite.
            DataVersion: the prompt's wording has changed since.
        """
        path = folder / RENDERER_FILE
        if not folder.is_dir():
            raise DataMissing(
                f"there is no folder {folder}; give that of a policy, such as policy/ of a run"
            )
        try:
            value = json.loads(path.read_bytes())
        except FileNotFoundError as error:
            raise DataMissing(
                f"there is no {path}, which names the prompt that a policy was trained with; write "
                'one, such as {"prompt": "verl_agent"}'
            ) from error
        except (OSError, ValueError, RecursionError) as error:
            raise DataDamaged(f"{path} is not JSON; write it again") from error
        fault = _fault(value)
        if fault:
            raise DataDamaged(f"{path} {fault}; correct it")
        prompt = value["prompt"]
        known = prompt_template(prompt).version
        version = value.get("prompt_version", known)
        if version != known:
            raise DataVersion(
                f"{path} asks for version {version} of prompt {prompt}, this version of the suite "
                f"has {known}; use the version the policy was trained with"
            )
        return cls(prompt, value.get("reply_format") or "", value.get("history_length"))

    def write(self, folder: Path) -> None:
        """Write it beside the weights."""
        value: dict[str, Json] = {
            "prompt": self.prompt,
            "prompt_version": prompt_template(self.prompt).version,
            "reply_format": self.reply_format or prompt_template(self.prompt).reply_format,
            "history_length": self.history_length,
        }
        write_json_atomic(folder / RENDERER_FILE, value)


def _fault(value: Any) -> str:
    """What is wrong with the contents of the file; "" if nothing is."""
    if not isinstance(value, dict):
        return "is no object"
    unknown = sorted(set(value) - _KEYS)
    if unknown:
        return f"has {unknown[0]!r}, which nobody reads"
    if value.get("prompt") not in PROMPT_TEMPLATES:
        known = ", ".join(PROMPT_TEMPLATES)
        return f"names the prompt {value.get('prompt')!r}, and there are {known}"
    if value.get("reply_format") not in (None, *REPLY_FORMATS):
        return f"names the reply format {value['reply_format']!r}, which does not exist"
    length = value.get("history_length")
    if length is not None and (not isinstance(length, int) or isinstance(length, bool)):
        return f"has history_length {length!r}, which is no integer"
    return ""
