"""Plain sentences on tabular fairness: groups, pairs of rows and directions, and each of their cases. No language model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aitest_lib.reports.explain_groups import excluded_words, groups_lead, groups_weak_spots, proxy_words
from aitest_lib.reports.fairness_view import (
    columns_words,
    has_fairness,
    should_words,
    value_words,
    values_words,
    watched_words,
    yield_of,
)
from aitest_lib.reports.records_fairness import DirectionReport, PairReport, PairSearchReport
from aitest_lib.reports.report import PropertyReport
from aitest_lib.reports.tables import clip, count, interval, listed, number

MAX_NAMED = 3  # columns, values or stretches named in one sentence
MAX_COLUMNS = 8  # moved columns with a sentence of their own


def explain_pair_case(
    changed: Mapping[str, tuple[str, str]],
    before_answer: str,
    after_answer: str,
    score: float | None,
    note: str | None = None,
) -> str:
    """One sentence on two rows that differ in protected columns alone and were decided otherwise.

    `changed`: value of the row and of its counterpart, by protected column. `score`: the model's score of `after_answer`, in
    [0, 1]. `note`: what else is to be known of the counterpart.

    >>> explain_pair_case({"sex": ("Male", "Female")}, ">50K", "<=50K", 0.56)
    'sex Male -> Female turned the decision from >50K to <=50K (score 0.56)'
    >>> explain_pair_case({"race": ("", "Black")}, "yes", "no", None, "no such row is in the data")
    'race missing -> Black turned the decision from yes to no; no such row is in the data'
    """
    moves = [f"{clip(name, 60)} {_cell(before)} -> {_cell(after)}" for name, (before, after) in changed.items()]
    shown = moves[:MAX_NAMED]
    cause = listed([*shown, *([f"{len(moves) - MAX_NAMED} more changes"] if len(moves) > MAX_NAMED else [])])
    sentence = f"{cause} turned the decision from {_cell(before_answer)} to {_cell(after_answer)}{_scored(score)}"
    return f"{sentence}; {clip(note, 300)}" if note else sentence


def explain_direction_case(
    column: str,
    before: str,
    after: str,
    expected: str,
    on: str,
    value_before: float | str,
    value_after: float | str,
    favorable: str | None = None,
) -> str:
    """One sentence on a row in which a column was moved alone, and what is watched moved against the expectation.

    `before`, `after`: values of the column. `expected`: increasing, decreasing, never_helps or never_hurts. `on`: score,
    decision or number; `value_before`, `value_after`: the two scores or numbers, or the two decisions as text. `favorable`: the
    answer whose score it is, or that is meant by a favourable decision.

    >>> explain_direction_case("hours-per-week", "38", "45", "increasing", "score", 0.61, 0.42, ">50K")
    'hours-per-week 38 -> 45 lowered the score of >50K from 0.61 to 0.42, and more of it should never lower it'
    >>> explain_direction_case("defaults", "2", "0", "never_helps", "decision", "approved", "refused", "approved")
    'defaults 2 -> 0 turned the decision from approved to refused, and less of it should never hurt'
    """
    move = f"{clip(column, 60)} {_cell(before)} -> {_cell(after)}"
    should = should_words(expected, on, favorable=favorable, falls=_falls(before, after))
    if isinstance(value_before, str) or isinstance(value_after, str):
        turned = f"{_cell(str(value_before))} to {_cell(str(value_after))}"
        return f"{move} turned the decision from {turned}, and {should}"
    verb = "lowered" if value_after < value_before else "raised"
    what = "number" if on == "number" else f"score of {clip(favorable, 60)}" if favorable else "score"
    size = number if on == "number" else "{:.2f}".format
    ends = size(value_before), size(value_after)
    if ends[0] == ends[1]:  # a move that two digits hide
        ends = f"{value_before:.4g}", f"{value_after:.4g}"
    return f"{move} {verb} the {what} from {ends[0]} to {ends[1]}, and {should}"


def fairness_lead(report: PropertyReport, confidence: float) -> list[str]:
    """What was done and found by groups, pairs or directions. `confidence`: that of the bounds, in (0, 1)."""
    lead = groups_lead(report.groups, confidence) if report.groups else []
    if report.pairs and (report.pairs.columns or not report.reason):  # the reason of a skipped one says the rest
        lead += _pairs_lead(report.pairs, confidence)
    return lead + ([_directions_lead(report.directions, confidence)] if report.directions else [])


def fairness_weak_spots(report: PropertyReport) -> list[str]:
    """What stands out: the worst groups and segments, the values that turn most, the columns that go against expectation."""
    said = groups_weak_spots(report.groups) if report.groups else []
    said += _pairs_weak_spots(report.pairs) if report.pairs else []
    ranked = sorted(report.directions, key=lambda item: -(item.rate or 0.0))
    said += [_direction(item) for item in ranked[:MAX_COLUMNS]]
    more = len(ranked) - MAX_COLUMNS
    return said + ([f"{count(more, 'more column')} {'is' if more == 1 else 'are'} in the tables."] if more > 0 else [])


def fairness_left_out(report: PropertyReport) -> str:
    """The groups and columns that were not looked at, and why."""
    said = [excluded_words(report.groups) if report.groups else ""]
    if report.pairs and report.pairs.columns:
        said.append(_not_inputs(report.pairs))
    return " ".join(filter(None, said)) if has_fairness(report) else ""


def search_words(pairs: PairReport, search: PairSearchReport) -> str:
    """What a search found, and that this is no prevalence."""
    by = "the model's scores" if search.guided else "labels alone"
    lead = (
        f"A search guided by {by} found {count(search.found, 'further pair')} with {count(search.queries, 'query', 'queries')}"
    )
    rate = yield_of(pairs)
    facts = [
        "" if rate is None else f"{rate:.1f} per 1,000",
        f"in {search.regions:,} of {search.of_regions:,} regions of the data" if search.of_regions else "",
        "" if search.real is None else f"{search.real:.1%} of them look like the data",
    ]
    known = ", ".join(filter(None, facts)) if search.found else facts[0]
    stopped = f" It stopped early: {clip(search.stopped, 200).rstrip('.')}." if search.stopped else ""
    shown = (
        " That they exist is shown; how common they are is not: that is the prevalence on real rows."
        if search.found
        else " That none was found does not show that there is none."
    )
    return f"{lead}{f' ({known})' if known else ''}.{stopped}{shown}"


def _pairs_lead(pairs: PairReport, confidence: float) -> list[str]:
    if not pairs.columns:
        names = columns_words(pairs.not_inputs) or "the protected columns"
        return [f"The model is not sent {names}, so no answer can change with {'them' if len(pairs.not_inputs) > 1 else 'it'}."]
    asked = f"{pairs.tried:,} of {count(pairs.combinations, 'combination')} of values"
    lead = (
        f"Real rows were asked again with other values of {columns_words(pairs.columns)} and everything else as it is ({asked})"
    )
    if pairs.prevalence is None:
        return [f"{lead}; none was answered, so nothing was compared."]
    found = f"{pairs.turned:,} of {count(pairs.rows, 'row')} {'was' if pairs.turned == 1 else 'were'} decided otherwise"
    bounds = f" (bounds one-sided at {confidence:.0%})" if pairs.low is not None else ""
    prevalence = f"prevalence {number(pairs.prevalence)} {interval(pairs.low, pairs.high)}".rstrip()
    return [f"{lead}.", f"{found}: {prevalence}{bounds}.", _likely(pairs)]


def _likely(pairs: PairReport) -> str:
    """The prevalence without counterparts that the data contradict."""
    if not pairs.ties:
        return ""
    ties = "; ".join(clip(tie, 120) for tie in pairs.ties[:MAX_NAMED])
    more = f"; {len(pairs.ties) - MAX_NAMED:,} more" if len(pairs.ties) > MAX_NAMED else ""
    without = f"Without counterparts that contradict what goes together in the data ({ties}{more})"
    if pairs.likely_prevalence is None:
        return f"{without} no row is left."
    figure = f"{number(pairs.likely_prevalence)} {interval(pairs.likely_low, pairs.likely_high)}".rstrip()
    return f"{without} it is {figure}: {pairs.likely_turned:,} of {count(pairs.likely_rows, 'row')}."


def _not_inputs(pairs: PairReport) -> str:
    if not pairs.not_inputs:
        return ""
    verb = "was" if len(pairs.not_inputs) == 1 else "were"
    return f"{columns_words(pairs.not_inputs)} {verb} not changed: the model is not sent {'it' if verb == 'was' else 'them'}."


def _pairs_weak_spots(pairs: PairReport) -> list[str]:
    turned = sorted((one for one in pairs.flips if one.rate), key=lambda one: -(one.rate or 0.0))
    said = []
    if turned:
        named = [
            f"{values_words(one.values)} ({number(one.rate)} {interval(one.low, one.high)}".rstrip() + f" of {one.rows:,} rows)"
            for one in turned[:MAX_NAMED]
        ]
        said.append(f"What turned most was {listed(named)}.")
    if pairs.search:
        said.append(search_words(pairs, pairs.search))
    return [*said, proxy_words(pairs.proxies)]


def _directions_lead(directions: Sequence[DirectionReport], confidence: float) -> str:
    names = columns_words([item.column for item in directions])
    watched = listed(list(dict.fromkeys(watched_words(item) for item in directions)))
    rows = count(max(item.rows for item in directions), "row")
    each = "Each of " if len(directions) > 1 else ""
    return (
        f"{each}{names} was moved alone through its values in up to {rows}, everything else as it is, and {watched} watched "
        f"(bounds one-sided at {confidence:.0%})."
    )


def _direction(item: DirectionReport) -> str:
    """How often a column goes against the expectation, where most, and by how much."""
    should = should_words(item.expected, item.on, watched_words(item), item.favorable)
    lead = f"{clip(item.column, 60)}: {should}"
    if item.rate is None:
        return f"{lead}; no row was answered."
    figure = f"{number(item.rate)} {interval(item.low, item.high)}".rstrip()
    if not item.violating:
        return f"{lead}, and it does in none of {count(item.rows, 'row')} ({figure})."
    sized = item.on != "decision"
    largest = f", at most by {number(item.largest)}" if sized and item.largest is not None else ""
    said = f"{lead}, and it does in {item.violating:,} of {count(item.rows, 'row')} ({figure}){largest}"
    worst = max(item.stretches, key=lambda one: one.against, default=None)
    if worst is None:
        return f"{said}."
    mean = f", by {number(worst.mean)} on average" if sized else ""
    where = f"from {value_words(worst.start)} to {value_words(worst.end)}"
    return f"{said}; most often {where} ({worst.against:,} of {count(worst.rows, 'row')}{mean})."


def _falls(before: str, after: str) -> bool:
    """Whether a column was moved down, as far as its values are numbers."""
    try:
        return float(after) < float(before)
    except ValueError:
        return False


def _scored(score: float | None) -> str:
    return "" if score is None else f" (score {score:.2f})"


def _cell(value: str) -> str:
    return clip(value, 60) or "missing"
