"""Schedules of audits: what is wrong with one is said before anything is deployed."""

from datetime import UTC, datetime, timedelta

import pytest

from aitest_flows.schedules import schedule_of
from aitest_lib.errors import InputError


@pytest.mark.parametrize(
    ("cron", "zone", "message"),
    [
        ("0 24 * * *", None, "'24' is no hour"),
        ("60 2 * * *", None, "'60' is no minute"),
        ("0 2 32 * *", None, "'32' is no day of the month"),
        ("0 2 * 13 *", None, "'13' is no month"),
        ("0 2 * * 8", None, "'8' is no day of the week"),
        ("0 H * * *", None, "'H' is no hour"),
        ("0 2 * *", None, r"got '0 2 \* \*', expected five fields \(minute, hour, day of the month, month, day of the week\)"),
        ("@daily", None, "expected five fields"),
        ("", None, "expected five fields"),
        ("0 2 30 2 *", None, "never comes"),
        ("0 2 * * *", "Europe/Berln", "unknown time zone 'Europe/Berln'; did you mean Europe/Berlin"),
        ("0 2 * * *", "?", "expected a name such as Europe/Berlin or UTC"),
        (None, "UTC", "--timezone: got 'UTC' without a schedule; add --cron"),
    ],
)
def test_what_cannot_fire_is_one_message(cron, zone, message):
    with pytest.raises(InputError, match=message) as raised:
        schedule_of(cron, zone)
    assert len(str(raised.value).splitlines()) == 1


def test_no_schedule():
    assert schedule_of(None, None) is None


@pytest.mark.parametrize(
    ("cron", "gap"),
    [
        ("0 2 * * *", timedelta(hours=24)),
        ("0 2 * * 1-5", timedelta(hours=72)),
        ("*/15 9-17 * * mon-fri", timedelta(days=2, hours=15, minutes=15)),  # Friday 17:45 to Monday 9:00
        ("* 9-17 * * 1-5", timedelta(days=2, hours=15, minutes=1)),
        ("0 2 1 * *", timedelta(days=31)),
    ],
)
def test_the_longest_gap(cron, gap):
    assert schedule_of(cron, None).longest_gap == gap


def test_a_night_in_autumn_is_longer():
    assert schedule_of("0 4 * * *", "Europe/Berlin").longest_gap == timedelta(hours=25)


def test_the_next_time_is_in_the_schedules_zone():
    found = schedule_of("  30  4 * * *", "Asia/Kolkata").next
    assert (found.hour, found.minute, found.utcoffset()) == (4, 30, timedelta(hours=5, minutes=30))
    assert timedelta(0) < found - datetime.now(UTC) <= timedelta(days=1)
