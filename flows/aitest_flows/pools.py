"""Work pools and deployments on the Prefect server that stays up: created where missing, updated where not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from uuid import UUID

from aitest_flows.prefect_server import given_url, healthy
from aitest_lib import __version__
from aitest_lib.errors import AitestError, InputError, UnavailableError, unknown

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient


def ensure_pool(client: SyncPrefectClient, pool: str) -> None:
    """Creates a work pool of type process, unless there is one of this name."""
    from prefect.client.schemas.actions import WorkPoolCreate
    from prefect.exceptions import ObjectAlreadyExists, ObjectNotFound
    from prefect.workers.process import ProcessWorker
    from pydantic import ValidationError

    try:
        client.read_work_pool(pool)
    except ObjectNotFound:
        template = ProcessWorker.get_default_base_job_template()
        try:
            client.create_work_pool(WorkPoolCreate(name=pool, type="process", base_job_template=template))
        except ObjectAlreadyExists:  # somebody else was quicker
            return
        except ValidationError as error:
            raise InputError(f"--pool: {pool!r} cannot be the name of a work pool: {error.errors()[0]['msg']}") from error


def check_pool(client: SyncPrefectClient, pool: str) -> None:
    """Raises `InputError` where there is no work pool of this name."""
    from prefect.exceptions import ObjectNotFound

    try:
        client.read_work_pool(pool)
    except ObjectNotFound as error:
        known = [one.name for one in client.read_work_pools()]
        mend = "`aitest up` makes the pool aitest, `aitest deploy --pool NAME` any other"
        raise InputError(f"--on: {unknown('work pool', pool, known)}; {mend}") from error


def apply(flow: Any, name: str, pool: str, **options: Any) -> UUID:
    """Creates or updates one deployment, by module path; nothing of this folder or its repository goes into it."""
    from prefect.client.schemas.objects import VersionInfo
    from prefect.types.entrypoint import EntrypointType

    deployment = flow.to_deployment(
        name=name, work_pool_name=pool, version=__version__, entrypoint_type=EntrypointType.MODULE_PATH, **options
    )
    made: UUID = deployment.apply(version_info=VersionInfo(type="prefect:simple", version=__version__))
    return made


@contextmanager
def prefect_client() -> Iterator[SyncPrefectClient]:
    """A client of the Prefect server that deployments live on; what goes wrong there is one message."""
    url = given_url()
    if url is None or not healthy(url):
        what = "there is no Prefect server" if url is None else f"the Prefect server at {url} (PREFECT_API_URL) does not answer"
        raise UnavailableError(f"{what}; deployments need one that stays up: start it with `aitest up`, or set PREFECT_API_URL")
    import httpx
    from prefect.client.orchestration import get_client
    from prefect.deployments.runner import DeploymentApplyError
    from prefect.settings import PREFECT_API_URL, temporary_settings

    try:
        with temporary_settings({PREFECT_API_URL: url}), get_client(sync_client=True) as client:
            yield client
    except AitestError:
        raise
    except (httpx.HTTPError, DeploymentApplyError) as error:
        first = (str(error).strip().splitlines() or [type(error).__name__])[0][:300]
        raise UnavailableError(f"the Prefect server at {url} could not be used: {first}; see its log") from error
