// The page to translate with. It talks to the same addresses as any client.

const PAUSE = 200; // milliseconds without a key before a translation
const RETRY = 2000; // milliseconds before a silent server is asked again
const END = "</s>";

const byId = (id) => document.getElementById(id);
const percent = (share) => `${Math.round(100 * share)} %`;
const seconds = (ms) =>
  ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`;

function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name in node) node[name] = value;
    else node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}

/* Light and dark. */

const dark = matchMedia("(prefers-color-scheme: dark)");
let chosenTheme;
try {
  chosenTheme = localStorage.theme;
} catch {
  // The browser keeps nothing: the choice holds for this visit.
}

function showTheme() {
  const theme = chosenTheme ?? (dark.matches ? "dark" : "light");
  document.documentElement.dataset.theme = theme;
  const other = theme === "dark" ? "Light" : "Dark";
  byId("theme").textContent = `◐ ${other}`;
  byId("theme").ariaLabel = `${other} colours`;
  drawMaps();
}

byId("theme").onclick = () => {
  const isDark = document.documentElement.dataset.theme === "dark";
  chosenTheme = isDark ? "light" : "dark";
  showTheme();
  try {
    localStorage.theme = chosenTheme;
  } catch {
    // As above.
  }
};
dark.onchange = showTheme;

/* The server. */

let server; // what page.json says

class Refusal extends Error {
  constructor(sentence, status) {
    super(sentence);
    this.mayPass = status === 429 || status >= 500; // the same, asked later
  }
}

async function getJson(address, options) {
  const response = await fetch(address, options);
  const body = await response.json();
  if (!response.ok) throw new Refusal(body.error, response.status);
  return body;
}

function predictAddress() {
  return `v1/models/${encodeURIComponent(server.model)}:predict`;
}

async function predict(signature_name, inputs, signal) {
  const { outputs } = await getJson(predictAddress(), {
    method: "POST",
    body: JSON.stringify({ signature_name, inputs }),
    signal,
  });
  return outputs;
}

/* Texts and their translations. */

const text = byId("text");
let timer; // of the pause after a key
let retry; // of the next question to a silent server
let running = new AbortController();

function currentText() {
  return text.value.replace(/\s+/g, " ").trim();
}

function edited() {
  const length = [...text.value].length;
  const most = server.max_characters;
  const isOver = length > most;
  byId("count").textContent = length
    ? `${length.toLocaleString("en")} of ${most.toLocaleString("en")} characters`
    : "";
  byId("count").classList.toggle("over", isOver);
  byId("clear").hidden = !length;
  clearTimeout(timer);
  running.abort();
  if (!currentText()) return clear();
  byId("answer").classList.add("stale");
  if (isOver) {
    return complain(
      `The text is ${(length - most).toLocaleString("en")} characters too ` +
        "long. Translate it in parts.",
    );
  }
  timer = setTimeout(translate, PAUSE);
}

async function translate() {
  const source = currentText();
  running.abort();
  running = new AbortController();
  const { signal } = running;
  byId("answer").classList.add("stale");
  const busy = setTimeout(() => byId("answer").classList.add("busy"), 150);
  const start = performance.now();
  try {
    const found = await best(source, signal);
    if (signal.aborted) return;
    settle();
    complain("");
    byId("time").textContent = seconds(performance.now() - start);
    showBest(source, found);
  } catch (error) {
    if (!signal.aborted) failed(error);
  } finally {
    clearTimeout(busy);
    if (running.signal === signal) byId("answer").classList.remove("busy");
  }
}

/** Translations and scores, best first. */
async function best(source, signal) {
  if (server.signatures.includes("translate_nbest")) {
    const found = await predict("translate_nbest", [source], signal);
    return found.translation[0].map((said, i) => [said, found.score[0][i]]);
  }
  const found = await predict("serving_default", [source], signal);
  return [[found.translation[0], found.score[0]]];
}

function showBest(source, found) {
  // Different pieces may spell the same text.
  found = found.filter(([said], i) => i === found.findIndex((o) => o[0] === said));
  const [, top] = found[0];
  byId("nbest").replaceChildren(
    ...found.map(([said, score], i) =>
      make(
        "label",
        {},
        make("input", {
          type: "radio",
          name: "nbest",
          checked: i === 0,
          onchange: () => choose(source, said),
        }),
        make("span", { className: "said", dir: "auto" }, said || "(nothing)"),
        make("meter", { value: Math.exp(score - top), ariaHidden: true }),
        make("span", { className: "score" }, score.toFixed(3).replace("-", "−")),
      ),
    ),
  );
  byId("examples").hidden = true;
  byId("others").hidden = found.length < 2;
  choose(source, found[0][0]);
}

async function choose(source, said) {
  byId("translation").textContent = said;
  byId("copy").hidden = !said || !navigator.clipboard; // https, localhost
  byId("cut").hidden = true;
  complain("");
  showCurl(source);
  const { signal } = running;
  const isCurrent = () =>
    !signal.aborted && byId("translation").textContent === said;
  if (!said || !server.signatures.includes("attention")) {
    byId("attention").hidden = true;
    return;
  }
  try {
    const inputs = { text: [source], translation: [said] };
    const looks = await predict("attention", inputs, signal);
    if (isCurrent()) {
      showAttention(looks);
      showCut(looks);
    }
  } catch (error) {
    if (!isCurrent()) return;
    byId("attention").hidden = true;
    failed(error);
  }
}

/** Says so where the model has read as much as it can. */
function showCut({ source_length }) {
  const most = server.max_source_length;
  byId("cut").hidden = !most || source_length[0] <= most; // it counts the end
  byId("cut").textContent =
    `The model reads ${most} pieces at once, so that the end of this text may ` +
    "be missing here. Translate it in parts.";
}

function settle() {
  byId("answer").classList.remove("stale", "busy");
}

function clear() {
  settle();
  complain("");
  byId("translation").textContent = "";
  byId("cut").hidden = true;
  byId("time").textContent = "";
  byId("copy").hidden = true;
  byId("others").hidden = true;
  byId("attention").hidden = true;
  byId("examples").hidden = !server.examples.length;
  showCurl("...");
}

function showCurl(source) {
  const body = JSON.stringify({ instances: [source] }).replaceAll("'", "\\u0027");
  const address = new URL(predictAddress(), location);
  byId("curl").textContent = `curl ${address} \\\n  -d '${body}'`;
}

/* What goes wrong. */

function complain(sentence, button) {
  byId("message").replaceChildren(sentence, ...(button ? [button] : []));
  byId("message").hidden = !sentence;
}

function failed(error) {
  if (error instanceof Refusal) {
    const again = make("button", { type: "button", onclick: translate });
    again.textContent = "Try again";
    complain(error.message, error.mayPass && again);
    return;
  }
  complain(
    "The server does not answer. Is keras-transformer serve still running? " +
      "This page goes on when it is back.",
  );
  askLater();
}

function askLater() {
  clearTimeout(retry);
  retry = setTimeout(() => start().catch(askLater), RETRY);
}

/* Attention: pieces left and right, lines between them, and a map of all. */

const AVERAGE = "average";
let looks = null; // what the attention signature gave, for one pair
let layer = AVERAGE;
let head = AVERAGE;
let shown = { layer, head }; // what a pointer looks at, if not chosen
let chosen = null; // the piece: { side, index }

function showAttention({ source_pieces, target_pieces, attention, ...lengths }) {
  const [sourceLength] = lengths.source_length;
  const [targetLength] = lengths.target_length;
  looks = {
    source: source_pieces[0].slice(0, sourceLength),
    target: target_pieces[0].slice(0, targetLength),
    layers: attention[0].map((heads) =>
      heads.map((rows) =>
        rows.slice(0, targetLength).map((row) => row.slice(0, sourceLength)),
      ),
    ),
  };
  if (!(layer in looks.layers)) layer = AVERAGE;
  if (!(head in looks.layers[0])) head = AVERAGE;
  shown = { layer, head };
  chosen = null;
  byId("attention").hidden = false;
  showPieces("source");
  showPieces("target");
  showChoices();
  showMaps();
  drawLines();
}

/** The mean of matrices of the same shape. */
function mean(matrices) {
  return matrices[0].map((row, i) =>
    row.map(
      (_, j) =>
        matrices.reduce((sum, matrix) => sum + matrix[i][j], 0) /
        matrices.length,
    ),
  );
}

/** Shares of the source (columns) for each piece of the target (rows). */
function weights({ layer, head }) {
  const layers = layer === AVERAGE ? looks.layers : [looks.layers[layer]];
  return mean(
    layers.map((heads) => (head === AVERAGE ? mean(heads) : heads[head])),
  );
}

function nameOf({ layer, head }) {
  const one = layer === AVERAGE ? "All layers" : `Layer ${+layer + 1}`;
  return `${one}, ${head === AVERAGE ? "all heads" : `head ${+head + 1}`}`;
}

function spelled(piece) {
  if (piece === END) return "end";
  return piece.replaceAll("▁", " ").trim() || "space";
}

function showPieces(side) {
  const pieces = looks[side];
  byId(side).replaceChildren(
    ...pieces.map((piece, index) => {
      const starts = index === 0 || piece === END || piece.startsWith("▁");
      const isMark = piece === END || !piece.replaceAll("▁", "").trim();
      const button = make(
        "button",
        {
          type: "button",
          className: isMark ? "mark" : "",
          tabIndex: index === 0 ? 0 : -1,
          onpointerenter: (event) =>
            event.pointerType === "mouse" && point({ side, index }),
          onpointerleave: (event) =>
            event.pointerType === "mouse" && point(null),
          onclick: () => point({ side, index }),
          onfocus: () => point({ side, index }),
          onblur: () => point(null),
          onkeydown: (event) => walk(event, byId(side), index),
        },
        make("span", { className: "share", ariaHidden: true }),
        make("span", { className: "piece" }, spelled(piece)),
      );
      return make("li", { className: starts ? "starts" : "" }, button);
    }),
  );
}

/** Arrow keys go from piece to piece. */
function walk(event, list, index) {
  const buttons = [...list.querySelectorAll("button")];
  const next = {
    ArrowDown: index + 1,
    ArrowUp: index - 1,
    Home: 0,
    End: buttons.length - 1,
  }[event.key];
  if (next === undefined) {
    const across = { ArrowLeft: "source", ArrowRight: "target" }[event.key];
    if (across && byId(across) !== list) {
      event.preventDefault();
      byId(across).querySelector("[tabindex='0']").focus();
    }
    return;
  }
  event.preventDefault();
  if (!buttons[next]) return;
  buttons.forEach((button, i) => (button.tabIndex = i === next ? 0 : -1));
  buttons[next].focus();
}

function point(piece) {
  chosen = piece;
  drawLines();
}

function drawLines() {
  const svg = document.querySelector("#lines svg");
  if (!looks || byId("attention").hidden) return;
  const matrix = weights(shown);
  const box = svg.getBoundingClientRect();
  const heights = (side) =>
    [...byId(side).querySelectorAll("button")].map((button) => {
      const { top, height } = button.getBoundingClientRect();
      return top + height / 2 - box.top;
    });
  const [from, to] = [heights("source"), heights("target")];
  const paths = [];
  matrix.forEach((row, target) =>
    row.forEach((share, source) => {
      if (share < 0.02) return;
      const isChosen =
        chosen && (chosen.side === "source" ? source : target) === chosen.index;
      const opacity = (chosen ? (isChosen ? 1 : 0.06) : 0.75) * (0.15 + 0.85 * share);
      const [x, half] = [box.width, box.width / 2];
      paths.push(
        `<path d="M2 ${from[source]}C${half} ${from[source]} ${half} ` +
          `${to[target]} ${x - 2} ${to[target]}" ` +
          `stroke-width="${1 + 7 * share}" opacity="${opacity}" />`,
      );
    }),
  );
  svg.innerHTML =
    `<linearGradient id="flow" gradientUnits="userSpaceOnUse" x1="0" x2="${box.width}">` +
    `<stop /><stop offset="1" /></linearGradient>${paths.join("")}`;
  showShares(matrix);
}

