// Places what the page's data say of the chosen ε; nothing is computed here.
"use strict";

const byId = (id) => document.getElementById(id);
const slider = byId("eps");
const menus = { adversary: byId("adversary"), relation: byId("relation") };

// A menu with these options; what was chosen stays where it is still there.
function fill(menu, options, wanted) {
  const names = [...new Set(options)];
  const kept = names.includes(menu.value) ? menu.value : wanted;
  menu.replaceChildren(...names.map((name) => new Option(name, name)));
  menu.value = names.includes(kept) ? kept : names[0];
}

function place() {
  const points = PAGE.points.filter((p) => p.mechanism === byId("who-noise").value);
  slider.max = points.length - 1;
  const point = points[slider.value];
  fill(menus.adversary, point.guarantees.map((g) => g.adversary), point.main);
  const against = point.guarantees
    .filter((one) => one.adversary === menus.adversary.value);
  fill(menus.relation, against.map((g) => g.relation), against[0].relation);
  const one = against.find((g) => g.relation === menus.relation.value);
  const shown = { "eps-value": point.epsilon, accuracy: point.accuracy,
    left: point.left, ...one };
  for (const name of ["eps-value", "accuracy", "claim", "right", "guess", "known",
    "status", "spent", "delta", "tpr", "mu", "left"]) {
    byId(name).textContent = shown[name];
  }
  slider.setAttribute("aria-valuetext", `ε = ${point.epsilon}`);
  Object.assign(byId("band").style,
    { left: point.scale.left, width: point.scale.width });
  byId("mean").style.left = point.scale.mean;
  [...byId("people").children].forEach((dot, i) =>
    dot.classList.toggle("right", i < one.right));
  byId("assumptions").replaceChildren(...one.assumptions.map((text) => {
    const item = document.createElement("li");
    item.textContent = text;
    return item;
  }));
}

for (const control of [slider, byId("who-noise"), ...Object.values(menus)]) {
  control.addEventListener("input", place);
}
byId("who-noise").addEventListener("input", () => { slider.value = 0; place(); });
slider.value = 0;
place();
