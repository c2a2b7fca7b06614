"""When audits run: cron expressions as Prefect reads them, checked before anything is deployed."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo, available_timezones

from aitest_lib.errors import InputError, unknown

FIELDS = ("minute", "hour", "day of the month", "month", "day of the week")
EXAMPLE = '"0 2 * * *" (every day at two)'
LOOK_AHEAD = timedelta(days=366)
MOST_DATES = 5_000  # every twenty minutes of the working hours of a year
AT_ONCE = 1_000  # as many as Prefect looks for at a time


@dataclass(frozen=True)
class Schedule:
    """A cron expression that fires, and its IANA time zone."""

    cron: str
    timezone: str

    @property
    def next(self) -> datetime:
        """When it fires next, in its time zone."""
        return _dates(self, datetime.now(UTC), 1)[0]

    @property
    def longest_gap(self) -> timedelta:
        """The longest time between two firings within a year from now, over a weekend, say; a day can have 25 hours."""
        start = datetime.now(UTC)
        dates: list[datetime] = []
        while len(dates) < MOST_DATES and (len(dates) < 2 or dates[-1] < start + LOOK_AHEAD):
            found = _dates(self, dates[-1] + timedelta(seconds=1) if dates else start, AT_ONCE)
            if not found:
                break
            dates += found
        times = [date.astimezone(UTC) for date in dates]
        return max((later - earlier for earlier, later in pairwise(times)), default=LOOK_AHEAD)


def schedule_of(cron: str | None, timezone: str | None) -> Schedule | None:
    """The schedule that the command line asks for, UTC without a time zone. What cannot fire is an `InputError`."""
    if cron is None:
        if timezone is not None:
            raise InputError(f"--timezone: got {timezone!r} without a schedule; add --cron {EXAMPLE}, or leave it out")
        return None
    zone = timezone or "UTC"
    if zone not in available_timezones():
        raise InputError(f"--timezone: {_unknown_zone(zone)}")
    _check_cron(cron)
    schedule = Schedule(" ".join(cron.split()), zone)
    if not _dates(schedule, datetime.now(UTC), 1):
        raise InputError(f"--cron: {cron!r} never comes, as a 30th of February does not; give e.g. {EXAMPLE}")
    return schedule


def _check_cron(cron: str) -> None:
    fields = cron.split()
    if len(fields) != len(FIELDS):
        raise InputError(f"--cron: got {cron!r}, expected five fields ({', '.join(FIELDS)}), e.g. {EXAMPLE}")
    for place, (name, field) in enumerate(zip(FIELDS, fields, strict=True)):
        alone = ["*"] * len(FIELDS)
        alone[place] = field
        if not _is_valid(" ".join(alone)):
            raise InputError(f"--cron: {field!r} is no {name} (in {cron!r}); expected e.g. {EXAMPLE}")
    if not _is_valid(cron):
        raise InputError(f"--cron: {cron!r} is no schedule; expected e.g. {EXAMPLE}")


def _is_valid(cron: str) -> bool:
    from prefect.client.schemas.schedules import CronSchedule

    try:
        CronSchedule(cron=cron, timezone="UTC")
    except ValueError:
        return False
    return True


def _unknown_zone(zone: str) -> str:
    message = unknown("time zone", zone, available_timezones())
    return message if "did you mean" in message else f"unknown time zone {zone!r}; expected a name such as Europe/Berlin or UTC"


def _dates(schedule: Schedule, start: datetime, count: int) -> list[datetime]:
    """The next firings in the schedule's time zone, as the Prefect server would schedule them."""
    from prefect.server.schemas.schedules import CronSchedule

    cron, zone = CronSchedule(cron=schedule.cron, timezone=schedule.timezone), ZoneInfo(schedule.timezone)
    try:
        found = asyncio.run(cron.get_dates(n=count, start=start))
    except ValueError:  # croniter's error for a date that never comes is one
        return []
    return [datetime.fromtimestamp(date.timestamp(), zone) for date in found]
