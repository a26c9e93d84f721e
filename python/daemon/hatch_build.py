"""Builds the wheel of a platform from LOADERD_PROGRAM, the path of the daemon's program, and LOADERD_PLATFORM, the
wheel's platform tag.
"""

import os
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface


class Program(BuildHookInterface[Any]):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        program, platform = os.environ["LOADERD_PROGRAM"], os.environ["LOADERD_PLATFORM"]
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform}"
        build_data["shared_scripts"][program] = "loaderd.exe" if platform.startswith("win") else "loaderd"


class Dependencies(MetadataHookInterface):
    def update(self, metadata: dict[str, Any]) -> None:
        client = metadata["version"]
        metadata["dependencies"] = [f"loaderd-client[publish]=={client}"]
        metadata["optional-dependencies"] = {"torch": [f"loaderd-client[torch]=={client}"]}
