"use strict";
// What the pages do beyond their HTML: cells that are links, parts that move, lists that filter, a chart.

const all = (selector, root = document) => [...root.querySelectorAll(selector)];

// The matrix: one cell takes part in the order of Tab, arrows move it, Enter opens it.
function openMatrix(matrix) {
  const heads = [...matrix.tHead.rows[1].cells].map((head) => head.dataset.of);
  const told = document.getElementById("told");
  const words = new Map(all(".legend tr tr td").map((cell) => [look(cell), cell.closest("table").closest("td").nextElementSibling.textContent]));

  function look(cell) {
    const name = cell.getAttributeNames().find((one) => one.length === 1);
    return name || (cell.textContent ? "PASS" : "");
  }
  function placeOf(cell) {
    const row = cell.parentNode.cells[0].dataset.at;
    const column = heads[cell.cellIndex];
    return row && column ? [column, row] : null;
  }
  function tell(cell) {
    const place = placeOf(cell);
    if (!place) return;
    const [column, row] = place;
    const what = look(cell) === "n" ? `never run; rungs ${cell.textContent}` : cell.textContent ? says(cell) : "never run";
    const line = `${row} on ${column}: ${what}`;
    cell.title = line;
    cell.setAttribute("aria-label", line);
    told.textContent = line;
  }
  function says(cell) {
    const shades = { PASS: [1, 1], i: [2, 1], j: [3, 1], k: [4, 1], u: [1, 0], v: [2, 0], w: [3, 0], x: [4, 0] };
    const shade = shades[look(cell)];
    if (shade) return `PASS, ${shade[1] ? "exact, " : ""}within ${shade[0]}/4 of its limit${cell.textContent.slice(1) && ` ${cell.textContent.slice(1)}`}`;
    return words.get(look(cell)) || cell.textContent;
  }
  function addressOf(cell) {
    const place = cell && placeOf(cell);
    return place && `/cell/${place.join("/").split("/").map(encodeURIComponent).join("/")}`;
  }
  function open(cell, aside) {
    const address = addressOf(cell);
    if (!address) return;
    if (aside) window.open(address, "_blank", "noopener");
    else location.assign(address);
  }
  function move(from, to) {
    if (!to) return;
    from.tabIndex = -1;
    to.tabIndex = 0;
    to.focus();
    tell(to);
  }
  // Rows without cells, which name a kernel, are stepped over.
  function beside(cell, down, right) {
    if (right) return nextCell(cell, right);
    for (let at = cell.parentNode.rowIndex + down; matrix.rows[at]; at += down) {
      const there = matrix.rows[at].cells[cell.cellIndex];
      if (there && there.tagName === "TD") return there;
    }
    return null;
  }
  function nextCell(cell, right) {
    const there = cell.parentNode.cells[cell.cellIndex + right];
    return there && there.tagName === "TD" ? there : null;
  }
  const steps = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] };

  const first = matrix.querySelector("td");
  if (first) first.tabIndex = 0;
  matrix.addEventListener("click", (event) => {
    const cell = event.target.closest("td");
    if (cell) open(cell, event.ctrlKey || event.metaKey);
  });
  matrix.addEventListener("mouseover", (event) => { const cell = event.target.closest("td"); if (cell) tell(cell); });
  matrix.addEventListener("focusin", (event) => { const cell = event.target.closest("td"); if (cell) tell(cell); });
  matrix.addEventListener("keydown", (event) => {
    const cell = event.target.closest("td");
    if (!cell) return;
    const row = cell.parentNode;
    if (event.key === "Enter") return open(cell, event.ctrlKey);
    if (steps[event.key]) move(cell, beside(cell, ...steps[event.key]));
    else if (event.key === "Home") move(cell, row.cells[1]);
    else if (event.key === "End") move(cell, row.cells[row.cells.length - 1]);
    else return;
    event.preventDefault();
  });
}

