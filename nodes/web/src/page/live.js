// The running graph: drawing with figures, conversation, sound, images, measurements, events.

const element = (id) => document.getElementById(id);
const SVG = 'http://www.w3.org/2000/svg';
const svg = (name, attributes = {}, text = '') => {
  const node = document.createElementNS(SVG, name);
  Object.entries(attributes).forEach(([key, value]) => node.setAttribute(key, value));
  node.textContent = text;
  return node;
};
const html = (name, properties = {}) => Object.assign(document.createElement(name), properties);
const ms = (ns) => (ns / 1e6 < 10 ? (ns / 1e6).toFixed(2) : (ns / 1e6).toFixed(0)) + ' ms';
// A color of the style sheet, in a form that a canvas takes.
const color = (name) => {
  const sample = html('span');
  sample.style.color = `var(${name})`;
  document.body.append(sample);
  const found = getComputedStyle(sample).color;
  sample.remove();
  return found;
};
const show = (id) => { element(id).hidden = false; };

let graph = null;
let figures = null;
let earlier = null;
let chosen = null;

// --- The drawing: nodes in columns by their distance from the sources.

const WIDTH = 124, HEIGHT = 46, GAP_X = 36, GAP_Y = 22;

function columns() {
  const depth = new Map(graph.nodes.map((node) => [node.name, 0]));
  const edges = graph.edges.filter((edge) => !edge.feedback);
  for (let round = 0; round < graph.nodes.length; round++) {
    let changed = false;
    for (const { from, to } of edges) {
      const wanted = Math.min(depth.get(from.node) + 1, graph.nodes.length);
      if (depth.get(to.node) < wanted) { depth.set(to.node, wanted); changed = true; }
    }
    if (!changed) break;
  }
  const found = [];
  for (const node of graph.nodes) (found[depth.get(node.name)] ??= []).push(node.name);
  return found.filter(Boolean);
}

function choose(kind, name) {
  chosen = { kind, name };
  document.querySelectorAll('[aria-pressed]').forEach((item) => {
    item.setAttribute('aria-pressed', String(item.dataset.kind === kind && item.dataset.name === name));
  });
  details();
}

function choosable(item, kind, name, label) {
  item.setAttribute('tabindex', '0');
  item.setAttribute('role', 'button');
  item.setAttribute('aria-pressed', 'false');
  item.setAttribute('aria-label', label);
  item.dataset.kind = kind;
  item.dataset.name = name;
  item.addEventListener('click', () => choose(kind, name));
  item.addEventListener('keydown', (event) => {
    if (event.key === 'Enter' || event.key === ' ') { event.preventDefault(); choose(kind, name); }
  });
}

function draw() {
  const place = new Map();
  const found = columns();
  const rows = Math.max(...found.map((column) => column.length));
  found.forEach((column, x) => column.forEach((name, y) => {
    const top = (rows - column.length) * (HEIGHT + GAP_Y) / 2;
    place.set(name, { x: 8 + x * (WIDTH + GAP_X), y: 8 + top + y * (HEIGHT + GAP_Y) });
  }));
  const width = 16 + found.length * (WIDTH + GAP_X) - GAP_X;
  const height = 16 + rows * (HEIGHT + GAP_Y) + 20;
  const root = svg('svg', { viewBox: `0 0 ${width} ${height}`, role: 'group', 'aria-label': 'graph' });
  // It becomes smaller with the page, as long as it can be read.
  root.style.maxWidth = `${width}px`;
  root.style.minWidth = `${Math.round(width * 0.6)}px`;
  for (const edge of graph.edges) {
    const a = place.get(edge.from.node), b = place.get(edge.to.node);
    const [x1, y1, x2, y2] = [a.x + WIDTH, a.y + HEIGHT / 2, b.x, b.y + HEIGHT / 2];
    const path = edge.feedback || x2 <= x1
      ? `M${x1} ${y1} C${x1 + 40} ${Math.max(y1, y2) + 60}, ${x2 - 40} ${Math.max(y1, y2) + 60}, ${x2} ${y2}`
      : `M${x1} ${y1} C${x1 + GAP_X / 2} ${y1}, ${x2 - GAP_X / 2} ${y2}, ${x2} ${y2}`;
    const item = svg('g', { class: 'edge' });
    const name = `${edge.from.node}.${edge.from.port} → ${edge.to.node}.${edge.to.port}`;
    item.append(svg('path', { d: path }), svg('path', { d: path, class: 'hit' }));
    choosable(item, 'edge', name, `edge from ${edge.from.node}.${edge.from.port} to ${edge.to.node}.${edge.to.port}`);
    root.append(item);
  }
  for (const node of graph.nodes) {
    const { x, y } = place.get(node.name);
    const item = svg('g', { class: 'node', transform: `translate(${x} ${y})` });
    item.append(
      svg('rect', { width: WIDTH, height: HEIGHT, rx: 8 }),
      svg('text', { x: 10, y: 19 }, node.name),
      svg('text', { x: 10, y: 36, class: 'small' }, node.use),
    );
    choosable(item, 'node', node.name, `node ${node.name}, ${node.use}`);
    root.append(item);
  }
  element('drawing').replaceChildren(root);
  show('graph');
}

