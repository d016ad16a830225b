// Places what the page's data say of the chosen ε; no number is computed here.
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

const percentOf = (share, digits) => `${(100 * share).toFixed(digits)} %`;

const width = (share) => `${100 * share}%`; // of the scale, for CSS

// A value and its interval, or the interval alone, where there is no one value.
function spread(value, ends, text) {
  const between = ends ? ends.map(text).join(" to ") : "";
  if (value === null) return between;
  return between ? `${text(value)} (${between})` : text(value);
}

function accuracyText({ mean, lower, upper, auc, auc_ends: areas }) {
  const area = spread(auc, areas, (one) => one.toFixed(3));
  const accuracy = spread(mean, [lower, upper], (one) => percentOf(one, 1));
  return area ? `${accuracy}, AUC ${area}` : accuracy;
}

function leftText({ uploads_left: left, rounds }) {
  if (left === null) return `no limit was promised; ${rounds} were run`;
  return left ? `${left} of each client, after ${rounds}`
    : `none: ${rounds} spend all of ε`;
}

// The reference and guessing, which stay where they are.
function placeReferences() {
  const { reference, guessing, test_rows: rows } = PAGE;
  const sentences = [];
  const marks = [["reference", reference?.mean], ["guessing", guessing]];
  for (const [name, share] of marks) {
    byId(name).hidden = typeof share !== "number";
    byId(name).style.left = width(share);
  }
  if (reference) {
    const name = reference.name[0].toUpperCase() + reference.name.slice(1);
    sentences.push(`${name}, which hides nothing: ${accuracyText(reference)}.`);
  }
  if (guessing !== null) {
    const whose = rows === null ? ", its share in the schema" : ` of ${rows} test rows`;
    sentences.push(`Guessing the most frequent class: ${percentOf(guessing, 1)}${whose}.`);
  }
  byId("beside").textContent = sentences.join(" ");
}

function place() {
  const points = PAGE.points.filter((p) => p.mechanism === byId("who-noise").value);
  slider.max = points.length - 1;
  const point = points[slider.value];
  const main = point.guarantees.find((g) => g.adversary === point.adversary);
  fill(menus.adversary, point.guarantees.map((g) => g.against), main?.against);
  const against = point.guarantees
    .filter((one) => one.against === menus.adversary.value);
  fill(menus.relation, against.map((g) => g.change), against[0].change);
  const one = against.find((g) => g.change === menus.relation.value);
  const { mean, lower, upper } = point.accuracy;
  const shown = {
    "eps-value": show(point.epsilon, 3), accuracy: accuracyText(point.accuracy),
    interval: `${mean === null ? "The range is " : "In brackets: "}${point.accuracy.interval}.`,
    claim: one.claim, right: one.right, guess: one.guess, known: one.recognised,
    status: one.bound, spent: show(one.epsilon), delta: show(one.delta, 3),
    tpr: percentOf(one.risk.recognised, 2), mu: show(one.risk.mu, 3), left: leftText(point),
  };
  if (point.accuracy.worth) shown.worth = point.accuracy.worth; // of a plan
  for (const [name, text] of Object.entries(shown)) byId(name).textContent = text;
  slider.setAttribute("aria-valuetext", `ε = ${show(point.epsilon, 3)}`);
  Object.assign(byId("band").style,
    { left: width(lower), width: width(upper - lower) });
  byId("mean").hidden = mean === null;
  byId("mean").style.left = width(mean);
  [...byId("people").children].forEach((dot, i) =>
    dot.classList.toggle("right", i < one.right));
  byId("assumptions").replaceChildren(...(one.rests.length ? one.rests : ["nothing more"]).map((text) => {
    const item = document.createElement("li");
    item.textContent = text;
    return item;
  }));
}

for (const control of [slider, byId("who-noise"), ...Object.values(menus)]) {
  control.addEventListener("input", place);
}
slider.value = PAGE.opens ?? 0;
placeReferences();
place();
