// Answers "Why did client 17 add this much noise in round 40?" with the numbers that
// the upload's row records and the formulas that the page names; nothing is computed
// again. Pure: takes the cell and the context, returns a list of paragraphs.
"use strict";

function percent(value) {
  return value === null ? "–" : show(100 * value) + " %";
}

function median(values) {
  const sorted = values.filter((v) => v !== null).sort((a, b) => a - b);
  return sorted.length ? sorted[sorted.length >> 1] : null;
}

// As the table of clients calls it.
function clientName(client, context) {
  const name = context.clients[client];
  return name === undefined ? `client ${client}` : `${name} (client ${client})`;
}

function attributeName(index, context) {
  const name = context.attributes[index] ?? `attribute ${index}`;
  return name + (index === context.private_attribute ? " (private)" : "");
}

function coalitionName(mask, count, context) {
  if (mask === 0) return "no examples (∅)";
  if (mask === 2 ** count - 1) return "all its examples";
  const members = [...Array(count).keys()].filter((a) => mask & (1 << a));
  return members.map((a) => attributeName(a, context)).join(" + ");
}

// R: the Shapley values behind it, and what became of it.
function explainRatio({ psi, ratio, released, tolerance }, context) {
  const used = released !== null && released !== ratio
    ? `The noise was computed with R = ${show(released)}, as`
      + ` --contribution_release=${context.contribution_release} has it.` : null;
  if (ratio === null) return tolerance === null ? null : used;
  const values = psi.map((v, a) => `${attributeName(a, context)} ψ = ${show(v)}`);
  const start = psi.length
    ? `The Shapley values divide this accuracy among the attributes: ${values.join(", ")};`
      + ` their sum is ${show(psi.reduce((a, b) => a + b, 0))}. `
    : "No Shapley values were recorded. ";
  return `${start}The private attribute's share, kept within [0, 1] (and 1 where the sum is`
    + ` close to zero), is the contribution ratio R = ${show(ratio)}. ${used ?? ""}`;
}

// The σ of the noise that was added, to the upload or in every local step.
function appliedStd(cell) {
  return cell.std || cell.stepStd || 0;
}

function explainWhere(cell) {
  if (!cell.std) {
    return `Gaussian noise of σ = ${show(cell.stepStd)} was added to the gradient of every`
      + " local training step (--clipping=per_example). The upload itself gets no"
      + " further noise.";
  }
  const whole = cell.l2 === null ? "" : `; the whole noise vector has L2 norm ${show(cell.l2)}`;
  return `Gaussian noise of σ = ${show(cell.std)} was added to every weight${whole}.`;
}

function explainStd(cell, context) {
  const facts = [["risk tolerance T", cell.tolerance], ["ε", cell.epsilon],
    ["sensitivity Δ", cell.sensitivity], ["examples |D|", cell.examples]];
  const known = facts.filter(([, value]) => value !== null);
  const formula = context.formula || `${context.label} does not use attributes.`;
  return `${formula} Here σ = ${show(appliedStd(cell))}`
    + known.map(([name, value]) => `, ${name} = ${show(value)}`).join("") + ".";
}

// How the round's other uploads compare.
function explainComparison(cell, cohort) {
  const std = appliedStd(cell);
  const middle = median(cohort.map(appliedStd));
  if (cohort.length < 2 || !middle) return null;
  if (cohort.every((one) => appliedStd(one) === std)) {
    return `All ${cohort.length} uploads of this round have this noise.`;
  }
  const rank = 1 + cohort.filter((one) => appliedStd(one) > std).length;
  return `Of the ${cohort.length} uploads of this round it has the`
    + ` ${rank === 1 ? "most noise" : `noise of rank ${rank}`}, ${show(std / middle, 3)} times`
    + ` the median. The client holds ${show(cell.examples)} examples, the median client`
    + ` ${show(median(cohort.map((one) => one.examples)))}.`;
}

function explainGuarantee(cell, context) {
  if (cell.epsilon === null) return "There is no finite guarantee for this upload.";
  const caveats = [];
  if (context.clipping === "paper") {
    caveats.push("The claim is nominal: it assumes a sensitivity of 2C/|D|, which does not"
      + " follow from clipping the mean gradient of each batch.");
  }
  if (context.formula && context.contribution_release === "raw") {
    caveats.push("Because σ depends on R, and R is computed from private data without"
      + " protection, σ itself leaks R.");
  }
  const meaning = context.meaning ? ` (${context.meaning})` : "";
  return [`Claimed for this upload: ε = ${show(cell.epsilon)}, δ′ = ${show(cell.delta)}${meaning}.`,
    ...caveats].join(" ");
}

// Returns {title, lead, coalitions: [[name, accuracy]], steps: [text]}.
function explain(cell, context, cohort) {
  const coalitions = cell.utilities.map((value, mask) =>
    [coalitionName(mask, cell.psi.length, context), percent(value)]);
  const who = clientName(cell.client, context);
  const plain = { title: `Round ${cell.round}, ${who}`, coalitions, steps: [] };
  if (cell.std === null) {
    return { ...plain, lead: "The noise of this upload is not a finite number." };
  }
  if (!appliedStd(cell)) {
    return { ...plain, steps: [explainGuarantee(cell, context)],
      lead: `No noise was added: with ${context.label} the client sent its upload unchanged.` };
  }
  return {
    title: `Why did ${who} add this much noise in round ${cell.round}?`,
    lead: explainWhere(cell),
    coalitions,
    steps: [
      explainRatio(cell, context),
      explainStd(cell, context),
      explainComparison(cell, cohort),
      explainGuarantee(cell, context),
    ].filter((text) => text !== null),
  };
}
