"use strict";
(() => {
  const tip = document.getElementById("tip");
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const NEAR = 36, STEPS = 2e4;

  // Beside a box, inside the window.
  const show = (text, box) => {
    tip.textContent = text;
    tip.hidden = false;
    const own = tip.getBoundingClientRect();
    const left = Math.min(box.right + 12, innerWidth - own.width - 8);
    const below = box.bottom + 12 + own.height < innerHeight;
    tip.style.left = Math.max(8, left) + "px";
    tip.style.top = Math.max(8, below ? box.bottom + 12 : box.top - own.height - 12) + "px";
  };
  const hide = () => { tip.hidden = true; };

  const count = (value) => {
    const [suffix, size] = [["T", 1e12], ["B", 1e9], ["M", 1e6], ["k", 1e3]].find(([, s]) => value >= s) ?? ["", 1];
    return +(value.toPrecision(3) / size).toFixed(3) + suffix;
  };
  const forms = {plain: (value) => String(+value.toPrecision(4)), fixed: (value) => value.toFixed(4), count};
  const read = ([low, high, log], place) => log ? low * (high / low) ** place : low + place * (high - low);

  // What is said of the marks, JSON by gzip in base64: `texts`, and by figure the series, points and lines.
  let data = null;
  const decode = async () => {
    const packed = Uint8Array.from(atob(document.getElementById("data").textContent), (letter) => letter.charCodeAt(0));
    const plain = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
    data = JSON.parse(await new Response(plain).text());
  };

  // What can be pointed at: points, and the corners of lines, which hold the values they were drawn from.
  const targetsOf = (plot) => {
    if (!data) return [];
    const axes = JSON.parse(plot.dataset.axes), own = data.figures[plot.dataset.figure];
    const points = all(".points > use", plot).map((element, index) => {
      const [note, ...values] = own.points[index];
      return {
        element, series: element.parentNode.dataset.s, note: data.texts[note], values: () => values,
        places: [[parseFloat(element.getAttribute("x")) / 100, parseFloat(element.getAttribute("y")) / 100]],
      };
    });
    const lines = all("path.line", plot).map((element, index) => {
      let [x, y] = [0, 0];
      const places = element.getAttribute("d").slice(1).split("l").map((pair) => {
        const [dx, dy] = pair.match(/-?\d+/g).map(Number);
        return [(x += dx) / STEPS, (y += dy) / STEPS];
      });
      const value = (axis, place) => axis[3] + " " + forms[axis[4]](read(axis, place));
      const values = (at) => element.closest(".mark") ? []
        : [value(axes.x, places[at][0]), value(axes.y, 1 - places[at][1])];
      return {element, series: element.parentNode.dataset.s, note: data.texts[own.lines[index]], values, places, line: true};
    });
    return [...points, ...lines];
  };
  const said = ({note, values}, at) => [note.replace(": ", "\n"), values(at).join(", ")].filter(Boolean).join("\n");

  // The table of a figure has a row for each point and each corner of a line; it is made when it is unfolded.
  const tabulate = (plot, place) => {
    const axes = JSON.parse(plot.dataset.axes), {series} = data.figures[plot.dataset.figure];
    const table = document.createElement("table"), [x, y] = [axes.x[3], axes.y[3]];
    const head = table.createTHead().insertRow(), body = table.createTBody();
    for (const name of ["mark", "of", x, y]) {
      const cell = head.appendChild(document.createElement("th"));
      cell.scope = "col";
      cell.textContent = name;
    }
    for (const target of targetsOf(plot)) target.places.forEach((_, at) => {
      const [first, ...others] = target.values(at), name = series[target.series], what = target.note.split(":")[0];
      if (first === undefined) return;
      const row = body.insertRow(), bare = (text, quantity) => text.startsWith(quantity + " ") ? text.slice(quantity.length + 1) : text;
      for (const text of [name, what === name ? "" : what, bare(first, x), others.map((one) => bare(one, y)).join(", ")])
        row.insertCell().textContent = text;
    });
    place.replaceChildren(table);
  };

  // The table of trials, which a heading sorts; values that are missing come last.
  const listTrials = (place) => {
    const table = document.createElement("table"), head = table.createTHead().insertRow(), body = table.createTBody();
    const fill = (rows) => body.replaceChildren(...rows.map((values) => {
      const row = document.createElement("tr");
      for (const value of values) row.insertCell().textContent = value ?? "";
      return row;
    }));
    data.heads.forEach((name, column) => {
      const cell = head.appendChild(document.createElement("th")), button = cell.appendChild(document.createElement("button"));
      cell.scope = "col";
      button.type = "button";
      button.textContent = name;
      button.addEventListener("click", () => {
        const down = cell.getAttribute("aria-sort") === "ascending";
        all("[aria-sort]", head).forEach((other) => other.removeAttribute("aria-sort"));
        cell.setAttribute("aria-sort", down ? "descending" : "ascending");
        const compare = (a, b) => typeof a === "number" ? a - b : String(a).localeCompare(String(b), "en", {numeric: true});
        fill(data.trials.toSorted((one, other) => {
          const [a, b] = [one[column], other[column]];
          return a === null || b === null ? (a === null) - (b === null) : (down ? -1 : 1) * compare(a, b);
        }));
      });
    });
    fill(data.trials);
    place.replaceChildren(table);
  };

  // A figure as a file of its own: the drawing with the looks that the page gives it, its title and its question.
  const LOOKS = ["fill", "stroke", "stroke-width", "stroke-dasharray", "opacity", "font-family", "font-size", "font-weight", "text-anchor", "vector-effect", "paint-order", "visibility"];
  const drawing = (figure, scale) => {
    const plot = figure.querySelector(".plot"), from = plot.querySelector("svg"), box = plot.getBoundingClientRect();
    const pad = getComputedStyle(plot), copy = from.cloneNode(true), style = getComputedStyle(document.body);
    const paint = (shown, made) => {
      const looks = getComputedStyle(shown);
      for (const name of LOOKS) made.style.setProperty(name, looks.getPropertyValue(name));
      // Such a line would keep its width where the whole drawing grows.
      if (looks.vectorEffect === "non-scaling-stroke") for (const name of ["stroke-width", "stroke-dasharray"])
        made.style.setProperty(name, looks.getPropertyValue(name).replace(/[\d.]+/g, (length) => scale * length));
      [...shown.children].forEach((child, at) => paint(child, made.children[at]));
    };
    const painted = (shown, made) => {
      paint(shown, made);
      for (const use of all("use", made)) inline(use);
      return made;
    };
    const inline = (use) => {
      const symbol = document.querySelector(use.getAttribute("href")).cloneNode(true), nested = document.createElementNS(from.namespaceURI, "svg");
      for (const name of ["x", "y"]) nested.setAttribute(name, use.getAttribute(name));
      nested.setAttribute("style", use.getAttribute("style") + ";overflow:visible");
      for (const open of all(".open", symbol)) open.setAttribute("style", "fill:none;stroke-width:1.8px");
      symbol.removeAttribute("id");
      nested.append(symbol);
      use.replaceWith(nested);
    };
    painted(from, copy);
    for (const pointed of all(".at, .other", copy)) pointed.remove();  // no data, and not in the legend
    const outer = document.createElementNS(from.namespaceURI, "svg"), parts = [];
    const edges = all("text", from).map((text) => text.getBoundingClientRect());
    const left = Math.min(0, ...edges.map((edge) => edge.left - box.left - 8));
    const width = Math.max(box.width, ...edges.map((edge) => edge.right - box.left + 8)) - left;
    const write = (text, x, y, font) => {
      const word = document.createElementNS(from.namespaceURI, "text");
      word.textContent = text;
      for (const [name, value] of Object.entries({style: `font:${font};fill:${style.color}`, x, y})) word.setAttribute(name, value);
      parts.push(word);
    };
    write(figure.querySelector("h3").textContent, 16, 24, "600 16px sans-serif");
    let [x, top] = [16, 44];
    for (const line of figure.querySelector(".question").textContent.match(new RegExp(`.{1,${Math.floor(box.width / 7)}}(\\s|$)`, "g"))) {
      write(line, 16, top, "12px sans-serif");
      top += 16;
    }
    for (const entry of all(".legend > *", figure)) {
      const shown = entry.querySelector("svg"), long = (shown ? 44 : 18) + 7 * entry.textContent.length;
      if (x > 16 && x + long > box.width) [x, top] = [16, top + 18];
      if (shown) {
        const mark = painted(shown, shown.cloneNode(true));
        for (const [name, value] of Object.entries({x, y: top - 10, width: 20, height: 14, overflow: "visible"})) mark.setAttribute(name, value);
        parts.push(mark);
      }
      write(entry.textContent, x + (shown ? 26 : 0), top + 1, "12px sans-serif");
      x += long;
    }
    const height = box.height + (top += 10);
    const back = document.createElementNS(from.namespaceURI, "rect");
    for (const [name, value] of Object.entries({x: left, width, height, fill: getComputedStyle(figure).backgroundColor})) back.setAttribute(name, value);
    const inside = from.getBoundingClientRect();
    for (const [name, value] of Object.entries({x: parseFloat(pad.paddingLeft), y: top + parseFloat(pad.paddingTop), width: inside.width, height: inside.height, overflow: "visible"})) copy.setAttribute(name, value);
    for (const [name, value] of Object.entries({width, height, viewBox: `${left} 0 ${width} ${height}`})) outer.setAttribute(name, value);
    outer.append(back, ...parts, copy);
    return {text: new XMLSerializer().serializeToString(outer), width, height};
  };
  const download = (address, name) => {
    const link = document.createElement("a");
    link.href = address;
    link.download = name;
    link.click();
  };
  // Says in a PNG, after its first 33 bytes, that it has 300 dots per inch.
  const DOTS = "\0\0\0\x09pHYs\0\0.#\0\0.#\x01\x78\xa5\x3f\x76";
  const with300Dots = (address) => {
    const [start, rest] = address.split(","), bytes = atob(rest);
    return `${start},${btoa(bytes.slice(0, 33) + DOTS + bytes.slice(33))}`;
  };
  const saveAs = (figure, kind) => {
    const scale = kind === "SVG" ? 1 : 300 / 96;
    const {text, width, height} = drawing(figure, scale), address = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(text);
    if (kind === "SVG") { download(address, figure.id + ".svg"); return; }
    const image = new Image(), canvas = document.createElement("canvas");
    image.onload = () => {
      [canvas.width, canvas.height] = [scale * width, scale * height];
      canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
      download(with300Dots(canvas.toDataURL("image/png")), figure.id + ".png");
    };
    image.src = address;
  };
  for (const figure of all("figure")) {
    const saves = document.createElement("div");
    saves.className = "saves";
    for (const kind of ["SVG", "PNG"]) {
      const button = saves.appendChild(document.createElement("button"));
      button.type = "button";
      button.textContent = kind;
      button.setAttribute("aria-label", `Download ${figure.querySelector("h3").textContent} as ${kind}`);
      button.addEventListener("click", () => saveAs(figure, kind));
    }
    figure.prepend(saves);
  }

  const distance = (px, py, [ax, ay], [bx, by]) => {
    const [dx, dy] = [bx - ax, by - ay], length = dx * dx + dy * dy;
    const t = length ? Math.max(0, Math.min(1, ((px - ax) * dx + (py - ay) * dy) / length)) : 0;
    return Math.hypot(px - ax - t * dx, py - ay - t * dy);
  };

  const nearest = (targets, box, px, py) => {
    let best = null, least = NEAR;
    for (const target of targets) {
      const pixels = target.places.map(([x, y]) => [x * box.width, y * box.height]);
      for (let at = 0; at < pixels.length; at++) {
        const far = target.line
          ? distance(px, py, pixels[at], pixels[at + 1] ?? pixels[at]) + 6  // a point goes before a line
          : Math.hypot(px - pixels[at][0], py - pixels[at][1]);
        if (far >= least) continue;
        const next = target.line && pixels[at + 1] && Math.abs(pixels[at + 1][0] - px) < Math.abs(pixels[at][0] - px);
        [best, least] = [{target, at: next ? at + 1 : at}, far];
      }
    }
    return best;
  };

  for (const plot of all(".plot")) {
    const svg = plot.querySelector("svg");
    let targets = null, chosen = null;
    const light = (elements) => {
      all(".on", plot).forEach((one) => one.classList.remove("on"));
      elements.forEach((one) => one.classList.add("on"));
      plot.classList.toggle("lit", elements.some((one) => !one.matches("use")));
    };
    const choose = (found) => {
      chosen = found;
      if (!found) { light(pressed()); hide(); return; }
      const {target, at} = found, box = svg.getBoundingClientRect();
      light([target.element]);
      const x = box.left + target.places[at][0] * box.width, y = box.top + target.places[at][1] * box.height;
      show(said(target, at), {left: x, right: x, top: y, bottom: y});
    };
    const legend = plot.closest("figure")?.querySelector(".legend");
    const named = (button) => all(`[data-s="${button.dataset.series}"]`, plot);
    const pressed = () => legend ? all("[aria-pressed=true]", legend).flatMap(named) : [];
    plot.addEventListener("pointermove", (event) => {
      if (!targets?.length) targets = targetsOf(plot);
      const box = svg.getBoundingClientRect();
      choose(nearest(targets, box, event.clientX - box.left, event.clientY - box.top));
    });
    plot.addEventListener("pointerleave", () => choose(null));
    plot.addEventListener("blur", () => choose(null));
    // Left and right go along the points of a mark, up and down from mark to mark.
    plot.addEventListener("keydown", (event) => {
      const step = {ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1]}[event.key];
      if (event.key === "Escape") choose(null);
      if (!step) return;
      event.preventDefault();
      if (!targets?.length) targets = targetsOf(plot);
      const marks = [];
      for (const target of targets) {
        const own = target.places.map((_, at) => ({target, at}));
        const points = !target.line && marks.find((mark) => !mark[0].target.line && mark[0].target.element.parentNode === target.element.parentNode);
        if (points) points.push(...own); else marks.push(own);
      }
      marks.forEach((mark) => mark.sort((a, b) => a.target.places[a.at][0] - b.target.places[b.at][0]));
      let row = marks.findIndex((mark) => mark.some((one) => one.target === chosen?.target && one.at === chosen.at));
      if (row < 0) { choose(marks[0]?.[0] ?? null); return; }
      let column = marks[row].findIndex((one) => one.target === chosen.target && one.at === chosen.at);
      row = (row + step[1] + marks.length) % marks.length;
      column = step[1] ? 0 : (column + step[0] + marks[row].length) % marks[row].length;
      choose(marks[row][column]);
    });
    if (legend) all("button", legend).forEach((button) => {
      button.addEventListener("pointerenter", () => light([...pressed(), ...named(button)]));
      button.addEventListener("pointerleave", () => light(pressed()));
      button.addEventListener("click", () => {
        button.setAttribute("aria-pressed", button.getAttribute("aria-pressed") !== "true");
        light(pressed());
      });
    });
  }

  // A browser too old to decompress still has the figures.
  decode().then(() => {
    for (const values of all("details.values")) {
      const fill = () => { if (values.open) tabulate(values.closest("figure").querySelector(".plot"), values.querySelector(".scroll")); };
      values.addEventListener("toggle", fill, {once: true});
      fill();
    }
    const trials = document.querySelector("details.trials");
    trials?.addEventListener("toggle", () => listTrials(trials.querySelector(".scroll")), {once: true});
  }).catch(() => {});

  for (const word of all("a[aria-describedby]")) {
    const explained = document.getElementById(word.getAttribute("aria-describedby"));
    if (!explained) continue;
    for (const event of ["pointerenter", "focus"]) word.addEventListener(event, () => show(explained.textContent, word.getBoundingClientRect()));
    for (const event of ["pointerleave", "blur"]) word.addEventListener(event, hide);
  }

  for (const button of all(".copy")) button.addEventListener("click", async () => {
    const text = button.previousElementSibling;
    try { await navigator.clipboard.writeText(text.textContent); } catch {
      getSelection().selectAllChildren(text);
      document.execCommand("copy");
    }
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 1600);
  });

  // A budget unfolds where a link leads into it.
  const unfold = () => {
    const place = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    const inside = place && place.closest("details.budget");
    if (inside && !inside.open) { inside.open = true; place.scrollIntoView(); }
  };
  addEventListener("hashchange", unfold);
  unfold();
})();