const rate = (now, before, seconds) => Math.max(0, (now - (before ?? 0)) / seconds);

function update() {
  if (!graph || !figures) return;
  const seconds = earlier ? (figures.wall_ns - earlier.wall_ns) / 1e9 : figures.wall_ns / 1e9;
  if (seconds <= 0) return;
  for (const node of figures.nodes) {
    const item = document.querySelector(`.node[data-name="${CSS.escape(node.name)}"]`);
    if (!item) continue;
    const before = earlier?.nodes.find((other) => other.name === node.name);
    const busy = rate(node.busy_ns, before?.busy_ns, seconds) / 1e9;
    const packets = rate(node.packets_out || node.packets_in, before && (before.packets_out || before.packets_in), seconds);
    item.classList.toggle('busy', busy > 0.02);
    item.classList.toggle('failed', node.errors > 0);
    item.querySelector('.small').textContent = `${packets.toFixed(0)}/s, ${(busy * 100).toFixed(0)} % busy`;
  }
  figures.edges.forEach((edge) => {
    const item = document.querySelector(`.edge[data-name="${CSS.escape(`${edge.from} → ${edge.to}`)}"]`);
    if (!item) return;
    const before = earlier?.edges.find((other) => other.from === edge.from && other.to === edge.to);
    const drops = edge.dropped_full + edge.dropped_age;
    const dropsBefore = before ? before.dropped_full + before.dropped_age : 0;
    item.classList.toggle('moving', (edge.delivered ?? 0) > (before?.delivered ?? 0));
    item.classList.toggle('dropping', drops > dropsBefore);
  });
  const media = figures.real_time_factor;
  element('state').textContent = `${figures.end === 'running' ? 'running' : `ended: ${figures.end}`}, ` +
    `${(figures.wall_ns / 1e9).toFixed(0)} s` + (media ? `, ${(media * 100).toFixed(0)} % of a processor` : '');
  element('state').dataset.wall = figures.wall_ns;
  details();
}

function flat(value, prefix = '') {
  return Object.entries(value ?? {}).flatMap(([key, item]) => {
    if (item === null || item === undefined) return [];
    if (typeof item === 'object') return flat(item, `${prefix}${key} `);
    return [[`${prefix}${key}`, item]];
  });
}

function details() {
  if (!chosen || !figures) return;
  const found = chosen.kind === 'node'
    ? figures.nodes.find((node) => node.name === chosen.name)
    : figures.edges.find((edge) => `${edge.from} → ${edge.to}` === chosen.name);
  const list = html('dl');
  for (const [key, value] of flat(found)) {
    if (key === 'name') continue;
    const item = html('div');
    item.append(
      html('dt', { textContent: key.replace(/_ns$/, '').replaceAll('_', ' ') }),
      html('dd', { textContent: key.endsWith('_ns') ? ms(value) : String(value) }),
    );
    list.append(item);
  }
  element('details').replaceChildren(html('h2', { textContent: chosen.name }), list);
}

// --- The conversation.

const turns = new Map();

function turn(key, side, text, partial) {
  show('transcript');
  let item = turns.get(key);
  if (!item) {
    item = html('li');
    turns.set(key, item);
    element('turns').append(item);
    while (element('turns').children.length > 100) element('turns').firstChild.remove();
  }
  item.className = side + (partial ? ' partial' : '');
  item.textContent = text;
  element('turns').scrollTop = element('turns').scrollHeight;
}

const answers = new Map();

