// "Why did client 17 add this much noise in round 40?", in words made from the
// upload's own numbers. Pure: cell and context in, a list of paragraphs out.
"use strict";

const SUM_TOO_SMALL = 1e-6; // |Σψ| below this has no ratio: METHODS.md, section 1
const CLOSE = 1e-3; // numbers were rounded to six digits on their way here

function percent(value) {
  return value === null ? "–" : show(100 * value, 4) + "%";
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
  if (mask === 0) return "none of it (∅)";
  if (mask === 2 ** count - 1) return "all of it";
  const members = [];
  for (let a = 0; a < count; a += 1) {
    if (mask & (1 << a)) members.push(attributeName(a, context));
  }
  return members.join(" + ");
}

// The R that the noise was made from: null where the mechanism looks at none.
function usedRatio(cell, context) {
  if (cell.tolerance === null) return null;
  if (context.contribution_release === "worst_case") return 1;
  return cell.released ?? cell.ratio;
}

// R: from the Shapley values, and what was done to it.
function explainRatio(cell, context) {
  const { psi, ratio } = cell;
  const used = usedRatio(cell, context);
  if (ratio === null) {
    return used === null ? null
      : `The noise was made from R = ${show(used)}, whatever the data says.`;
  }
  const changed = used !== null && !near(used, ratio)
    ? ` The noise was made from R = ${show(used)}, as`
      + ` “${context.contribution_release}” released it.` : "";
  return explainShare(psi, ratio, context) + changed;
}

function explainShare(psi, ratio, context) {
  const p = context.private_attribute;
  if (!psi.length) {
    return `Its contribution ratio is R = ${show(ratio)}; no Shapley values were recorded.`;
  }
  const sum = psi.reduce((a, b) => a + b, 0);
  const values = psi.map((v, a) => `${attributeName(a, context)} ψ = ${show(v)}`);
  const start = `Shapley values share that accuracy out: ${values.join(", ")};`
    + ` together ${show(sum)}. `;
  if (Math.abs(sum) < SUM_TOO_SMALL) {
    return start + "The sum is too close to zero for a ratio to mean anything, so the"
      + ` most private answer stands in: R = ${show(ratio)}.`;
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
      + ` outside [0, 1]; it was clipped to R = ${show(ratio)}.`;
  }
  return start + `The file states R = ${show(ratio)}, while ${formula} = ${show(raw)}:`
    + " something other than the ratio of these values decided.";
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
    if (context.mechanism === "fedsva" && near(ratio + bonus, tolerance)) {
      return `Risk tolerance: T = R − ln δ² = ${show(ratio)} + ${end}`;
    }
    const x = Math.min(1, Math.max(-3, ratio / 2 - 1));
    if (context.mechanism === "fedsdp" && near(x + bonus, tolerance)) {
      return `Risk tolerance: T = clip(R/2 − 1, −3, 1) − ln δ² = ${show(x)} + ${end}`;
    }
  }
  return `Risk tolerance: T = ${show(tolerance)}, as recorded.`;
}

// σ: from T, the sensitivity and ε.
function explainStd(cell, context) {
  const { tolerance, std, epsilon, examples } = cell;
  if (tolerance === null || !epsilon) {
    const rests = cell.sensitivity ? ` on a sensitivity of ${show(cell.sensitivity)}` : "";
    return `${context.label} does not look at attributes: σ = ${show(std)}${rests}.`;
  }
  const floor = context.noise_floor;
  const floored = floor !== null && tolerance < floor;
  const inside = floored ? floor : tolerance;
  const letter = floored ? "β" : "T";
  const note = floored ? ` The floor β = ${show(floor)} holds, as T is below it.` : "";
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
    + ` = ${show(std)}; Δ is the sensitivity that “${context.sensitivity}” states.${note}`;
}

// What the data could have moved, and how the others of the round compare.
function explainComparison(cell, context, cohort) {
  const { tolerance, std } = cell;
  const ratio = usedRatio(cell, context);
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
      parts.push(near(few, 1)
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
  const { tolerance, delta } = cell;
  let text = `Claimed for this upload: ε = ${show(cell.epsilon)}, δ′ = ${show(delta)}`;
  const inside = tolerance === null ? null : Math.max(tolerance, context.noise_floor ?? 0);
  if (inside !== null && near(1.25 * Math.exp(-inside / 2), delta)) {
    text += ` = 1.25·e^(−${inside === tolerance ? "T" : "β"}/2)`;
  }
  text += ".";
  if (context.sensitivity === "paper") {
    text += " The claim is nominal: it rests on a sensitivity of 2C/|D|, which clipping"
      + " the batch's mean gradient does not prove.";
  }
  if (tolerance !== null && context.contribution_release === "none") {
    text += " The scale of the noise follows R, which private data decides and no noise"
      + " hides.";
  }
  return text;
}

// Returns {title, lead, coalitions: [[name, accuracy]], steps: [text]}.
function explain(cell, context, cohort) {
  const title = `Why did client ${cell.client} add this much noise in round ${cell.round}?`;
  const count = cell.psi.length;
  const coalitions = cell.utilities.map((value, mask) =>
    [coalitionName(mask, count, context), percent(value)]);
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
