"use strict";
// What the pages do beyond their HTML: cells that are links, numbers that move, a chart of margins.

const matrix = document.getElementById("matrix");
if (matrix) {
  const columns = [...matrix.tHead.rows[0].cells].map((head) => head.dataset.of);
  const address = (cell) => {
    const at = cell.parentNode.cells[0].dataset.at;
    const [device, backend] = (columns[cell.cellIndex] || "").split("/");
    return device && at && `/cell/${[device, backend, ...at.split("/")].map(encodeURIComponent).join("/")}`;
  };
  const go = (cell) => { const to = cell && cell.tagName === "TD" && address(cell); if (to) location.href = to; };
  matrix.addEventListener("click", (event) => go(event.target.closest("td")));
  // One cell takes part in the order of Tab; the arrows move it.
  const first = matrix.querySelector("td");
  if (first) first.tabIndex = 0;
  const steps = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] };
  matrix.addEventListener("keydown", (event) => {
    const cell = event.target.closest("td");
    if (!cell) return;
    if (event.key === "Enter") return go(cell);
    const step = steps[event.key];
    if (!step) return;
    event.preventDefault();
    const row = matrix.rows[cell.parentNode.rowIndex + step[0]];
    const next = row && row.cells[cell.cellIndex + step[1]];
    if (!next || next.tagName !== "TD") return;
    cell.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  });
}

const text = (name, content, className) => {
  const made = document.createElement(name);
  made.textContent = content;
  if (className) made.className = className;
  return made;
};

const verdicts = (row) => Object.entries(row.verdicts).flatMap(([word, count]) => [
  text("span", word, `v ${word.toLowerCase()}`), document.createTextNode(` ${count.toLocaleString("en")} `),
]);

function showCampaigns(rows) {
  const body = document.querySelector("#campaigns tbody");
  body.replaceChildren(...rows.map((row) => {
    const line = document.createElement("tr");
    line.dataset.id = row.id;
    const link = text("a", row.id);
    link.href = `/campaign/${row.id}`;
    const bar = document.createElement("progress");
    bar.max = row.jobs || 1;
    bar.value = row.done;
    const state = row.paused_at ? "paused" : row.cancelled_at ? "cancelled" : row.open ? "open" : "closed";
    const cells = [[link], [bar, ` ${state}`], [`${row.done.toLocaleString("en")} of ${row.jobs.toLocaleString("en")}`],
      verdicts(row), [row.created_at]];
    line.append(...cells.map((parts) => { const cell = document.createElement("td"); cell.append(...parts); return cell; }));
    return line;
  }));
}

if (document.querySelector("[data-live]")) {
  const events = new EventSource("/events");
  events.addEventListener("overview", (event) => showCampaigns(JSON.parse(event.data).campaigns));
  addEventListener("pagehide", () => events.close());
}

const chart = document.getElementById("chart");
if (chart) {
  const history = JSON.parse(chart.dataset.history).filter((row) => typeof row.margin === "number");
  addEventListener("load", () => {
    if (!window.Plotly || !history.length) return;
    window.Plotly.newPlot(chart, [{
      x: history.map((row) => row.finished), y: history.map((row) => row.margin), mode: "markers",
      text: history.map((row) => `${row.verdict} ${row.shape} ${row.family} ${row.build}`),
      marker: { symbol: history.map((row) => (row.verdict === "PASS" ? "circle-open" : "x")) },
    }], { height: 260, margin: { t: 10, r: 10 }, yaxis: { title: { text: "error over limit" }, rangemode: "tozero" } },
    { displaylogo: false, responsive: true });
  });
}
