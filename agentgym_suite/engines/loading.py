"""A policy of transformers: read from where it lies, its weights exchanged, written back."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from agentgym_suite.engines.chat_tokenizer import TransformersChatTokenizer
from agentgym_suite.engines.tokens import Weights
from agentgym_suite.errors import EngineError, MissingExtra, RetrievalError, UsageError, reason_of
from agentgym_suite.model_files import ModelFiles, find_model, without_bars


@dataclass(frozen=True, slots=True)
class LoadedPolicy:
    """A causal language model in memory, with its tokenizer (None if it has none)."""

    module: torch.nn.Module
    tokenizer: Any


@dataclass(frozen=True, slots=True)
class PolicySettings:
    """What a generation configuration says of decoding.

    Attributes:
        stop_ids: its ``eos_token_id``, one or several.
        suppressed_ids: its ``suppress_tokens``, which are never sampled.
    """

    stop_ids: tuple[int, ...] = ()
    suppressed_ids: tuple[int, ...] = ()


def choose_device(device: str = "auto") -> str:
    """The device of that name; ``auto`` is CUDA where there is one, else the processor.

    Raises:
        UsageError: there is no such device here.
    """
    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        there = torch.empty(0, device=device).device
    # a name of torch's whose module is not there ends in an ImportError
    except (RuntimeError, AssertionError, NotImplementedError, ImportError) as error:
        reason = reason_of(str(error).strip().partition("\n")[0])
        raise UsageError(f"device is {device!r}, which is not here ({reason}); give cpu") from error
    if there.type == "meta":
        raise UsageError(f"device is {device!r}, where tensors have no numbers; give cpu")
    return device


def find_files(model: str | Path) -> ModelFiles:
    """Where a model lies: a folder, a file ``….gguf``, or ``owner/name`` on the hub.

    Raises:
        UsageError: it is none of these.
        EngineError: it cannot be fetched.
    """
    try:
        return find_model(model)
    except RetrievalError as error:
        raise EngineError(str(error)) from error


def settings_of(configuration: Any) -> PolicySettings:
    """What a ``GenerationConfig`` of transformers says of decoding.

    Raises:
        UsageError: it names what is no token id.
    """
    return PolicySettings(_ids(configuration.eos_token_id), _ids(configuration.suppress_tokens))


def read_settings(files: ModelFiles) -> PolicySettings:
    """What a folder's ``generation_config.json`` says; nothing where there is none."""
    if not (files.folder / "generation_config.json").is_file():
        return PolicySettings()
    return settings_of(transformers.GenerationConfig.from_pretrained(str(files.folder)))


def vocabulary_size(files: ModelFiles) -> int:
    """Rows of the embedding that a folder's ``config.json`` tells: ids that the model knows."""
    configuration = transformers.AutoConfig.from_pretrained(str(files.folder))
    return int(configuration.get_text_config().vocab_size)


def chat_tokenizer(files: ModelFiles, stop_ids: Sequence[int]) -> TransformersChatTokenizer | None:
    """The tokenizer beside a model's weights; None where there is none."""
    tokenizer = _tokenizer(files)
    return None if tokenizer is None else TransformersChatTokenizer(tokenizer, stop_ids)


def load_policy(model: str | Path, *, device: str = "auto", dtype: str = "auto") -> LoadedPolicy:
    """Load weights, tokenizer and ``generation_config.json``.

    Args:
        model: a folder that transformers has saved, a file ``….gguf``, or ``owner/name`` on the
            Hugging Face hub.
        device: as torch names it, or ``auto``.
        dtype: of the weights, as torch names it; ``auto`` is float32 on a processor, and what the
            weights are stored as on anything else.

    Raises:
        UsageError: there is no such model or dtype.
        MissingExtra: it is a GGUF file, and what reads one is not installed.
        EngineError: it cannot be fetched, or is no causal language model.
    """
    files = find_files(model)
    if files.gguf and not (find_spec("gguf") and find_spec("accelerate")):
        raise MissingExtra("train", "a model in a GGUF file")
    place = choose_device(device)
    options = {"gguf_file": files.gguf} if files.gguf else {}
    wanted = _dtype(dtype, place)
    try:
        with without_bars(transformers.utils.logging), _without_reports():
            tokenizer = _tokenizer(files)
            read_settings(files)  # transformers passes over a file that it cannot read
            module, found = transformers.AutoModelForCausalLM.from_pretrained(
                str(files.folder), dtype=wanted, output_loading_info=True, **options
            )
    except Exception as error:  # a damaged file makes it raise whatever its reader does
        reason = reason_of(error)
        raise EngineError(
            f"{files.folder / files.gguf} cannot be loaded as a causal language model ({reason}); "
            "bring its folder over whole"
        ) from error
    if found["missing_keys"]:  # they would be left at random
        raise EngineError(
            f"{files.folder / files.gguf} lacks {len(found['missing_keys'])} weights of a "
            f"{type(module).__name__}, such as {min(found['missing_keys'])}; bring weights of the "
            "architecture that its config.json names"
        )
    if files.gguf:
        module = _dequantized(module)
    return LoadedPolicy(module.to(place).eval(), tokenizer)


