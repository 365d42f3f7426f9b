"""Every exception of the suite, in one tree.

A bad reply of a model is data and never raises; an exception means that the caller
or the infrastructure did something the suite cannot play through. Each message is one
sentence: what, the value, what to do.

    AgentGymSuiteError
     +- UsageError (also ValueError)     a wrong argument, option or configuration
     |   +- UnknownTask                  no such task id in the task set
     |   +- UnknownSplit                 no such split in the task set
     |   +- ContextTooLong               a prompt exceeds its token budget
     |   +- MissingExtra (also ImportError)  an optional dependency is not installed
     |   +- ModelUnusable                a model cannot be asked at all, such as with a wrong key
     +- DataError                        files that are absent, damaged or foreign
     |   +- DataMissing                  a file or store is not there
     |   +- DataDamaged                  contents differ from their manifest or format
     |   +- DataVersion                  written by another version of the suite
     |   +- UnsupportedConstruct         a game file uses what the engine does not interpret
     |   +- DiskFull                     no space left while writing
     |   +- DownloadError                an address did not deliver the file
     +- EnvError                         a broken environment, with the task id
     |   +- EpisodeNotRunning (also gymnasium.error.ResetNeeded)
     |   +- RemoteEnvError               the environment server reported a failure
     |       +- SessionLost              the server does not know the session
     |       +- SessionExpired           the lease ran out
     |       +- StepTimeout              the step took longer than the server allows
     |       +- ServerUnreachable        no usable answer within the retries
     |       +- ServerFull               the server runs, and has no room for this now
     |       +- WorkerLost               the worker that plays it died or could not start
     +- ModelError                       a call of a model gave nothing to play with
     |   +- EmptyReply                   the model's doing: it said nothing
     |   +- ReplyRefused                 it declined to answer
     |   +- ReplyCutOff                  its tokens ran out before it said anything
     |   +- ModelUnreachable             the way to it: no connection, or no sense in the answer
     |   +- ModelServerError             the server failed
     |   +- RateLimited                  the server asked to wait for longer than is waited
     |   +- ModelTimeout                 no answer in time
     +- RetrievalError                   a retrieval index cannot be used
     +- EngineError                      a token engine cannot be used
     +- RunError                         an evaluation run directory cannot be used
     |   +- IncompleteRun                episodes of the run are missing
     +- AnalyzerError                    an analyzer of trajectories gave no usable reply
     +- TrainingError                    a training cannot go on, or its directory be used
"""

from __future__ import annotations

from typing import ClassVar, Literal

from gymnasium.error import ResetNeeded

from agentgym_suite.usage import Usage


class AgentGymSuiteError(Exception):
    """Base class of every exception the suite raises on purpose."""


class UsageError(AgentGymSuiteError, ValueError):
    """A wrong argument, option or configuration."""


class UnknownTask(UsageError):
    """No such task id in the task set."""


class UnknownSplit(UsageError):
    """No such split in the task set."""


class ContextTooLong(UsageError):
    """A prompt exceeds its token budget and may not be cut further."""


class MissingExtra(UsageError, ImportError):
    """An optional dependency is not installed; the message carries the install line."""

    def __init__(self, extra: str, purpose: str) -> None:
        super().__init__(
            f"{purpose} needs the optional dependencies of '{extra}': "
            f"pip install 'agentgym-suite[{extra}]'"
        )
        self.extra = extra
        self.purpose = purpose

    def __reduce__(self) -> tuple[type[MissingExtra], tuple[str, str]]:
        return type(self), (self.extra, self.purpose)


class ModelUnusable(UsageError):
    """A model cannot be asked as it was set up; no further episode can be played with it."""


class DataError(AgentGymSuiteError):
    """Files that are absent, damaged or foreign."""


class DataMissing(DataError):
    """A file or store is not there."""


class DataDamaged(DataError):
    """Contents differ from their manifest or from their format."""


class DataVersion(DataError):
    """Written by another version of the suite."""


class UnsupportedConstruct(DataError):
    """A game file uses what the engine does not interpret; names game, construct and position."""


