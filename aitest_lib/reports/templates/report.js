"use strict";
// The filter of the failing cases: by transform and by text. Without scripts every case is shown.
for (const box of document.querySelectorAll(".filter")) {
  const text = box.querySelector("input");
  const transform = box.querySelector("select");
  const count = box.querySelector("output");
  const cases = [...document.querySelectorAll("#" + box.dataset.cases + " .case")];
  const words = new Map(cases.map((item) => [item, item.textContent.toLowerCase().replace(/\s+/g, " ")]));
  const apply = () => {
    const wanted = text.value.trim().toLowerCase();
    let shown = 0;
    for (const item of cases) {
      const fits = words.get(item).includes(wanted) && (!transform || !transform.value || item.dataset.transform === transform.value);
      item.hidden = !fits;
      shown += fits ? 1 : 0;
    }
    count.textContent = shown + " of " + cases.length + " shown";
  };
  text.addEventListener("input", apply);
  if (transform) transform.addEventListener("change", apply);
  box.hidden = false;
  apply();
}
// A sandboxed frame without an origin does not follow links to its own fragments.
for (const link of document.querySelectorAll('a[href^="#"]')) {
  link.addEventListener("click", (event) => {
    event.preventDefault();
    document.querySelector(link.getAttribute("href")).scrollIntoView();
  });
}