// The parts of a page that move come as the page's own HTML; what has the focus keeps it.
function watch(source) {
  const events = new EventSource(`/events/${source}`);
  events.addEventListener("parts", (event) => {
    for (const [id, html] of Object.entries(JSON.parse(event.data))) {
      const part = document.getElementById(id);
      if (!part) continue;
      const focused = part.contains(document.activeElement) && document.activeElement.getAttribute("href");
      part.innerHTML = html;
      if (focused) all("a", part).find((link) => link.getAttribute("href") === focused)?.focus();
    }
    document.body.dataset.live = String(Number(document.body.dataset.live || 0) + 1);
  });
  addEventListener("pagehide", () => events.close());
}

// The charts' script is large: it comes when there is something to draw, and after the page is there.
function draw(charts) {
  const script = document.createElement("script");
  script.src = "/plotly.js";
  script.addEventListener("load", () => charts.forEach((chart) => {
    if (chart.dataset.history) plotHistory(chart, JSON.parse(chart.dataset.history));
    else plotTimes(chart, JSON.parse(chart.dataset.times));
  }));
  document.head.append(script);
}

function plotTimes(chart, rows) {
  const series = [...new Set(rows.map((row) => `${row.shape} ${row.build} ${row.device}`))];
  const traces = series.map((name) => {
    const mine = rows.filter((row) => `${row.shape} ${row.build} ${row.device}` === name);
    return {
      name, x: mine.map((row) => row.finished), y: mine.map((row) => row.median_us), mode: "lines+markers", type: "scatter",
      error_y: { type: "data", symmetric: false, array: mine.map((row) => row.p90_us - row.median_us), arrayminus: mine.map((row) => row.median_us - row.p10_us) },
      text: mine.map((row) => `${row.gb_per_s.toPrecision(3)} GB/s, source ${row.source.slice(0, 8)}`),
      hovertemplate: "%{y:.4g} µs<br>%{x}<br>%{text}<extra></extra>",
    };
  });
  show(chart, traces, "µs a pass");
}

function plotHistory(chart, rows) {
  const builds = [...new Set(rows.map((row) => row.build))];
  const marks = { exact: "circle", default: "diamond" };
  const traces = builds.map((build) => {
    const mine = rows.filter((row) => row.build === build);
    return {
      name: build, x: mine.map((row) => row.finished), y: mine.map((row) => row.margin), mode: "markers", type: "scatter",
      text: mine.map((row) => `${row.verdict} ${row.shape} ${row.family}, source ${row.source.slice(0, 8)}, ${row.device} ${row.driver}`),
      hovertemplate: "%{y:.3g} of the limit<br>%{x}<br>%{text}<extra></extra>",
      marker: {
        size: 9, color: mine.map((row) => (row.verdict === "PASS" ? "#4a90c8" : "#b3261e")),
        symbol: mine.map((row) => (row.verdict === "PASS" ? marks[build] || "square" : "x") + (row.old ? "-open" : "")),
      },
    };
  });
  const edge = { type: "line", xref: "paper", x0: 0, x1: 1, y0: 1, y1: 1, line: { color: "#b3261e", width: 1, dash: "dash" } };
  show(chart, traces, "error over limit", [edge]);
}

function show(chart, traces, title, shapes = []) {
  const ink = getComputedStyle(document.body).color;
  const line = getComputedStyle(document.body).getPropertyValue("--line");
  window.Plotly.newPlot(chart, traces, {
    height: 270, margin: { t: 10, r: 10, b: 40, l: 55 }, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { color: ink }, xaxis: { type: "date", gridcolor: line }, legend: { orientation: "h", y: 1.15 }, showlegend: true,
    yaxis: { title: { text: title }, rangemode: "tozero", gridcolor: line }, shapes,
  }, { displaylogo: false, responsive: true, modeBarButtonsToRemove: ["select2d", "lasso2d"] });
}

function start() {
  const matrix = document.getElementById("matrix");
  if (matrix) openMatrix(matrix);
  const live = document.querySelector("[data-live]");
  if (live) watch(live.dataset.live);
  const charts = all(".chart");
  if (charts.length) requestAnimationFrame(() => setTimeout(() => draw(charts)));
  const filter = document.getElementById("filter");
  if (filter) all("select", filter).forEach((list) => list.addEventListener("change", () => filter.requestSubmit()));
}

start();
