// "Why did client 17 add this much noise in round 40?", in words made from the
// upload's own numbers. Pure: cell and context in, a list of paragraphs out.
"use strict";

const SUM_TOO_SMALL = 1e-6; // |Σψ| below this has no ratio: METHODS.md, section 1
const CLOSE = 1e-3; // numbers were rounded to six digits on their way here

function percent(value) {
  return value === null ? "–" : show(100 * value, 4) + "%";
}

function close(a, b) {
  return a !== null && b !== null && Math.abs(a - b) <= CLOSE * Math.max(1e-9, Math.abs(b));
}

function median(values) {
  const sorted = values.filter((v) => v !== null).sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  if (!sorted.length) return null;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

function coalitionName(mask, count, privateAttribute) {
  if (mask === 0) return "none of it (∅)";
  if (mask === 2 ** count - 1) return "all of it";
  const members = [];
  for (let a = 0; a < count; a += 1) {
    if (mask & (1 << a)) members.push(a + (a === privateAttribute ? " (private)" : ""));
  }
  return "attribute" + (members.length > 1 ? "s " : " ") + members.join(", ");
}

// R: from the Shapley values, and what was done to it.
function explainRatio(cell, context) {
  const { psi, ratio } = cell;
  if (ratio === null) return null;
  const p = context.private_attribute;
  if (!psi.length || psi.includes(null)) {
    return `Its contribution ratio is R = ${show(ratio)}; no Shapley values were recorded.`;
  }
  const sum = psi.reduce((a, b) => a + b, 0);
  const known = p !== null && p >= 0 && p < psi.length;
  const values = psi.map((v, a) =>
    `ψ${a}${known && a === p ? " (private)" : ""} = ${show(v)}`).join(", ");
  const start = `Shapley values share that accuracy out: ${values}; together ${show(sum)}. `;
  if (Math.abs(sum) < SUM_TOO_SMALL) {
    return start + "The sum is too close to zero for a ratio to mean anything, so the"
      + ` most private answer stands in: R = ${show(ratio)}.`;
  }
  if (!known) return start + `The contribution ratio is R = ${show(ratio)}.`;
  const raw = psi[p] / sum;
  const formula = `${show(psi[p])} / ${show(sum)}`;
  if (close(raw, ratio) || Math.abs(raw - ratio) < 1e-5) {
    return start + `The private attribute's share is R = ${formula} = ${show(ratio)}.`;
  }
  if (raw < 0 || raw > 1) {
    return start + `The private attribute's share would be ${formula} = ${show(raw)},`
      + ` outside [0, 1]; it was clipped to R = ${show(ratio)}.`;
  }
  return start + `The file states R = ${show(ratio)}, while ${formula} = ${show(raw)}:`
    + " a setting other than the ratio of these values decided.";
}

// T: from R and δ, where the mechanism has it.
function explainTolerance(cell, context) {
  const { ratio, tolerance } = cell;
  if (tolerance === null) return null;
  const delta = context.delta;
  const bonus = delta === null ? null : -2 * Math.log(delta);
  if (ratio !== null && bonus !== null) {
    if (context.mechanism === "fedsva" && close(ratio + bonus, tolerance)) {
      return `Risk tolerance: T = R − ln δ² = ${show(ratio)} + ${show(bonus)}`
        + ` = ${show(tolerance)} (δ = ${show(delta)}).`;
    }
    const x = Math.min(1, Math.max(-3, ratio / 2 - 1));
    if (context.mechanism === "fedsdp" && close(x + bonus, tolerance)) {
      return `Risk tolerance: T = clip(R/2 − 1, −3, 1) − ln δ² = ${show(x)} +`
        + ` ${show(bonus)} = ${show(tolerance)} (δ = ${show(delta)}).`;
    }
  }
  return `Risk tolerance: T = ${show(tolerance)}, as recorded.`;
}

// σ: from T, the clip bound, ε and the number of examples.
function explainStd(cell, context) {
  const { tolerance, std, epsilon, examples } = cell;
  if (tolerance === null || !epsilon) {
    return `${context.label} sets σ without looking at attributes: σ = ${show(std)}.`;
  }
  const floor = context.noise_floor;
  const floored = floor !== null && tolerance < floor;
  const inside = floored ? floor : tolerance;
  const note = floored ? ` The floor β = ${show(floor)} holds, as T is below it.` : "";
  const clip = context.l2_norm_clip;
  if (clip !== null && examples) {
    const expected = (2 * clip * Math.sqrt(inside)) / (epsilon * examples);
    if (close(expected, std)) {
      return `Noise: σ = 2C·√${floored ? "β" : "T"} / (ε·|D|) = 2·${show(clip)}·√`
        + `${show(inside)} / (${show(epsilon)}·${show(examples)}) = ${show(std)}.${note}`;
    }
  }
  const sensitivity = (std * epsilon) / Math.sqrt(inside);
  return `Noise: σ = Δ·√${floored ? "β" : "T"} / ε = ${show(sensitivity)}·√`
    + `${show(inside)} / ${show(epsilon)} = ${show(std)}; Δ is the sensitivity that`
    + ` “${context.sensitivity ?? "the mechanism"}” states.${note}`;
}

// What the data could have moved, and how the others of the round compare.
function explainComparison(cell, context, cohort) {
  const { ratio, tolerance, std } = cell;
  const parts = [];
  if (context.mechanism === "fedsva" && tolerance !== null && ratio !== null) {
    const floor = context.noise_floor ?? 0;
    const at = (r) =>
      std * Math.sqrt(Math.max(tolerance - ratio + r, floor) / Math.max(tolerance, floor));
    parts.push(`With R = 0 the same upload would have got σ = ${show(at(0))}, with R = 1`
      + ` σ = ${show(at(1))}: what the data says moves the noise by at most`
      + ` ${percent(at(1) / at(0) - 1)}.`);
  }
  const middle = median(cohort.map((one) => one.std));
  if (cohort.length > 1 && middle) {
    const times = std / middle;
    const rank = 1 + cohort.filter((one) => one.std > std).length;
    parts.push(`Among the ${cohort.length} uploads of the round it is number ${rank} by`
      + ` noise, ${show(times, 3)} times the median.`);
    const size = median(cohort.map((one) => one.examples));
    if (size && cell.examples && Math.abs(times - 1) > 0.005) {
      const few = size / cell.examples;
      parts.push(close(few, 1)
        ? `It holds as many examples as the median client (${show(size)}), so the`
          + " difference does not come from the amount of data."
        : `It holds ${show(cell.examples)} examples, the median client ${show(size)}: that`
          + ` alone is a factor of ${show(few, 3)} where noise falls with |D|, and`
          + ` ${show(times / few, 3)} is left for the rest.`);
    }
  }
  return parts.length ? parts.join(" ") : null;
}

function explainGuarantee(cell, context) {
  if (cell.epsilon === null) return "No finite guarantee comes with this upload.";
  let text = `Claimed for this upload: ε = ${show(cell.epsilon)}, δ′ = ${show(cell.delta)}.`;
  const { ratio, delta } = cell;
  if (context.mechanism === "fedsva" && ratio !== null && context.delta !== null) {
    const expected = 1.25 * Math.exp(-ratio / 2) * context.delta;
    if (close(expected, delta)) {
      text += ` δ′ = 1.25·e^(−R/2)·δ = 1.25·${show(Math.exp(-ratio / 2))}·`
        + `${show(context.delta)}.`;
    }
  }
  if (context.sensitivity === "paper") {
    text += " The claim is nominal: it rests on a sensitivity of 2C/|D|, which clipping"
      + " the batch's mean gradient does not prove.";
  }
  return text;
}

// Returns {title, lead, coalitions: [[name, accuracy]], steps: [text]}.
function explain(cell, context, cohort) {
  const title = `Why did client ${cell.client} add this much noise in round ${cell.round}?`;
  const count = cell.psi.length;
  const coalitions = cell.utilities.map((value, mask) =>
    [coalitionName(mask, count, context.private_attribute), percent(value)]);
  if (!cell.std) {
    return { title: `Client ${cell.client} in round ${cell.round}`, coalitions,
      lead: `It added no noise: ${context.label} sent the upload as it was.`,
      steps: [explainGuarantee(cell, context)] };
  }
  const whole = cell.l2 === null ? "" : `; the whole noise vector has L2 norm ${show(cell.l2)}`;
  return {
    title,
    lead: `It added Gaussian noise of σ = ${show(cell.std)} to every weight${whole}.`,
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