function conversation({ node, port, type, fields }) {
  if (type === 'speech/Transcript') {
    turn(`${node}.${fields.utterance}`, 'user', fields.text, fields.event === 'partial');
  } else if (type === 'speech/Keyword') {
    turn(`keyword ${Date.now()}`, 'note', `keyword “${fields.label}”`, false);
  } else if (type === 'text/Tool') {
    turn(`tool ${node} ${fields.turn} ${fields.json}`, 'note', `${fields.tool} ${fields.json}`, false);
  } else if (type === 'text/Text' && graph.answers.includes(`${node}.${port}`)) {
    const key = `${node}.${port} ${fields.turn}`;
    const text = ((answers.get(key) ?? '') + ' ' + fields.text).trim();
    answers.set(key, text);
    if (text) turn(key, 'agent', text, !fields.is_last);
  }
}

function waterfall(turn) {
  const rows = turn.stages.map(([name, start]) => ({ name, start }));
  const longest = Math.max(1, ...rows.map((row) => row.start));
  const table = html('table');
  for (const { name, start } of rows) {
    const row = table.insertRow();
    row.append(html('th', { scope: 'row', textContent: name }));
    const bar = html('div', { className: 'bar' });
    bar.style.width = `${Math.max(1, start / longest * 140)}px`;
    row.insertCell().append(bar);
    row.insertCell().textContent = ms(start);
  }
  element('waterfall').replaceChildren(html('h2', { textContent: 'Latency of the last turn' }), table);
}

// --- Sound: peaks of each block, with the speech that was detected.

const waves = new Map();
let isSpeech = false;

function wave({ node, port, at, peak }) {
  show('sounds');
  const name = `${node}.${port}`;
  let known = waves.get(name);
  if (!known) {
    const canvas = html('canvas', { width: 600, height: 70 });
    canvas.setAttribute('role', 'img');
    canvas.setAttribute('aria-label', `sound of ${name}`);
    const figure = html('figure');
    figure.append(html('figcaption', { textContent: name }), canvas);
    element('waves').append(figure);
    known = { canvas, peaks: [] };
    waves.set(name, known);
  }
  known.peaks.push([at, peak, isSpeech]);
  while (known.peaks.length && known.peaks[0][0] < at - 10) known.peaks.shift();
}

function drawWaves() {
  const [quiet, accent] = [color('--quiet'), color('--accent')];
  for (const { canvas, peaks } of waves.values()) {
    const pen = canvas.getContext('2d');
    pen.clearRect(0, 0, canvas.width, canvas.height);
    const last = peaks.at(-1)?.[0] ?? 0;
    for (const [at, peak, speech] of peaks) {
      const height = Math.max(1, Math.sqrt(Math.min(1, peak)) * canvas.height);
      pen.fillStyle = speech ? accent : quiet;
      pen.fillRect((at - last + 10) / 10 * canvas.width, (canvas.height - height) / 2, 2, height);
    }
  }
}

// --- Measurements: the numbers of IMUs and poses.

const plots = new Map();

function plot({ node, port, at, fields }) {
  show('values');
  const name = `${node}.${port}`;
  let known = plots.get(name);
  if (!known) {
    const canvas = html('canvas', { width: 600, height: 110 });
    canvas.setAttribute('role', 'img');
    canvas.setAttribute('aria-label', `values of ${name}`);
    const figure = html('figure');
    const caption = html('figcaption');
    figure.append(caption, canvas);
    element('plots').append(figure);
    known = { canvas, caption, points: [] };
    plots.set(name, known);
  }
  const numbers = Object.entries(fields).filter(([, value]) => typeof value === 'number');
  known.points.push([at, Object.fromEntries(numbers)]);
  while (known.points.length && known.points[0][0] < at - 10) known.points.shift();
  known.caption.textContent = `${name}: ` + numbers.map(([key, value]) => `${key} ${value.toFixed(2)}`).join(', ');
}

