// Creates and updates DOM elements. Strings become text nodes; nothing here parses HTML.

const namespace = "http://www.w3.org/2000/svg";

// el creates an HTML element. A property is an attribute, or an event listener if its name starts with "on". Properties
// that are null, undefined or false are omitted. Children are nodes and strings.
export function el(tag, properties = {}, ...children) {
  return fill(document.createElement(tag), properties, children);
}

// svg creates an SVG element, with the same parameters as el.
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

// setText sets the text of a node. An unchanged text is not written, which preserves the user's selection.
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export function setVisible(node, visible) {
  if (node.hidden === visible) node.hidden = !visible;
}

// setAttribute sets an attribute. It removes the attribute if the value is null, undefined or false.
export function setAttribute(node, name, value) {
  if (value === null || value === undefined || value === false) node.removeAttribute(name);
  else if (node.getAttribute(name) !== String(value)) node.setAttribute(name, value);
}

const childrenOf = new WeakMap(); // parent to its children by key

// reconcile gives a parent one child per item, in order. make(item) returns {node, ...} for a new item, and
// update({node, ...}, item) updates a child. Items that remain keep their elements, and thus focus and selection.
export function reconcile(parent, items, keyOf, make, update) {
  const before = childrenOf.get(parent) ?? new Map();
  const now = new Map();
  for (const item of items) {
    const key = keyOf(item);
    const row = before.get(key) ?? make(item);
    update(row, item);
    now.set(key, row);
  }
  for (const [key, row] of before) if (!now.has(key)) row.node.remove();
  let next = parent.firstElementChild;
  for (const row of now.values()) {
    if (row.node === next) next = next.nextElementSibling;
    else parent.insertBefore(row.node, next);
  }
  childrenOf.set(parent, now);
}

// table creates a table as {node, update(rows)}. A column is {name, about, left, text(row), cell(element, row)};
// cell replaces text for cells with child elements.
export function table(caption, columns, keyOf, rowClass = () => "") {
  const body = el("tbody");
  const left = (c) => (c.left ? "left" : null);
  const heads = columns.map((c) => el("th", { scope: "col", title: c.about, class: left(c) }, c.name));
  const head = el("thead", {}, el("tr", {}, ...heads));
  const node = el("table", {}, el("caption", { class: "unseen" }, caption), head, body);
  const make = () => {
    const cells = columns.map((c, i) =>
      el(i === 0 ? "th" : "td", { scope: i === 0 ? "row" : null, class: left(c) }),
    );
    return { node: el("tr", {}, ...cells), cells };
  };
  const update = (row, item) => {
    setAttribute(row.node, "class", rowClass(item) || null);
    columns.forEach((c, i) => (c.cell ? c.cell(row.cells[i], item) : setText(row.cells[i], c.text(item))));
  };
  return { node, update: (rows) => reconcile(body, rows, keyOf, make, update) };
}
