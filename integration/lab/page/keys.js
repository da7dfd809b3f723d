// Keys of the whole page, where nothing that has the focus wants them itself.

const OWN_KEYS = "button, input, select, textarea, summary, a, dialog, .scroll, #incidents, [role=application]";

export function listenToKeys({ pause, step }) {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
    const wanted = event.target instanceof Element ? event.target.closest(OWN_KEYS) : null;
    const inDrawing = wanted?.getAttribute("role") === "application";
    if (event.key === " " && (wanted === null || inDrawing)) {
      event.preventDefault();
      if (!event.repeat) pause();
    } else if (event.key === "ArrowRight" && wanted === null) {
      event.preventDefault();
      step();
    }
  });
}
