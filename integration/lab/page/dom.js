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

// Call `action` soon, but no oftener than every so many milliseconds.
export function throttled(action, milliseconds) {
  let timer = 0;
  let last = -Infinity;
  return () => {
    if (timer !== 0) return;
    const wait = Math.max(0, last + milliseconds - performance.now());
    timer = setTimeout(() => {
      timer = 0;
      last = performance.now();
      requestAnimationFrame(action);
    }, wait);
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
