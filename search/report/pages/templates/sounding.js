"use strict";
// The handles of the sounding: tokens, a size, and a depth other than the best. Python wrote every number.
(() => {
  // How much deeper than the best the other depth is; it stays where the size or the tokens change.
  let factor = 0.5;
  const nearest = (values, off) => {
    const all = values.map(off);
    return all.indexOf(Math.min(...all));
  };
  const layers = (depth) => depth + (depth === 1 ? " layer" : " layers");
  const sentence = (stop, other) => {
    const best = stop.depths[stop.bestIndex];
    const start = `At ${stop.size} parameters the best depth is ${stop.best}, ${stop.basis}.`;
    if (other === best) return `${start} This depth costs nothing.`;
    const instead = other.milliseconds
      ? `${other.milliseconds} ms a token instead of ${best.milliseconds}` : "the time of a token not measured";
    const times = best.milliseconds && instead;
    const costs = [other.nats && `${other.nats} nats`, other.compute && `${other.compute} times the compute`, times];
    const told = costs.filter(Boolean).join("; ") || "not known";
    return `${start} The price of ${layers(other.depth)} instead: ${told}.`;
  };

  const sound = (figure) => {
    const stops = JSON.parse(figure.querySelector(".stops").textContent)
      .map(([size, place, best, basis, bestIndex, depths]) => ({
        size, place, best, basis, bestIndex,
        depths: depths.map(([depth, nats, compute, milliseconds]) => ({depth, nats, compute, milliseconds})),
      }));
    const handle = figure.querySelector(".handle"), reading = handle.querySelector("output");
    const [sizes, depths] = handle.querySelectorAll("input");
    const [sizeShown, depthShown] = handle.querySelectorAll("b");
    const plot = figure.querySelector(".plot"), drawing = plot.querySelector("svg");
    const add = (kind, looks) => {
      const element = drawing.appendChild(document.createElementNS(drawing.namespaceURI, kind));
      for (const [name, value] of Object.entries(looks)) element.setAttribute(name, value);
      return element;
    };
    const line = add("line", {class: "at", y2: "100%"}), diamond = add("svg", {class: "other", overflow: "visible"});
    diamond.appendChild(document.createElementNS(drawing.namespaceURI, "path")).setAttribute("d", "M0-8 8 0 0 8-8 0Z");
    const {x: [least, most], y: [low, high]} = JSON.parse(plot.dataset.axes);
    const sizeAt = (place) => Math.log(least) + place * Math.log(most / least);

    const show = () => {
      const stop = stops[sizes.value], other = stop.depths[depths.value];
      for (const name of ["x1", "x2"]) line.setAttribute(name, 100 * stop.place + "%");
      diamond.setAttribute("x", 100 * stop.place + "%");
      diamond.setAttribute("y", 100 * (1 - Math.log(other.depth / low) / Math.log(high / low)) + "%");
      sizeShown.textContent = stop.size;
      depthShown.textContent = layers(other.depth);
      sizes.setAttribute("aria-valuetext", `${stop.size} parameters, best depth ${stop.best}`);
      depths.setAttribute("aria-valuetext", layers(other.depth));
      reading.textContent = sentence(stop, other);
    };
    const move = () => {
      const stop = stops[sizes.value], best = stop.depths[stop.bestIndex].depth;
      depths.max = stop.depths.length - 1;
      depths.value = nearest(stop.depths, ({depth}) => depth === best ? 1e9 : Math.abs(Math.log(depth / best / factor)));
      show();
    };
    const to = (size) => {
      sizes.value = nearest(stops, ({place}) => Math.abs(sizeAt(place) - size));
      move();
    };
    sizes.addEventListener("input", move);
    depths.addEventListener("input", () => {
      const stop = stops[sizes.value];
      factor = stop.depths[depths.value].depth / stop.depths[stop.bestIndex].depth;
      show();
    });
    plot.addEventListener("click", (event) => {
      const box = drawing.getBoundingClientRect();
      to(sizeAt((event.clientX - box.left) / box.width));
    });
    handle.hidden = false;
    move();
    return {figure, to, size: () => sizeAt(stops[sizes.value].place)};
  };
  const sounded = [...document.querySelectorAll("figure.sounding")].map(sound);

  const tokens = document.querySelector(".horizons");
  if (!tokens) return;
  const chosen = tokens.querySelector("input"), shown = tokens.querySelector("b");
  let current = sounded[chosen.value];
  const change = () => {
    const size = current.size();
    current = sounded[chosen.value];
    for (const {figure} of sounded) figure.hidden = figure !== current.figure;
    shown.textContent = current.figure.dataset.horizon;
    chosen.setAttribute("aria-valuetext", current.figure.dataset.horizon);
    current.to(size);
  };
  chosen.addEventListener("input", change);
  tokens.hidden = false;
  change();
})();
