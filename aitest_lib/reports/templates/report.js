"use strict";
// The filter of the cases: by outcome, transform and text, each choice with the number of cases it would show; of cards only the
// first ones until more are asked for. Without scripts every case is shown.
const CARDS = 24;
for (const box of document.querySelectorAll(".filter")) {
  const text = box.querySelector("input");
  const transform = box.querySelector("select");
  const buttons = [...box.querySelectorAll("button")];
  const more = box.parentElement.querySelector(".more");
  const count = box.querySelector("output");
  const cases = [...document.querySelectorAll("#" + box.dataset.cases + " .case")];
  const words = new Map(cases.map((item) => [item, item.textContent.toLowerCase().replace(/\s+/g, " ")]));
  const options = transform && buttons.length ? [...transform.options].map((option) => [option, option.text]) : [];
  let outcome = "";
  let whole = false;
  const fits = (item, wanted, kind, ending) =>
    words.get(item).includes(wanted) && (!kind || item.dataset.transform === kind) && (!ending || item.dataset.outcome === ending);
  const apply = () => {
    const wanted = text.value.trim().toLowerCase();
    const kind = transform ? transform.value : "";
    const number = (one, other) => cases.filter((item) => fits(item, wanted, one, other)).length;
    const found = cases.filter((item) => fits(item, wanted, kind, outcome));
    const shown = new Set(more && !whole ? found.slice(0, CARDS) : found);
    for (const item of cases) item.hidden = !shown.has(item);
    for (const [option, name] of options) option.text = name + " (" + number(option.value, outcome) + ")";
    for (const button of buttons) {
      button.querySelector("span").textContent = number(kind, button.dataset.outcome);
      button.setAttribute("aria-pressed", String(button.dataset.outcome === outcome));
    }
    count.textContent = shown.size + " of " + (more ? found.length : cases.length) + " shown";
    if (more) {
      more.hidden = found.length <= CARDS;
      more.textContent = whole ? "Show only the first " + CARDS : "Show all " + found.length;
    }
  };
  text.addEventListener("input", apply);
  if (transform) transform.addEventListener("change", apply);
  for (const button of buttons) {
    button.addEventListener("click", () => {
      outcome = button.dataset.outcome;
      apply();
    });
  }
  if (more) {
    more.addEventListener("click", () => {
      whole = !whole;
      apply();
    });
  }
  box.hidden = false;
  apply();
}
// A sandboxed frame without an origin does not follow links to its own fragments.
for (const link of document.querySelectorAll('a[href^="#"]')) {
  link.addEventListener("click", (event) => {
    event.preventDefault();
    const target = document.querySelector(link.getAttribute("href"));
    if (target.tagName === "DETAILS") target.open = true;
    target.scrollIntoView();
  });
}
