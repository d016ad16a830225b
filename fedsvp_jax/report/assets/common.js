// Draws every plot, writes every CSV, and wires the page's plain controls.
"use strict";

const PAGE = JSON.parse(document.getElementById("data").textContent);

// A number for reading: four significant digits, a dash for what is unknown.
function show(value, digits = 4) {
  if (value === null || value === undefined) return "–";
  const near = Number(value.toPrecision(digits));
  if (near === 0 || Math.abs(near) >= 1e-4) return String(near);
  return near.toExponential().replace(/-(\d)$/, "-0$1"); // 1e-05, as everywhere else
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

// A plot has the width of the screen in pixels, and paper is narrower.
const PAPER = 620;
function setWidths(change) {
  document.querySelectorAll(".js-plotly-plot").forEach(
    (plot) => Plotly.relayout(plot, change));
}
addEventListener("beforeprint", () => setWidths({ autosize: false, width: PAPER }));
addEventListener("afterprint", () => setWidths({ autosize: true, width: null }));

// Downloads by plot id; cells.js adds the heat map's.
const DOWNLOADS = {};

// plotly.js reads a subset of HTML in every string; this shows the text as it is.
function plain(text) {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}

// Lines of at most `width` characters, where words allow it.
function wrapped(text, width) {
  const lines = [""];
  for (const word of text.split(" ")) {
    if (lines.at(-1).length && lines.at(-1).length + word.length >= width) lines.push("");
    lines.push((lines.pop() + " " + word).trim());
  }
  return lines.map(plain).join("<br>");
}

// The table behind a plot: one row per point, with its curve's name.
function columnsOf(plot) {
  const join = (field) => plot.series.flatMap((one) => one[field].length ? one[field]
    : one.x.map(() => null));
  const columns = { series: plot.series.flatMap((one) => one.x.map(() => one.name)),
    [plot.x_title]: join("x"), [plot.y_title]: join("y") };
  if (plot.series.some((one) => one.lower.length)) {
    Object.assign(columns, { lower: join("lower"), upper: join("upper") });
  }
  return columns;
}

// A curve, and before it the two edges of its band where x counts rounds, or the line
// has no points.
function traces(series, byRound) {
  const [color, symbol, dash] = series.look;
  const { x, y, lower, upper } = series;
  const line = { type: "scatter", name: plain(series.name), x, y,
    mode: !symbol || (x.length > 1 && (byRound || x.length > 12)) ? "lines" : "lines+markers",
    line: { color, dash, width: 2 }, marker: { symbol, size: 8 } };
  if (!lower.length) return [line];
  if (!byRound && symbol) {
    const reach = (ends) => ends.map((end, i) => end === null ? null : Math.abs(end - y[i]));
    line.error_y = { type: "data", array: reach(upper), arrayminus: reach(lower),
      thickness: 1.5, width: 4 };
    return [line];
  }
  const edge = { type: "scatter", x, mode: "lines", line: { width: 0 }, hoverinfo: "skip",
    showlegend: false };
  const fill = { fill: "tonexty", fillcolor: color.slice(0, 7) + "24" };
  return [{ ...edge, y: lower }, { ...edge, ...fill, y: upper }, line];
}

function axis(plot, letter) {
  const values = plot.series.flatMap((one) => letter === "x" ? one.x
    : [...one.y, ...one.lower, ...one.upper]).filter((value) => value !== null);
  const spread = Math.max(...values) - Math.min(...values);
  const made = { title: { text: wrapped(plot[letter + "_title"], letter === "x" ? 60 : 34), standoff: 8 },
    automargin: true, gridcolor: "#e3e6ea", linecolor: "#8a929c", zeroline: false,
    ticks: "outside" };
  if (plot.log.includes(letter)) {
    made.type = "log";
    if (spread < 7 * Math.min(...values)) made.nticks = 6;
    else if (spread < 1000 * Math.min(...values)) made.dtick = "D2"; // 1, 2, 5, 10
  }
  if (plot.percent.includes(letter)) {
    made.tickformat = `.${spread && spread < 0.006 ? 2 : spread && spread < 0.06 ? 1 : 0}%`;
    Object.assign(made, { minallowed: -0.03, maxallowed: 1.03 });
  }
  if (letter === "x" && plot.x_title === "round" && Math.max(...values) <= 10) made.dtick = 1;
  return made;
}

function draw(plot) {
  const place = document.getElementById("plot-" + plot.id);
  const byRound = plot.x_title === "round";
  const names = plot.series.length > 1 ? plot.series : [];
  const perLine = Math.max(1, Math.floor(place.clientWidth
    / (60 + 7 * Math.max(1, ...names.map((one) => one.name.length)))));
  const lines = Math.ceil(names.length / perLine);
  const layout = {
    font: { family: "system-ui, sans-serif", size: 12, color: "#1b1f24" },
    paper_bgcolor: "#ffffff", plot_bgcolor: "#ffffff",
    margin: { l: 56, r: 12, t: 30, b: 48 },
    height: 320 + 20 * lines, xaxis: axis(plot, "x"), yaxis: axis(plot, "y"),
    hovermode: byRound ? "x unified" : "closest", hoverlabel: { namelength: -1 },
    showlegend: names.length > 0,
    legend: { orientation: "h", yref: "container", y: 0, yanchor: "bottom",
      traceorder: "normal" },
  };
  const config = structuredClone(PLOTLY_CONFIG);
  config.toImageButtonOptions.filename = plot.id;
  Plotly.newPlot(place, plot.series.flatMap((one) => traces(one, byRound)), layout, config);
}

for (const plot of PAGE.plots ?? []) {
  DOWNLOADS[plot.id] = () => columnsOf(plot);
  if (document.getElementById("plot-" + plot.id)) draw(plot);
}
for (const [id, columns] of Object.entries(PAGE.tables ?? {})) DOWNLOADS[id] = () => columns;

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

// A browser may break a line after each hyphen; a flag's name stays whole.
function keepFlags(root) {
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  const texts = [];
  while (walker.nextNode()) texts.push(walker.currentNode);
  for (const text of texts.filter((one) => one.data.includes("--"))) {
    text.replaceWith(...text.data.split(/(--\w[\w-]*)/).map((part, i) => {
      if (i % 2 === 0) return part;
      const flag = document.createElement("span");
      flag.className = "flag";
      flag.textContent = part;
      return flag;
    }));
  }
}
keepFlags(document.getElementById("main"));
