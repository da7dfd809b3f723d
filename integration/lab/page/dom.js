// Small helpers for elements.

export function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "text") made.textContent = value;
    else if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

export function byId(id) {
  return document.getElementById(id);
}

// Set a text only where it differs, so that nothing is laid out or read aloud anew.
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export function setHidden(node, hidden) {
  if (node.hidden !== hidden) node.hidden = hidden;
}

// Call `action` once the calls have ceased for a while.
export function debounced(action, milliseconds) {
  let timer = 0;
  const later = (...args) => {
    clearTimeout(timer);
    timer = setTimeout(() => { timer = 0; action(...args); }, milliseconds);
  };
  later.waits = () => timer !== 0;
  later.cancel = () => { clearTimeout(timer); timer = 0; };
  return later;
}

// Call `action` before one of the next pictures, but no oftener than every so many milliseconds. A page that
// nobody sees gets no pictures: then it is asked for one only.
export function throttled(action, milliseconds) {
  let asked = false;
  let last = -Infinity;
  const act = () => {
    asked = false;
    last = performance.now();
    action();
  };
  return () => {
    if (asked) return;
    asked = true;
    const wait = last + milliseconds - performance.now();
    if (wait <= 0) requestAnimationFrame(act);
    else setTimeout(() => requestAnimationFrame(act), wait);
  };
}

// A select that keeps what is chosen when its options are set anew.
export function setOptions(select, options) {
  const wanted = JSON.stringify(options);
  if (select.dataset.options === wanted) return;
  const chosen = select.value;
  select.dataset.options = wanted;
  select.replaceChildren(...options.map(([value, text]) => element("option", { value, text })));
  if (options.some(([value]) => value === chosen)) select.value = chosen;
}
