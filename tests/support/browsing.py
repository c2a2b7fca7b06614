"""Pages in a real browser, as wide as a test wants them."""

from __future__ import annotations

from selenium import webdriver


def show(browser: webdriver.Chrome, page: str, width: int, dark: bool = False) -> None:
    """Opens a page in a window of `width` pixels, for a reader who prefers dark pages or light ones."""
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
    browser.get(page)
