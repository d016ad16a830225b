// Answers "Why did client 17 add this much noise in round 40?" from the numbers of
// the upload. Pure: takes the cell and the context, returns a list of paragraphs.
"use strict";

const SUM_TOO_SMALL = 1e-6; // below this |Σψ|, the ratio is undefined: docs/methods.md
const CLOSE = 1e-3; // relative; the numbers on the page are rounded to six digits

function percent(value, digits = 4) {
  return value === null ? "–" : show(100 * value, digits) + " %";
}

function near(a, b) {
  return a !== null && b !== null && Math.abs(a - b) <= CLOSE * Math.abs(b) + 1e-5;
}

function median(values) {
  const sorted = values.filter((v) => v !== null).sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  if (!sorted.length) return null;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

function attributeName(index, context) {
  const name = context.attributes[index] ?? `attribute ${index}`;
  return name + (index === context.private_attribute ? " (private)" : "");
}

function coalitionName(mask, count, context) {
  if (mask === 0) return "no examples (∅)";
  if (mask === 2 ** count - 1) return "all its examples";
  const members = [];
  for (let a = 0; a < count; a += 1) {
    if (mask & (1 << a)) members.push(attributeName(a, context));
  }
  return members.join(" + ");
}

// The R that the noise was computed from; null where the mechanism uses no R.
function usedRatio(cell, context) {
  if (cell.tolerance === null) return null;
  if (context.contribution_release === "worst_case") return 1;
  return cell.released ?? cell.ratio;
}

// R: from the Shapley values, then clipped or released.
function explainRatio(cell, context) {
  const { psi, ratio } = cell;
  const used = usedRatio(cell, context);
  if (ratio === null) {
    return used === null ? null
      : `The noise was computed with R = ${show(used)}, whatever the data.`;
  }
  const changed = used !== null && !near(used, ratio)
    ? ` The noise was computed with R = ${show(used)}, the value that`
      + ` --contribution_release=${context.contribution_release} released.` : "";
  return explainShare(psi, ratio, context) + changed;
}

function explainShare(psi, ratio, context) {
  const p = context.private_attribute;
  if (!psi.length) {
    return `Its contribution ratio is R = ${show(ratio)}; no Shapley values were recorded.`;
  }
  const sum = psi.reduce((a, b) => a + b, 0);
  const values = psi.map((v, a) => `${attributeName(a, context)} ψ = ${show(v)}`);
  const start = `The Shapley values divide this accuracy among the attributes: ${values.join(", ")};`
    + ` their sum is ${show(sum)}. `;
  if (Math.abs(sum) < SUM_TOO_SMALL) {
    return start + "The sum is too close to zero to divide by, so R is set to its most"
      + ` private value: R = ${show(ratio)}.`;
  }
  if (p === null || p >= psi.length) {
    return start + `The contribution ratio is R = ${show(ratio)}.`;
  }
  const raw = psi[p] / sum;
  const formula = `${show(psi[p])} / ${show(sum)}`;
  if (near(raw, ratio)) {
    return start + `The private attribute's share is R = ${formula} = ${show(ratio)}.`;
  }
  if (raw < 0 || raw > 1) {
    return start + `The private attribute's share would be ${formula} = ${show(raw)},`
      + ` outside [0, 1], so it was clipped to R = ${show(ratio)}.`;
  }
  return start + `The file records R = ${show(ratio)}, but these values give`
    + ` ${formula} = ${show(raw)}.`;
}

// The σ of the noise that was added, to the upload or in every local step.
function appliedStd(cell) {
  return cell.std || cell.stepStd || 0;
}

function explainWhere(cell) {
  if (!cell.std) {
    return `Gaussian noise of σ = ${show(cell.stepStd)} was added to the gradient of every`
      + " local training step (--sensitivity=per_example). The upload itself gets no"
      + " further noise.";
  }
  const whole = cell.l2 === null ? "" : `; the whole noise vector has L2 norm ${show(cell.l2)}`;
  return `Gaussian noise of σ = ${show(cell.std)} was added to every weight${whole}.`;
}

// T: from R and δ, where the mechanism has it.
function explainTolerance(cell, context) {
  const { tolerance } = cell;
  if (tolerance === null) return null;
  const { delta } = context;
  const ratio = usedRatio(cell, context);
  if (ratio !== null && delta !== null) {
    const bonus = -2 * Math.log(delta);
    const end = `${show(bonus)} = ${show(tolerance)} (δ = ${show(delta)}).`;
    if (near(ratio + bonus, tolerance)) {
      return `Risk tolerance: T = R − ln δ² = ${show(ratio)} + ${end}`;
    }
    const x = Math.min(1, Math.max(-3, ratio / 2 - 1));
    if (near(x + bonus, tolerance)) {
      return `Risk tolerance: T = clip(R/2 − 1, −3, 1) − ln δ² = ${show(x)} + ${end}`;
    }
  }
  return `Risk tolerance: T = ${show(tolerance)}, as recorded.`;
}

// σ: from T, the sensitivity and ε.
function explainStd(cell, context) {
  const { tolerance, epsilon, examples } = cell;
  const std = appliedStd(cell);
  if (tolerance === null || !epsilon) {
    const bound = cell.sensitivity ? `, with a sensitivity of ${show(cell.sensitivity)}` : "";
    return `${context.label} does not use attributes: σ = ${show(std)}${bound}.`;
  }
  const floor = context.noise_floor;
  const floored = floor !== null && tolerance < floor;
  const inside = floored ? floor : tolerance;
  const letter = floored ? "β" : "T";
  const note = floored ? ` T is below the floor β = ${show(floor)}, so β takes its place.` : "";
  const clip = context.l2_norm_clip;
  if (context.sensitivity === "paper" && clip !== null && examples) {
    const expected = (2 * clip * Math.sqrt(inside)) / (epsilon * examples);
    if (near(expected, std)) {
      return `Noise: σ = 2C·√${letter} / (ε·|D|) = 2·${show(clip)}·√${show(inside)}`
        + ` / (${show(epsilon)}·${show(examples)}) = ${show(std)}.${note}`;
    }
  }
  const bound = cell.sensitivity ?? (std * epsilon) / Math.sqrt(inside);
  return `Noise: σ = Δ·√${letter} / ε = ${show(bound)}·√${show(inside)} / ${show(epsilon)}`
    + ` = ${show(std)}, where Δ is the sensitivity of --sensitivity=${context.sensitivity}.${note}`;
}

// How much R could change the noise, and how the round's other uploads compare.
function explainComparison(cell, context, cohort) {
  const { tolerance } = cell;
  const std = appliedStd(cell);
  const ratio = usedRatio(cell, context);
  const sentences = [];
  if (ratio !== null && near(ratio - 2 * Math.log(context.delta), tolerance)) {
    const floor = context.noise_floor ?? 0;
    const at = (r) =>
      std * Math.sqrt(Math.max(tolerance - ratio + r, floor) / Math.max(tolerance, floor));
    sentences.push(`With R = 0 this upload would have got σ = ${show(at(0))}, with R = 1`
      + ` σ = ${show(at(1))}, so R can change the noise by at most`
      + ` ${percent(at(1) / at(0) - 1, 3)}.`);
  }
  const middle = median(cohort.map(appliedStd));
  if (cohort.length > 1 && middle) {
    const times = std / middle;
    const rank = 1 + cohort.filter((one) => appliedStd(one) > std).length;
    sentences.push(`Of the ${cohort.length} uploads of this round it has the`
      + ` ${rank === 1 ? "most noise" : `noise of rank ${rank}`}, ${show(times, 3)} times`
      + " the median.");
    const size = median(cohort.map((one) => one.examples));
    if (size && cell.examples && Math.abs(times - 1) > 0.005) {
      const few = size / cell.examples;
      sentences.push(near(few, 1)
        ? `The client holds as many examples as the median client (${show(size)}), so the`
          + " difference does not come from the amount of data."
        : `The client holds ${show(cell.examples)} examples, the median client`
          + ` ${show(size)}.` + explainFactors(few, times, context));
    }
  }
  return sentences.length ? sentences.join(" ") : null;
}

function explainGuarantee(cell, context) {
  if (cell.epsilon === null) return "There is no finite guarantee for this upload.";
  const { tolerance, delta } = cell;
  let text = `Claimed for this upload: ε = ${show(cell.epsilon)}, δ′ = ${show(delta)}`;
  const inside = tolerance === null ? null : Math.max(tolerance, context.noise_floor ?? 0);
  if (inside !== null && near(1.25 * Math.exp(-inside / 2), delta)) {
    text += ` = 1.25·e^(−${inside === tolerance ? "T" : "β"}/2)`;
  }
  text += context.meaning ? ` (${context.meaning}).` : ".";
  if (context.sensitivity === "paper") {
    text += " The claim is nominal: it assumes a sensitivity of 2C/|D|, which does not"
      + " follow from clipping the mean gradient of each batch.";
  }
  if (tolerance !== null && context.contribution_release === "none") {
    text += " Because σ depends on R, and R is computed from private data without"
      + " protection, σ itself leaks R.";
  }
  return text;
}

// The number of examples scales the noise only where the sensitivity is 2C/|D|.
function explainFactors(few, times, context) {
  if (context.sensitivity !== "paper") return "";
  return ` The number of examples alone explains a factor of ${show(few, 3)}, the other`
    + ` causes together a factor of ${show(times / few, 3)}.`;
}

// Returns {title, lead, coalitions: [[name, accuracy]], steps: [text]}.
function explain(cell, context, cohort) {
  const title = `Why did client ${cell.client} add this much noise in round ${cell.round}?`;
  const count = cell.psi.length;
  const coalitions = cell.utilities.map((value, mask) =>
    [coalitionName(mask, count, context), percent(value)]);
  if (cell.std === null) {
    return { title: `Client ${cell.client} in round ${cell.round}`, coalitions,
      lead: "The noise of this upload is not a finite number.", steps: [] };
  }
  if (!appliedStd(cell)) {
    return { title: `Client ${cell.client} in round ${cell.round}`, coalitions,
      lead: `No noise was added: with ${context.label} the client sent its upload unchanged.`,
      steps: [explainGuarantee(cell, context)] };
  }
  return {
    title,
    lead: explainWhere(cell),
    coalitions,
    steps: [
      explainRatio(cell, context),
      explainTolerance(cell, context),
      explainStd(cell, context),
      explainComparison(cell, context, cohort),
      explainGuarantee(cell, context),
    ].filter((text) => text !== null),
  };
}
