"use strict";
// Draws the charts in the colours of the theme, and again when the theme changes.
const charts = JSON.parse(document.getElementById("charts").textContent);

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
}

function coloured(value) {
  if (typeof value === "string") return value.startsWith("@") ? colour(value.slice(1)) : value;
  if (Array.isArray(value)) return value.map(coloured);
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, coloured(inner)]));
}

function rows(columns) {
  const names = Object.keys(columns);
  return columns[names[0]].map((_, at) =>
    Object.fromEntries(names.map((name) => [name, columns[name][at]])));
}

function config() {
  const [text, dim, line] = [colour("text"), colour("dim"), colour("line")];
  return {
    background: "transparent",
    font: "system-ui, sans-serif",
    view: { stroke: null },
    axis: {
      labelColor: dim, titleColor: dim, gridColor: line, domainColor: line, tickColor: line,
      labelFontSize: 11.5,
    },
    legend: { labelColor: text, titleColor: dim, labelFontSize: 12 },
  };
}

function draw() {
  charts.forEach((chart, number) => {
    const box = document.getElementById("chart-" + number);
    const spec = {
      ...coloured(chart.spec),
      width: "container",
      height: chart.height,
      autosize: { type: "fit", contains: "padding" },
      data: { values: rows(chart.data) },
      config: config(),
    };
    // Without `ast` Vega makes functions of texts, which the page's policy forbids.
    vegaEmbed(box, spec, { actions: false, renderer: "canvas", ast: true }).catch((error) => {
      box.textContent = "This chart cannot be drawn: " + error.message;
    });
  });
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
draw();
