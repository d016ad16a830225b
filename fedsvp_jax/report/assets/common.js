// Draws every plot, writes every CSV, and wires the page's plain controls.
"use strict";

const PAGE = JSON.parse(document.getElementById("data").textContent);

// A number for reading: four significant digits, a dash for what is unknown.
function show(value, digits = 4) {
  if (value === null || value === undefined) return "–";
  return String(Number(value.toPrecision(digits)));
}

// One field of a CSV. A leading sign or = in a text would run as a formula in a
// spreadsheet; an apostrophe before it keeps it a text.
function csvField(value) {
  if (value === null || value === undefined) return "";
  if (typeof value === "number") return String(value);
  const text = /^[=+\-@\t\r]/.test(value) ? "'" + value : String(value);
  return /[",\r\n]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text;
}

function csvText(columns) {
  const names = Object.keys(columns);
  const count = names.length ? columns[names[0]].length : 0;
  const lines = [names.map(csvField).join(",")];
  for (let i = 0; i < count; i += 1) {
    lines.push(names.map((name) => csvField(columns[name][i])).join(","));
  }
  return lines.join("\n") + "\n";
}

function download(name, text) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

const PLOTLY_CONFIG = {
  responsive: true,
  displaylogo: false,
  // The last one would send the plot's data to a server.
  modeBarButtonsToRemove: ["lasso2d", "select2d", "autoScale2d", "sendChartToCloud"],
  toImageButtonOptions: { format: "svg" },
};

// Downloads by plot id; cells.js adds the heat map's.
const DOWNLOADS = {};

for (const plot of PAGE.plots) {
  DOWNLOADS[plot.id] = () => plot.columns;
  const place = document.getElementById("plot-" + plot.id);
  if (place) {
    const config = structuredClone(PLOTLY_CONFIG);
    config.toImageButtonOptions.filename = plot.id;
    Plotly.newPlot(place, plot.spec.data, plot.spec.layout, config);
  }
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (!button) return;
  if (button.dataset.csv) {
    download(button.dataset.csv + ".csv", csvText(DOWNLOADS[button.dataset.csv]()));
  }
  if (button.hasAttribute("data-copy")) {
    const block = button.parentElement.querySelector("pre");
    getSelection().selectAllChildren(block);
    document.execCommand("copy"); // works from file://, where clipboard may not
    button.textContent = "Copied";
  }
});

// The accounting switch: shows the chosen method's curve and guarantees only.
for (const radio of document.querySelectorAll('input[name="accounting"]')) {
  radio.addEventListener("change", () => {
    const plot = PAGE.plots.find((one) => one.id === "epsilon");
    if (plot) {
      const names = [...new Set(plot.columns.accounting)];
      const visible = names.map((name) => !radio.value || name === radio.value);
      Plotly.restyle("plot-epsilon", { visible });
      Plotly.relayout("plot-epsilon", { "yaxis.autorange": true });
    }
    for (const row of document.querySelectorAll("tr[data-method]")) {
      row.hidden = Boolean(radio.value) && row.dataset.method !== radio.value;
    }
  });
}
