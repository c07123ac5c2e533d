"use strict";
(() => {
  const read = (id) => JSON.parse(document.getElementById(id).textContent);
  const charts = read("charts"), hues = read("palette");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const narrow = matchMedia("(max-width: 560px)");

  const channels = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16)).join(",");
  const bands = Object.fromEntries(Object.entries(hues).map(([a, b]) => [channels(a), channels(b)]));
  const recolour = (_, value) => {
    if (typeof value !== "string") return value;
    if (hues[value]) return hues[value];
    const band = value.match(/^rgba\((\d+,\d+,\d+),(.*)\)/);
    return band && bands[band[1]] ? "rgba(" + bands[band[1]] + "," + band[2] + ")" : value;
  };

  const draw = (plot) => {
    const source = JSON.stringify(charts[plot.dataset.chart]);
    const {data, layout} = JSON.parse(source, dark.matches ? recolour : undefined);
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    Object.assign(layout, {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: {family: style.getPropertyValue("--sans"), size: narrow.matches ? 12 : 13, color: colour("--ink")},
    });
    for (const axis of [layout.xaxis, layout.yaxis]) {
      Object.assign(axis, {gridcolor: colour("--rule"), linecolor: colour("--soft"), showline: true, ticks: "outside", tickcolor: colour("--rule")});
    }
    Object.assign(layout.hoverlabel, {bgcolor: colour("--card"), bordercolor: colour("--rule"), font: {color: colour("--ink")}});
    if (narrow.matches) { layout.margin.l = 46; layout.margin.r = 6; }
    plot.style.height = "";
    const height = plot.clientHeight, settings = {responsive: true, displaylogo: false, displayModeBar: false};
    Plotly.react(plot, data, layout, settings).then(() => {
      // A legend of one line is what the height allows for; a longer one is not paid for by the figure.
      const legend = plot.querySelector(".legend")?.getBoundingClientRect().height ?? 0;
      if (legend > 40) { plot.style.height = height + legend - 40 + "px"; Plotly.Plots.resize(plot); }
    });
    plot.dataset.drawn = "yes";
  };

  // Many trials make many lines: a figure is drawn when it comes near the window.
  const near = new IntersectionObserver((entries) => entries.forEach(({target, isIntersecting}) => {
    if (isIntersecting) { near.unobserve(target); draw(target); }
  }), {rootMargin: "600px"});
  const plots = [...document.querySelectorAll(".plot")];
  plots.forEach((plot) => near.observe(plot));
  const redraw = () => plots.filter((plot) => plot.dataset.drawn).forEach(draw);
  dark.addEventListener("change", redraw);
  narrow.addEventListener("change", redraw);
  addEventListener("beforeprint", () => plots.filter((plot) => !plot.dataset.drawn).forEach(draw));
})();