/** Marks the pieces that the chosen one looked at, or that looked at it. */
function showShares(matrix) {
  for (const side of ["source", "target"]) {
    byId(side)
      .querySelectorAll("button")
      .forEach((button, index) => {
        const isOther = chosen && chosen.side !== side;
        const share = !isOther
          ? 0
          : side === "source"
            ? matrix[chosen.index][index]
            : matrix[index][chosen.index];
        button.style.setProperty("--weight", share.toFixed(3));
        button.querySelector(".share").textContent =
          share >= 0.05 ? percent(share) : "";
        const isChosen = chosen?.side === side && chosen.index === index;
        button.classList.toggle("chosen", isChosen);
      });
  }
  byId("reading").textContent = reading(matrix);
}

function reading(matrix) {
  if (!chosen) return `${nameOf(shown)}.`;
  const { side, index } = chosen;
  const isTarget = side === "target";
  const shares = isTarget ? matrix[index] : matrix.map((row) => row[index]);
  const others = looks[isTarget ? "source" : "target"];
  const most = shares
    .map((share, i) => [share, spelled(others[i])])
    .sort((a, b) => b[0] - a[0])
    .slice(0, 3)
    .map(([share, piece]) => `“${piece}” ${percent(share)}`)
    .join(", ");
  const verb = isTarget ? "looked at" : "was looked at by";
  return `${nameOf(shown)}: “${spelled(looks[side][index])}” ${verb} ${most}.`;
}

