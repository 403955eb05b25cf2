"""`saeta info`: shows devices, versions and what is missing."""

from __future__ import annotations

import json
from typing import Any

from saeta._report import human_bytes
from saeta._report.info import info
from saeta.cli.terminal import grid, say


def _libarrow(bridge: dict[str, Any]) -> str:
    return f"libarrow {bridge['loaded']}, built with {bridge['built_for']}"


def run(as_json: bool) -> None:
    report = info()
    if as_json:
        print(json.dumps(report, indent=2))
        return
    cuda, bridge = report["cuda"], report["saeta.cuda"]
    say(f"saeta {report['version']}, Python {report['python']}, {report['machine']}", "bold")
    say(f"CUDA  {_cuda(cuda)}")
    say(f"saeta.cuda  {_libarrow(bridge) if bridge['usable'] else 'left out'}")
    say()
    grid(
        "devices",
        ["device", "model", "architecture", "driver", "memory", "free", "processors"],
        [
            (
                device["name"],
                device["model"],
                device["architecture"],
                device["driver"] or "-",
                human_bytes(device["total_bytes"]),
                "-" if device["free_bytes"] is None else human_bytes(device["free_bytes"]),
                device["multiprocessors"],
            )
            for device in report["devices"]
        ],
        right=(4, 5, 6),
    )
    say()
    grid(
        "packages",
        ["package", "version"],
        [(name, version or "-") for name, version in report["packages"].items()],
    )
    if report["missing"]:
        say()
        grid(
            "missing",
            ["part", "why, and how to have it"],
            [(missing["part"], missing["why"]) for missing in report["missing"]],
        )


def _cuda(cuda: dict[str, object]) -> str:
    if not cuda["built"]:
        return "left out of this build"
    state = "usable" if cuda["usable"] else "not usable here"
    return f"{state}; runtime {cuda['runtime'] or '-'}, driver {cuda['driver'] or '-'}"
