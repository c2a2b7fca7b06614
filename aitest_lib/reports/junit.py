"""The verdicts of a run as JUnit XML: one test suite per property, one test case per gate."""

from __future__ import annotations

import xml.etree.ElementTree as ET

from aitest_lib.reports.report import GateResult, PropertyReport, RunReport
from aitest_lib.reports.tables import bound, printable, slice_label

# A waived failure counts as passed (contract, section 2) but must stay visible, so it is a skipped test.
_TAGS = {"failed": "failure", "error": "error", "inconclusive": "skipped", "skipped": "skipped", "unjudged": "skipped"}


def junit_xml(report: RunReport) -> str:
    """The report as a JUnit XML document, without the characters that XML forbids.

    Failed gates are failures, gates in error are errors; inconclusive, skipped and waived ones are skipped with the reason
    as message. A property without gates is one test case with the property's own status (`unjudged` is skipped).
    """
    root = ET.Element("testsuites", name=printable(report.suite), time=f"{report.seconds:.3f}")
    for name, prop in report.named.items():
        root.append(_suite(name, prop, report))
    for key in ("tests", "failures", "errors", "skipped"):
        root.set(key, str(sum(int(suite.get(key, "0")) for suite in root)))
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _suite(name: str, prop: PropertyReport, report: RunReport) -> ET.Element:
    suite = ET.Element("testsuite", name=printable(name), time=f"{prop.seconds:.3f}")
    # JUnit wants local ISO 8601 without an offset; the times of a report are UTC.
    suite.set("timestamp", printable(report.started.removesuffix("Z")))
    for gate in prop.gates:
        label = f"{gate.metric} {bound(gate)} on {slice_label(gate.slice, 'the whole')}"
        suite.append(_case(name, label, _tag(gate), f"{gate.verdict}: {gate.reason}"))
    if not prop.gates:
        message = f"{prop.status}: {prop.reason or prop.explanation or 'no gate was set'}"
        suite.append(_case(name, "property", _TAGS.get(prop.status), message))
    for key, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(key, str(len(suite.findall(f"testcase/{tag}"))))
    suite.set("tests", str(len(suite)))
    return suite


def _tag(gate: GateResult) -> str | None:
    return "skipped" if gate.waived and gate.verdict == "failed" else _TAGS.get(gate.verdict)


def _case(owner: str, label: str, tag: str | None, message: str) -> ET.Element:
    case = ET.Element("testcase", classname=printable(owner), name=printable(label))
    if tag is not None:
        ET.SubElement(case, tag, message=printable(message))
    return case