function drawPlots() {
  for (const { canvas, points } of plots.values()) {
    const pen = canvas.getContext('2d');
    pen.clearRect(0, 0, canvas.width, canvas.height);
    const last = points.at(-1)?.[0] ?? 0;
    const all = points.flatMap(([, numbers]) => Object.values(numbers));
    const [low, high] = [Math.min(...all), Math.max(...all)];
    Object.keys(points.at(-1)?.[1] ?? {}).forEach((key, index) => {
      pen.strokeStyle = `hsl(${index * 57} 60% 50%)`;
      pen.lineWidth = 1.5;
      pen.beginPath();
      points.forEach(([at, numbers]) => {
        const y = canvas.height - 4 - (numbers[key] - low) / (high - low || 1) * (canvas.height - 8);
        pen.lineTo((at - last + 10) / 10 * canvas.width, y);
      });
      pen.stroke();
    });
  }
}

// --- The scene memory from above: x to the right, y up.

const entities = new Map();

function scene({ entities: changed, deletions }) {
  show('scene');
  changed.forEach((entity) => entities.set(entity.id, entity));
  deletions.forEach((id) => entities.delete(id));
  const canvas = element('map'), pen = canvas.getContext('2d');
  const all = [...entities.values()];
  const reach = Math.max(1, ...all.map(({ x, y }) => Math.max(Math.abs(x), Math.abs(y)))) * 1.15;
  const scale = Math.min(canvas.width, canvas.height) / 2 / reach;
  pen.clearRect(0, 0, canvas.width, canvas.height);
  pen.fillStyle = color('--accent');
  pen.font = '13px system-ui';
  for (const { x, y, label } of all) {
    const [px, py] = [canvas.width / 2 + x * scale, canvas.height / 2 - y * scale];
    pen.beginPath();
    pen.arc(px, py, 4, 0, 2 * Math.PI);
    pen.fill();
    pen.fillText(label, px + 7, py + 4);
  }
}

// --- Images.

const images = new Map();

function image(bytes) {
  show('images');
  const view = new DataView(bytes);
  const length = view.getUint16(0, true);
  const name = new TextDecoder().decode(new Uint8Array(bytes, 2, length));
  let known = images.get(name);
  if (!known) {
    known = html('img', { alt: `images of ${name}` });
    const figure = html('figure');
    figure.append(html('figcaption', { textContent: name }), known);
    element('shown').append(figure);
    images.set(name, known);
  }
  const url = URL.createObjectURL(new Blob([new Uint8Array(bytes, 2 + length)], { type: 'image/jpeg' }));
  const old = known.src;
  known.onload = () => old && URL.revokeObjectURL(old);
  known.src = url;
}

// --- Events.

function log(text, isError = false) {
  show('log');
  element('events').prepend(html('li', { textContent: text, className: isError ? 'error' : '' }));
  while (element('events').children.length > 200) element('events').lastChild.remove();
}

function packet(event) {
  conversation(event);
  if (event.type === 'speech/Event') isSpeech = event.fields.event === 'speech_start';
  if (event.type === 'spatial/Imu' || event.type === 'spatial/Pose' || event.type === 'spatial/Orientation') {
    plot(event);
    return;
  }
  if (event.type === 'audio/Played') return;
  const fields = Object.entries(event.fields).map(([key, value]) => `${key} ${JSON.stringify(value)}`).join('  ');
  log(`${event.at.toFixed(3).padStart(9)} s  ${event.node}  ${event.type}  ${fields}`);
}

const handlers = {
  graph: (message) => { graph = message; element('name').textContent = graph.name; draw(); },
  figures: (message) => {
    // Rates over a second.
    if (!earlier || message.wall_ns - earlier.wall_ns > 1e9) earlier = figures ?? message;
    figures = message;
    update();
  },
  packet,
  sound: wave,
  scene,
  turn: waterfall,
  failure: (message) => log(`${message.node}: ${message.error}`, true),
  lost: (message) => log(`this page was too slow for ${message.count} packets`, true),
};

function connect() {
  const scheme = location.protocol === 'https:' ? 'wss' : 'ws';
  const socket = new WebSocket(`${scheme}://${location.host}/live`);
  socket.binaryType = 'arraybuffer';
  socket.onmessage = ({ data }) => {
    if (data instanceof ArrayBuffer) { image(data); return; }
    const message = JSON.parse(data);
    for (const [kind, content] of Object.entries(message)) handlers[kind]?.(content);
  };
  socket.onclose = () => {
    element('state').textContent = 'the graph has ended, or cannot be reached; connecting again …';
    setTimeout(connect, 1000);
  };
}

const found = await (await fetch('devices.json')).json();
if (found.live) {
  connect();
  setInterval(() => { drawWaves(); drawPlots(); }, 100);
}