function showChoices() {
  const options = (count) => [
    make("option", { value: AVERAGE }, "average"),
    ...Array.from({ length: count }, (_, i) =>
      make("option", { value: i }, `${i + 1}`),
    ),
  ];
  byId("layer").replaceChildren(...options(looks.layers.length));
  byId("head").replaceChildren(...options(looks.layers[0].length));
  byId("layer").value = layer;
  byId("head").value = head;
}

byId("layer").onchange = () => pick(byId("layer").value, head);
byId("head").onchange = () => pick(layer, byId("head").value);

function pick(newLayer, newHead) {
  [layer, head] = [newLayer, newHead];
  byId("layer").value = layer;
  byId("head").value = head;
  look({ layer, head });
  for (const button of byId("maps").querySelectorAll("button")) {
    const { layer: row, head: column } = button.dataset;
    button.ariaPressed = row === `${layer}` && column === `${head}`;
    button.tabIndex = button.ariaPressed === "true" ? 0 : -1;
  }
}

/** Shows a layer and a head, chosen or only pointed at. */
function look(which) {
  shown = which;
  drawLines();
}

/** A small map for each layer and head, and for their averages. */
function showMaps() {
  const rows = [...looks.layers.keys(), AVERAGE];
  const columns = [...looks.layers[0].keys(), AVERAGE];
  const title = (value) => (value === AVERAGE ? "avg" : `${value + 1}`);
  const cells = [make("span"), ...columns.map((c) => make("span", {}, title(c)))];
  for (const row of rows) {
    cells.push(make("span", {}, title(row)));
    for (const column of columns) {
      const which = { layer: row, head: column };
      const button = make(
        "button",
        {
          type: "button",
          ariaLabel: nameOf(which),
          title: nameOf(which),
          onclick: () => pick(row, column),
          onpointerenter: () => look(which),
          onpointerleave: () => look({ layer, head }),
          onfocus: () => look(which),
          onblur: () => look({ layer, head }),
          onkeydown: (event) => walkMaps(event, columns.length),
        },
        make("canvas", {
          width: looks.source.length,
          height: looks.target.length,
        }),
      );
      Object.assign(button.dataset, which);
      cells.push(button);
    }
  }
  const maps = byId("maps");
  maps.style.gridTemplateColumns = `auto repeat(${columns.length}, auto)`;
  maps.style.setProperty("--map", columns.length > 9 ? "1.6rem" : "2.4rem");
  maps.replaceChildren(...cells);
  pick(layer, head);
  drawMaps();
}