def save_policy(policy: LoadedPolicy, folder: Path | str) -> None:
    """Write a policy as a folder that transformers, vLLM and ``load_policy`` read.

    Args:
        policy: what to write.
        folder: made if need be; files of the same names are replaced.
    """
    with without_bars(transformers.utils.logging):
        policy.module.save_pretrained(str(folder))
        if policy.tokenizer is not None:
            policy.tokenizer.save_pretrained(str(folder))


def weights_digest(module: torch.nn.Module, dtype: torch.dtype | None = None) -> str:
    """``sha256:<hex>`` of a model's parameters: names, dtypes, shapes and bytes.

    Args:
        module: the model.
        dtype: what floating numbers are made before; None takes them as they are.
    """
    digest = hashlib.sha256()
    for name, tensor in sorted(module.state_dict().items()):
        flat = tensor.detach().cpu().contiguous().reshape(-1)
        if dtype is not None and tensor.is_floating_point():
            flat = flat.to(dtype)
        digest.update(f"{name} {flat.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(flat.view(torch.uint8).numpy().data)
    return f"sha256:{digest.hexdigest()}"


def take_weights(module: torch.nn.Module, state: Mapping[str, Tensor]) -> None:
    """Copy parameters into a model, all or none.

    Args:
        module: keeps its dtype and its device.
        state: every parameter by its name; of tied ones, one is enough.

    Raises:
        UsageError: a name or a shape differs from the model's.
    """
    _complete(module, state)
    with torch.no_grad():
        module.load_state_dict(state, strict=False)


def read_weights(folder: Path, weights: Weights) -> dict[str, Tensor]:
    """All parameters of a model by name, each of tied ones under its own.

    Args:
        folder: holds the configuration of the model that they are for.
        weights: parameters by name, or where a checkpoint lies.

    Raises:
        UsageError: they are not that model's.
        EngineError: they cannot be read.
    """
    state: Mapping[str, Tensor]
    if isinstance(weights, (str, Path)):
        state = load_policy(weights, device="cpu").module.state_dict()
    else:
        state = weights
    with torch.device("meta"):
        configuration = transformers.AutoConfig.from_pretrained(str(folder))
        module = transformers.AutoModelForCausalLM.from_config(configuration)
    return _complete(module, state)


def write_weights(state: Mapping[str, Tensor], folder: Path) -> None:
    """Write ``model.safetensors`` with every name of the state, tied ones each by itself.

    Raises:
        EngineError: it cannot be written.
    """
    seen: set[int] = set()
    plain = {}
    for name, tensor in state.items():
        kept = tensor.detach().cpu().contiguous()
        plain[name] = kept.clone() if kept.data_ptr() in seen else kept
        seen.add(kept.data_ptr())
    try:
        save_file(plain, str(folder / "model.safetensors"), metadata={"format": "pt"})
    except (OSError, SafetensorError) as error:
        raise EngineError(f"weights cannot be written to {folder} ({error}); free space") from error


def _complete(module: torch.nn.Module, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The state with every name of the model, or an error that says what does not fit."""
    own = module.state_dict(keep_vars=True)
    given = {}
    for name, tensor in state.items():
        if name not in own:
            raise UsageError(f"the weights have {name!r}, which the model does not; check both")
        if tensor.shape != own[name].shape:
            raise UsageError(
                f"{name!r} is {tuple(tensor.shape)} in the weights and {tuple(own[name].shape)} "
                "in the model; load weights of the same architecture"
            )
        given[id(own[name])] = tensor
    missing = next((name for name, tensor in own.items() if id(tensor) not in given), None)
    if missing is not None:
        raise UsageError(f"the weights lack {missing!r} of the model; give all of them")
    return {name: given[id(tensor)] for name, tensor in own.items()}


def _tokenizer(files: ModelFiles) -> Any:
    """The tokenizer, None for weights alone: those generate from ids."""
    named = ("tokenizer*", "vocab*", "*.model")
    if files.gguf:
        return transformers.AutoTokenizer.from_pretrained(str(files.folder), gguf_file=files.gguf)
    if not any(path for name in named for path in files.folder.glob(name)):
        return None
    return transformers.AutoTokenizer.from_pretrained(str(files.folder))


def _ids(value: Any) -> tuple[int, ...]:
    if value is None:
        return ()
    ids = (value,) if isinstance(value, int | str) else tuple(value)
    wrong = [one for one in ids if not isinstance(one, int) or one < 0]
    if wrong:
        raise UsageError(
            f"the generation configuration has the token id {wrong[0]!r}; give whole numbers from 0"
        )
    return ids


def _dequantized(module: Any) -> Any:
    """The same weights as a model that can be saved: a GGUF file's are full numbers once read."""
    del module.config.quantization_config
    plain = transformers.AutoModelForCausalLM.from_config(module.config, dtype=module.dtype)
    plain.load_state_dict(module.state_dict())
    plain.generation_config = module.generation_config
    return plain


@contextmanager
def _without_reports() -> Iterator[None]:
    """Keep the table of weights that do not fit off the terminal: the error names one of them."""
    logging = transformers.utils.logging
    before = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(before)


def _dtype(name: str, device: str) -> Any:
    if name == "auto":
        return torch.float32 if device == "cpu" else "auto"
    found = getattr(torch, name, None)
    if not isinstance(found, torch.dtype) or not found.is_floating_point:
        raise UsageError(f"dtype is {name!r}; give auto, float32, bfloat16 or float16")
    return found