class DiskFull(DataError):
    """No space left while writing; what was finished is kept."""


class DownloadError(DataError):
    """An address did not deliver the file."""


class EnvError(AgentGymSuiteError):
    """A broken environment."""


class EpisodeNotRunning(EnvError, ResetNeeded):
    """A step before reset or after the end of the episode."""


class RemoteEnvError(EnvError):
    """The environment server reported a failure."""


class SessionLost(RemoteEnvError):
    """The server does not know the session (restarted, or never made)."""


class SessionExpired(RemoteEnvError):
    """The lease of the session ran out."""


class StepTimeout(RemoteEnvError):
    """The step took longer than the server allows; the session is broken."""


class ServerUnreachable(RemoteEnvError):
    """No usable answer within the retries."""


class ServerFull(RemoteEnvError):
    """The server runs, and has no room for this now: all sessions are in use, or too much waits.

    Args:
        said: the server's sentence.
        retry_after_s: seconds after which it says that another try makes sense; 0 for no word.
    """

    def __init__(self, said: str, retry_after_s: float = 0.0) -> None:
        advice = f" (the server says: after {retry_after_s:g} s)" if retry_after_s else ""
        super().__init__(f"{said}{advice}")
        self.said = said
        self.retry_after_s = retry_after_s

    def __reduce__(self) -> tuple[type[ServerFull], tuple[str, float]]:
        return type(self), (self.said, self.retry_after_s)


class WorkerLost(RemoteEnvError):
    """The worker of an environment died, did not start, or could not make it."""


class ModelError(AgentGymSuiteError):
    """A call of a model gave nothing to play with.

    Attributes:
        kind: what the failure of the episode is called.
        origin: "model" where the model did it, "infra" where the call may succeed another time.
        usage: tokens of the call; None where it was not answered.
    """

    kind: ClassVar[str] = "connection"
    origin: ClassVar[Literal["model", "infra"]] = "infra"

    def __init__(self, message: str, *, usage: Usage | None = None) -> None:
        super().__init__(message)
        self.usage = usage


class EmptyReply(ModelError):
    """The model said nothing."""

    kind = "empty_reply"
    origin = "model"


class ReplyRefused(ModelError):
    """The model, or the filter in front of it, declined to answer."""

    kind = "refusal"
    origin = "model"


class ReplyCutOff(ModelError):
    """The tokens of a reply ran out before it said anything."""

    kind = "max_tokens"
    origin = "model"


class ModelUnreachable(ModelError):
    """No connection to the model, or an answer that makes no sense."""


class ModelServerError(ModelError):
    """The model's server failed, also when asked again."""

    kind = "http_5xx"


class RateLimited(ModelError):
    """The model's server asked to wait for longer than is waited."""

    kind = "rate_limited_exhausted"


class ModelTimeout(ModelError):
    """The model did not answer in time, also when asked again."""

    kind = "timeout_model"


class RetrievalError(AgentGymSuiteError):
    """A retrieval index cannot be used."""


class EngineError(AgentGymSuiteError):
    """A token engine cannot be used: no model there, weights that do not load, memory gone."""


class RunError(AgentGymSuiteError):
    """An evaluation run directory cannot be used."""


class IncompleteRun(RunError):
    """Episodes of the run are missing, which what was asked for needs."""


class AnalyzerError(AgentGymSuiteError):
    """An analyzer of trajectories gave no usable reply; ``category`` says what was wrong."""

    def __init__(self, category: str, message: str) -> None:
        super().__init__(message)
        self.category = category

    def __reduce__(self) -> tuple[type[AnalyzerError], tuple[str, str]]:
        return type(self), (self.category, str(self))


class TrainingError(AgentGymSuiteError):
    """A training cannot go on, or its directory cannot be used."""


def reason_of(error: object, most: int = 200) -> str:
    """What a library says of an error, as part of a sentence: on one line, cut between words."""
    line = " ".join(str(error).split())
    if len(line) <= most:
        return line
    return f"{line[:most].rsplit(' ', 1)[0]} …"
