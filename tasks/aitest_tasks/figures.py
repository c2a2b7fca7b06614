"""The figures of a property that stand beside its report."""

from __future__ import annotations

from aitest_lib.reports.attack_plots import attack_figures
from aitest_lib.reports.fairness_plots import fairness_figures
from aitest_lib.reports.fairness_view import has_fairness
from aitest_lib.reports.image_plots import breaking_panel, curve_panel, lowest
from aitest_lib.reports.image_sweeps import sweeps
from aitest_lib.reports.plots import flips_plot, gates_plot, metrics_plot
from aitest_lib.reports.report import PropertyReport
from aitest_lib.reports.speech_plots import speech_figures
from aitest_lib.reports.tree_plots import front_svg
from aitest_lib.reports.tree_svg import tree_svg


def figures(report: PropertyReport) -> dict[str, str]:
    """The figures of a property as SVG, by file name: of images a panel a transform, of speech a noise, of fairness an
    attribute or a moved column, else a metric."""
    made = fairness_figures(report)
    if report.adversarial is not None:
        return attack_figures(report.adversarial)
    if report.speech is not None:
        return speech_figures(report.speech)
    if report.property.startswith("image."):
        found = sweeps(report)
        panels = {sweep.name: curve_panel(sweep, lowest(found)) for sweep in found}
        panels |= {f"{item.transform}_breaking_points": breaking_panel(item) for item in report.breaking_points}
        return {name: panel for name, panel in panels.items() if panel}
    if report.gates:
        made["gates"] = gates_plot(report)
    swept = [] if has_fairness(report) else [item.name for item in report.metrics if "transform" in item.slice]
    for metric in dict.fromkeys(swept):
        made[metric] = metrics_plot(report, metric)
    if report.flips:
        made["smallest_flips"] = flips_plot(report)
    if report.tree is not None:
        made |= {"tree": tree_svg(report.tree), "front": front_svg(report)}
    return made
