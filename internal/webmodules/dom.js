// Elements, made and kept up to date. Text goes in as text: nothing here reads HTML.

const namespace = "http://www.w3.org/2000/svg";

// el makes an element: properties are attributes, on... are listeners, null and false leave one out; children are nodes and text.
export function el(tag, properties = {}, ...children) {
  return fill(document.createElement(tag), properties, children);
}

// svg does the same for a drawing.
export function svg(tag, properties = {}, ...children) {
  return fill(document.createElementNS(namespace, tag), properties, children);
}

function fill(node, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((c) => c !== null && c !== undefined && c !== false));
  return node;
}

export const byId = (id) => document.getElementById(id);

// say sets a text, and touches nothing where it stands already: a selection stays.
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

// show hides an element or shows it.
export function setVisible(node, visible) {
  if (node.hidden === visible) node.hidden = !visible;
}

// mark sets an attribute, or takes it away.
export function setAttribute(node, name, value) {
  if (value === null || value === undefined || value === false) node.removeAttribute(name);
  else if (node.getAttribute(name) !== String(value)) node.setAttribute(name, value);
}

const kept = new WeakMap();

// keyed makes the children of a parent those of items, in order: make(item) returns {node, ...} for a new one, update({node, ...}, item) brings one up to
// date. An item that stays keeps its element, and with it focus and selection.
export function reconcile(parent, items, keyOf, make, update) {
  const before = kept.get(parent) ?? new Map();
  const now = new Map();
  for (const item of items) {
    const key = keyOf(item);
    const row = before.get(key) ?? make(item);
    update(row, item);
    now.set(key, row);
  }
  for (const [key, row] of before) if (!now.has(key)) row.node.remove();
  let place = parent.firstElementChild;
  for (const row of now.values()) {
    if (row.node === place) place = place.nextElementSibling;
    else parent.insertBefore(row.node, place);
  }
  kept.set(parent, now);
}

// table makes a table that update(rows) fills. Columns are {name, about, text(row), cell(row)}: cell fills an element where text is not enough.
export function table(caption, columns, keyOf, rowClass = () => "") {
  const body = el("tbody");
  const heads = columns.map((c) => el("th", { scope: "col", title: c.about, class: c.left ? "left" : null }, c.name));
  const node = el("table", {}, el("caption", { class: "unseen" }, caption), el("thead", {}, el("tr", {}, ...heads)), body);
  const make = () => {
    const cells = columns.map((c, i) => el(i === 0 ? "th" : "td", { scope: i === 0 ? "row" : null, class: c.left ? "left" : null }));
    return { node: el("tr", {}, ...cells), cells };
  };
  const update = (row, item) => {
    setAttribute(row.node, "class", rowClass(item) || null);
    columns.forEach((c, i) => (c.cell ? c.cell(row.cells[i], item) : setText(row.cells[i], c.text(item))));
  };
  return { node, update: (rows) => reconcile(body, rows, keyOf, make, update) };
}
