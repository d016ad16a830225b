// The heat map clients × rounds, its keyboard, and the panel that explains a cell.
"use strict";

const MAP = document.getElementById("cells");
const FIELDS = [
  ["contribution_ratio", "contribution ratio R"],
  ["noise_std", "noise σ"],
  ["step_noise_std", "noise σ per local step"],
  ["noise_l2", "noise L2 norm"],
  ["risk_tolerance", "risk tolerance T"],
  ["epsilon", "ε of the upload"],
  ["delta", "δ′ of the upload"],
  ["num_examples", "examples"],
];

function startCells() {
  const columns = PAGE.cells;
  const count = columns.round.length;
  const rounds = [...new Set(columns.round)].sort((a, b) => a - b);
  const clients = [...new Set(columns.client)].sort((a, b) => a - b);
  const rowOf = new Map(clients.map((client, i) => [client, i]));
  const columnOf = new Map(rounds.map((round, i) => [round, i]));
  const indexOf = new Map(); // "client,round" -> index into the columns
  for (let i = 0; i < count; i += 1) {
    indexOf.set(columns.client[i] + "," + columns.round[i], i);
  }

  function cellAt(i) {
    return {
      client: columns.client[i], round: columns.round[i],
      ratio: columns.contribution_ratio[i], released: columns.released_ratio[i],
      sensitivity: columns.sensitivity[i], tolerance: columns.risk_tolerance[i],
      std: columns.noise_std[i], stepStd: columns.step_noise_std[i], l2: columns.noise_l2[i],
      epsilon: columns.epsilon[i], delta: columns.delta[i],
      examples: columns.num_examples[i],
      psi: columns.shapley_values.map((v) => v[i]).filter((v) => v !== null),
      utilities: columns.utilities.map((v) => v[i]).filter((v) => v !== null),
    };
  }

  function grid(values) {
    const rows = clients.map(() => new Array(rounds.length).fill(null));
    for (let i = 0; i < count; i += 1) {
      rows[rowOf.get(columns.client[i])][columnOf.get(columns.round[i])] = values(i);
    }
    return rows;
  }

  function hoverText(i) {
    const cell = cellAt(i);
    const psi = cell.psi.map((v, a) => `ψ${a} ${show(v)}`).join(", ");
    return `${clientName(cell.client, PAGE.context)}, round ${cell.round}`
      + (psi ? `<br>${psi}` : "")
      + `<br>R ${show(cell.ratio)}, T ${show(cell.tolerance)}`
      + (cell.stepStd ? `<br>σ per local step ${show(cell.stepStd)}`
        : `<br>σ ${show(cell.std)}`) + `, ε ${show(cell.epsilon)}, δ′ ${show(cell.delta)}`;
  }

  function element(tag, text) {
    const made = document.createElement(tag);
    if (text !== undefined) made.textContent = text;
    return made;
  }

  let selected = -1;

  function select(i) {
    selected = i;
    const cell = cellAt(i);
    const cohort = [];
    for (let k = 0; k < count; k += 1) {
      if (columns.round[k] === cell.round) cohort.push(cellAt(k));
    }
    const words = explain(cell, PAGE.context, cohort);
    const panel = document.getElementById("why");
    panel.replaceChildren(element("h3", words.title), element("p", words.lead));
    if (words.coalitions.length) {
      const table = element("table");
      table.append(element("caption",
        "Validation accuracy of this client after training on each coalition of attributes"));
      for (const [name, accuracy] of words.coalitions) {
        const row = table.insertRow();
        row.append(element("td", name), element("td", accuracy));
        row.lastChild.className = "num";
      }
      panel.append(table);
    }
    const list = element("ol");
    for (const step of words.steps) list.append(element("li", step));
    panel.append(list);
    document.getElementById("cell-client").value = cell.client;
    document.getElementById("cell-round").value = cell.round;
    mark(cell);
  }

  function mark(cell) {
    Plotly.relayout(MAP, { shapes: [{
      type: "rect", xref: "x", yref: "y", line: { color: "#D55E00", width: 3 },
      x0: columnOf.get(cell.round) - 0.5, x1: columnOf.get(cell.round) + 0.5,
      y0: rowOf.get(cell.client) - 0.5, y1: rowOf.get(cell.client) + 0.5,
    }] });
  }

  // Left and right: the previous and next upload of the same client. Up and down: the
  // upload of the client above or below that is nearest in time.
  function neighbour(key) {
    const here = cellAt(selected);
    const sideways = key === "ArrowLeft" || key === "ArrowRight";
    const sign = key === "ArrowRight" || key === "ArrowUp" ? 1 : -1;
    let best = -1;
    let bestCost = Infinity;
    for (let i = 0; i < count; i += 1) {
      const across = columnOf.get(columns.round[i]) - columnOf.get(here.round);
      const up = rowOf.get(columns.client[i]) - rowOf.get(here.client);
      const ahead = sign * (sideways ? across : up);
      const aside = Math.abs(sideways ? up : across);
      const cost = ahead * (rounds.length + 1) + aside;
      if (ahead > 0 && !(sideways && aside) && cost < bestCost) {
        best = i;
        bestCost = cost;
      }
    }
    return best;
  }

  function drawMap(field) {
    const names = PAGE.context.clients;
    const title = FIELDS.find(([name]) => name === field)[1];
    const ticks = (values, most = 10) => {
      const step = Math.max(1, Math.ceil(values.length / most));
      const at = values.map((_, i) => i).filter((i) => i % step === 0);
      return { tickvals: at, ticktext: at.map((i) => String(values[i])) };
    };
    const known = columns[field].filter((value) => value !== null);
    const [least, most] = known.reduce(
      ([low, high], v) => [Math.min(low, v), Math.max(high, v)], [Infinity, -Infinity]);
    const trace = {
      type: "heatmap", z: grid((i) => columns[field][i]), text: grid(hoverText),
      hoverinfo: "text", hoverongaps: false, colorscale: "Cividis",
      ...(least === most && most > 0 ? { zmin: 0, zmax: 2 * most } : {}),
      colorbar: { title: { text: title, side: "right" }, thickness: 14 },
      xgap: rounds.length > 150 ? 0 : 1, ygap: clients.length > 80 ? 0 : 1,
    };
    const layout = {
      height: Math.min(720, Math.max(320, 120 + (names.length ? 16 : 9) * clients.length)),
      margin: { l: 56, r: 8, t: 40, b: 48 },
      font: { family: "system-ui, sans-serif", size: 12, color: "#1b1f24" },
      plot_bgcolor: "#eef1f4", paper_bgcolor: "#ffffff",
      xaxis: { title: { text: "round" }, showgrid: false, zeroline: false,
        ...ticks(rounds) },
      yaxis: { title: { text: "client", standoff: 6 }, showgrid: false, zeroline: false,
        automargin: true,
        ...ticks(clients.map((one) => names[one] ?? one), names.length ? 40 : 10) },
    };
    const config = structuredClone(PLOTLY_CONFIG);
    config.toImageButtonOptions.filename = field;
    return Plotly.react(MAP, [trace], layout, config);
  }

  DOWNLOADS.cells = () => {
    const flat = {};
    for (const [name, values] of Object.entries(columns)) {
      if (Array.isArray(values[0])) {
        values.forEach((one, a) => { flat[`${name}_${a}`] = one; });
      } else if (values.length) {
        flat[name] = values;
      }
    }
    return flat;
  };

  const menu = document.getElementById("cell-field");
  for (const [name, title] of FIELDS) {
    const noise = name.includes("noise"); // a map of zeros would show no noise
    if (columns[name].some((value) => (noise ? value : value !== null))) {
      menu.add(new Option(title, name));
    }
  }
  menu.addEventListener("change", () => {
    drawMap(menu.value).then(() => mark(cellAt(selected)));
  });

  document.getElementById("cell-form").addEventListener("submit", (event) => {
    event.preventDefault();
    const client = Number(document.getElementById("cell-client").value);
    const round = Number(document.getElementById("cell-round").value);
    const index = indexOf.get(client + "," + round);
    if (index !== undefined) {
      select(index);
    } else {
      document.getElementById("why").replaceChildren(element("p",
        `Client ${client} did not upload in round ${round}.`));
    }
  });

  MAP.addEventListener("keydown", (event) => {
    if (!event.key.startsWith("Arrow")) return;
    event.preventDefault();
    const next = neighbour(event.key);
    if (next >= 0) select(next);
  });

  if (!menu.options.length) return;
  drawMap(menu.value).then(() => {
    MAP.on("plotly_click", (event) => {
      const point = event.points[0];
      const [row, column] = point.pointIndex ?? point.pointNumber;
      const index = indexOf.get(clients[row] + "," + rounds[column]);
      if (index !== undefined) select(index);
    });
    // Start with the upload that got the most noise.
    const noise = columns.noise_std.map((std, i) => std || columns.step_noise_std[i]);
    select(noise.reduce((most, std, i) => (std > noise[most] ? i : most), 0));
  });
}

startCells();
