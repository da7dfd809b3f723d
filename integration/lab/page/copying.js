// The scenario of a side as TOML, in a dialog: to be copied or to be kept as a file.

import { byId, setText } from "./dom.js";

export class Copying {
  #address = null;

  constructor(model, say) {
    this.model = model;
    this.dialog = byId("copied");
    byId("copy").addEventListener("click", () => say({ type: "copy", side: model.acting }));
    byId("copy-text").addEventListener("click", () => this.#copy());
    byId("close-copied").addEventListener("click", () => this.dialog.close());
    this.dialog.addEventListener("close", () => this.#forget());
  }

  show({ side, toml }) {
    this.#forget();
    byId("toml").value = toml;
    setText(byId("copied-title"), this.model.forked ? `Scenario of side ${side}` : "Scenario");
    setText(byId("copy-done"), "");
    this.#address = URL.createObjectURL(new Blob([toml], { type: "application/toml" }));
    const link = byId("download");
    link.href = this.#address;
    link.download = `${this.model.hello.name.replace(/[^\w.-]+/g, "_")}.toml`;
    if (!this.dialog.open) this.dialog.showModal();
    byId("toml").scrollTop = 0;
  }

  async #copy() {
    const area = byId("toml");
    try {
      await navigator.clipboard.writeText(area.value);
      setText(byId("copy-done"), "Copied.");
    } catch {
      area.select();
      setText(byId("copy-done"), "The browser does not allow it. The text is selected; copy it yourself.");
    }
  }

  #forget() {
    if (this.#address !== null) URL.revokeObjectURL(this.#address);
    this.#address = null;
  }
}
