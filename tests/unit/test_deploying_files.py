"""`deployments/prefect.yaml` and `automations.yaml` show by hand what `aitest deploy` makes."""

import shlex
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from uuid import UUID

import pytest
import yaml
from prefect import Flow

from aitest_flows.alerts import VERSION_CREATED, automations, model_resource
from aitest_flows.deploying import deploy_suite, start_worker
from aitest_lib.errors import InputError
from aitest_lib.properties.catalog import SPECS
from aitest_tasks.settings import EmbeddedSettings

DEPLOYMENTS = Path(__file__).parents[2] / "deployments"
SUITE = "credit-nightly"


@pytest.fixture(scope="module")
def blocks():
    return yaml.safe_load((DEPLOYMENTS / "prefect.yaml").read_text())


def test_every_flow_of_a_worker_has_its_block(blocks):
    named = [block["entrypoint"] for block in blocks["deployments"]]
    others = ["aitest_flows.suite.suite", "aitest_flows.helping.helper", "aitest_flows.audit.audit"]
    assert sorted(named) == sorted([*others, *(spec.flow for spec in SPECS.values())])
    for name in named:
        module, _, flow = name.rpartition(".")
        assert isinstance(getattr(import_module(module), flow), Flow)


def test_nothing_of_a_folder_goes_into_a_deployment(blocks):
    assert blocks["pull"] == []
    assert not any({"pull", "path", "build", "push"} & block.keys() for block in blocks["deployments"])
    assert len({block["work_pool"]["name"] for block in blocks["deployments"]}) == 1


def test_the_trigger_is_the_one_that_deploy_makes(blocks):
    [audit] = [block for block in blocks["deployments"] if block["name"] == SUITE]
    [trigger] = audit["triggers"]
    assert trigger["match"] == {"prefect.resource.id": model_resource("credit")}
    assert trigger["expect"] == [VERSION_CREATED]
    assert audit["parameters"].keys() == {"suite_uri", "version"}


def test_the_alerts_are_those_that_deploy_makes():
    from prefect.events.actions import DoNothing
    from prefect.events.schemas.automations import AutomationCore

    written = yaml.safe_load((DEPLOYMENTS / "automations.yaml").read_text())["automations"]
    found = [AutomationCore.model_validate(item) for item in written]
    made = automations(SUITE, UUID(int=0), timedelta(days=1), DoNothing())
    for one, other in zip(found, made, strict=True):
        assert (one.name, one.description, one.actions) == (other.name, other.description, other.actions)
        same = {"match_related"} if one.name.endswith("crashed") else set()  # by hand the deployment's id is not known
        assert one.trigger.model_dump(exclude={"id", *same}) == other.trigger.model_dump(exclude={"id", *same})


@pytest.mark.parametrize("pool", ["", " "])
def test_a_pool_has_a_name(tmp_path, pool):
    with pytest.raises(InputError, match=f"^--pool: got {pool!r}, expected the name of a work pool$"):
        deploy_suite(EmbeddedSettings(tmp_path), tmp_path / "suite.yaml", pool=pool)


def test_the_command_for_a_worker_can_be_pasted(tmp_path, monkeypatch):
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:4200/api")
    monkeypatch.setenv("AITEST_STORE", str(tmp_path / "a $HOME"))
    command = start_worker(EmbeddedSettings(tmp_path), "two words; $x").partition(": ")[2]
    words = shlex.split(command)
    assert words[words.index("--pool") + 1] == "two words; $x"
    assert "'two words; $x'" in command
    assert "PREFECT_API_URL=http://127.0.0.1:4200/api" in words
