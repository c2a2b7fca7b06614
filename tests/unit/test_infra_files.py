"""The container files, as far as they can be checked without containers: closed to others, without secrets, and of things
that exist."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml

from aitest_flows.services.definitions import LEASES

ROOT = Path(__file__).parents[2]
INFRA = ROOT / "infra"
COMPOSE: dict[str, Any] = yaml.safe_load((INFRA / "docker-compose.yml").read_text())
SERVICES: dict[str, Any] = COMPOSE["services"]
DOCKERFILE = (INFRA / "Dockerfile").read_text()
VARIABLE = re.compile(r"\$\{(\w+)")
SECRET = re.compile(r"PASSWORD|SECRET|KEY|TOKEN")
BIN = Path(sys.executable).parent
every_service = pytest.mark.parametrize("name", SERVICES)


def environment(name: str) -> dict[str, str]:
    return {key: str(value) for key, value in SERVICES[name].get("environment", {}).items()}


def instructions(word: str) -> list[str]:
    return re.findall(rf"^{word} (.*)$", DOCKERFILE.replace("\\\n", " "), re.MULTILINE)


@cache
def help_of(*program: str) -> str:
    """What a program says of its options; SeaweedFS answers on stderr."""
    asked = "-h" if program[0] == "weed" else "--help"
    done = subprocess.run([BIN / program[0], *program[1:], asked], capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def test_what_an_installation_has():
    assert SERVICES.keys() == {"database", "storage", "prefect", "mlflow", "pool", "worker", "receiver"}
    assert SERVICES["worker"]["deploy"]["replicas"] == 2
    assert COMPOSE["volumes"].keys() == {"database", "prefect", "storage"}


@every_service
def test_ports_are_for_this_machine_alone(name):
    for port in SERVICES[name].get("ports", []):
        assert re.fullmatch(r"127\.0\.0\.1:\d+:\d+", port)
    assert "network_mode" not in SERVICES[name]
    assert not SERVICES[name].get("privileged")


@every_service
def test_secrets_come_from_the_environment_file(name):
    for key, value in environment(name).items():
        if SECRET.search(key) and not key.startswith("PREFECT_"):
            assert re.fullmatch(r"\$\{\w+:\?[^}]+\}", value), key
        assert not re.search(r"://\w+:(?!\$\{)[^/@]+@", value), key  # a password in an address
    assert not [word for word in SERVICES[name].get("command", []) if "${" in word]  # which everybody could read


def test_every_variable_stands_in_the_example_and_the_other_way_round():
    example = re.findall(r"^(\w+)=(.*)$", (INFRA / "env.example").read_text(), re.MULTILINE)
    assert [value for _, value in example if value] == []
    assert {name for name, _ in example} == set(VARIABLE.findall((INFRA / "docker-compose.yml").read_text()))


def test_the_filled_in_file_is_never_committed():
    assert "/infra/.env" in (ROOT / ".gitignore").read_text().splitlines()


@every_service
def test_images_are_pinned(name):
    image, _, tag = SERVICES[name]["image"].rpartition(":")
    assert image
    assert re.match(r"\d+\.\d+", tag)
    if "build" in SERVICES[name]:
        version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
        assert tag == version
        assert (INFRA / SERVICES[name]["build"]["context"] / SERVICES[name]["build"]["dockerfile"]).is_file()
        assert f" AS {SERVICES[name]['build']['target']}\n" in DOCKERFILE


@every_service
def test_it_says_when_it_is_well_and_waits_for_what_is(name):
    assert "healthcheck" in SERVICES[name] or SERVICES[name]["restart"] == "no"
    for other, how in SERVICES[name].get("depends_on", {}).items():
        once = SERVICES[other]["restart"] == "no"
        assert how == {"condition": "service_completed_successfully" if once else "service_healthy"}


def test_both_databases_are_made_and_used():
    made = re.findall(r"CREATE DATABASE (\w+);", (INFRA / "databases.sql").read_text())
    urls = " ".join(environment("prefect").values()) + " ".join(environment("mlflow").values())
    assert re.findall(r"@database:5432/(\w+)", urls) == made
    assert any(volume.startswith("./databases.sql:/docker-entrypoint-initdb.d/") for volume in SERVICES["database"]["volumes"])


def test_who_holds_the_slots_of_a_limit_outlives_the_server():
    assert environment("prefect")["PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE"] == LEASES
    [(volume, folder)] = [mount.split(":") for mount in SERVICES["prefect"]["volumes"]]
    assert [
        name for name in SERVICES if any(mount.startswith(f"{volume}:") for mount in SERVICES[name].get("volumes", []))
    ] == ["prefect"]
    assert f"PREFECT_HOME={folder}/" in DOCKERFILE  # where that storage has its files
    assert f"-o aitest -g aitest {folder}\n" in DOCKERFILE  # a new volume belongs to whom its folder in the image belongs


@every_service
def test_the_command_is_one_that_there_is(name):
    command = [str(word) for word in SERVICES[name].get("command", [])]
    if not command:
        return
    if command[0] == "python":
        assert find_spec(command[2])
        known = subprocess.run([sys.executable, "-m", command[2], "--help"], capture_output=True, text=True, check=True).stdout
    else:
        assert shutil.which(command[0], path=str(BIN))
        words = [word for word in command[1:] if not word.startswith("-")]
        depth = {"weed": 1, "mlflow": 1, "prefect": 2}[command[0]]
        known = help_of(command[0], *words[:depth])
    options = [word.partition("=")[0] for word in command if word.startswith("-") and word != "-m"]
    assert options
    assert [option for option in options if not re.search(rf"(^|\s|\[|,){re.escape(option)}\b", known)] == []


def test_the_images_run_as_nobody_of_note():
    stages = re.split(r"^FROM ", DOCKERFILE, flags=re.MULTILINE)[1:]
    assert [re.search(r"^(\S+) AS (\w+)", stage).groups() for stage in stages] == [
        ("python:3.11.13-slim-bookworm", "base"),
        ("base", "storage"),
        ("base", "aitest"),
    ]
    for stage in stages[1:]:
        assert re.search(r"^USER aitest$", stage, re.MULTILINE)


def test_the_images_have_what_is_tested_together():
    installs = [line for line in instructions("RUN") if "pip install" in line]
    assert len(installs) == 2
    assert all("-c /build/constraints.txt" in line for line in installs)
    [extras] = [value.partition("=")[2].split(",") for value in instructions("ARG")]
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert {"s3", "services"} <= set(extras) <= known.keys()
    pins = dict(line.strip().split("==") for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line)
    assert pins["boto3"] == pins["botocore"]  # one release: with it MLflow's server keeps artifacts in the S3 server


def test_the_build_copies_what_there_is_and_all_that_the_packages_need():
    copied = [words.split()[:-1] for words in instructions("COPY")]
    sources = {source for words in copied for source in words}
    assert [source for source in sources if not (ROOT / source).exists()] == []
    packages = {path.relative_to(ROOT).parts[0] for path in ROOT.glob("*/aitest_*/__init__.py")} | {"aitest_lib"}
    links = {path.resolve().relative_to(ROOT) for path in (ROOT / "flows/aitest_flows").iterdir() if path.is_symlink()}
    assert packages <= sources
    assert [link for link in links if not any(link.is_relative_to(source) for source in sources)] == []