function walkMaps(event, width) {
  const buttons = [...byId("maps").querySelectorAll("button")];
  const step = {
    ArrowRight: 1,
    ArrowLeft: -1,
    ArrowDown: width,
    ArrowUp: -width,
  }[event.key];
  if (!step) return;
  event.preventDefault();
  buttons[buttons.indexOf(event.currentTarget) + step]?.focus();
}

function drawMaps() {
  if (!looks) return;
  const hue = getComputedStyle(document.documentElement).getPropertyValue("--target");
  for (const button of byId("maps").querySelectorAll("button")) {
    const canvas = button.firstChild;
    const pen = canvas.getContext("2d");
    pen.clearRect(0, 0, canvas.width, canvas.height);
    pen.fillStyle = hue;
    weights(button.dataset).forEach((row, y) =>
      row.forEach((share, x) => {
        pen.globalAlpha = Math.min(1, Math.sqrt(share));
        pen.fillRect(x, y, 1, 1);
      }),
    );
  }
}

/* The start. */

text.oninput = edited;
byId("clear").onclick = () => {
  text.value = "";
  edited();
  text.focus();
};
byId("copy").onclick = async () => {
  await navigator.clipboard.writeText(byId("translation").textContent);
  byId("copy").textContent = "Copied";
  setTimeout(() => (byId("copy").textContent = "Copy"), 1500);
};
new ResizeObserver(drawLines).observe(byId("lines"));

async function start() {
  server = await getJson("page.json");
  byId("model").textContent = `${server.model}, version ${server.version}`;
  document.title = `Translate with ${server.model}`;
  byId("examples")
    .querySelector("ul")
    .replaceChildren(
      ...server.examples.map((example) => {
        const button = make("button", { type: "button", dir: "auto" }, example);
        button.onclick = () => {
          text.value = example;
          edited();
          text.focus();
        };
        return make("li", {}, button);
      }),
    );
  complain("");
  edited();
}

showTheme();
try {
  await start();
  text.focus();
} catch (error) {
  failed(error);
}
