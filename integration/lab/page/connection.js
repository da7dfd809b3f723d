// The websocket to the lab: says what has come, and tries again when it is lost.

const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 10_000;
const REFUSALS = {
  4403: "The token of this page is wrong. Open the address that netstack lab has printed.",
  4429: "Too many pages of this lab are open. Close one of them and load this page again.",
};

export class Connection {
  #socket = null;
  #wait = FIRST_WAIT_MS;

  // `heard` is called with each message, `changed` with what is wrong, or null where all is well.
  constructor(heard, changed) {
    this.heard = heard;
    this.changed = changed;
  }

  open() {
    const token = new URLSearchParams(location.search).get("token") ?? "";
    const socket = new WebSocket(`ws://${location.host}/ws?token=${encodeURIComponent(token)}`);
    this.#socket = socket;
    socket.addEventListener("message", (event) => {
      if (this.#wait !== FIRST_WAIT_MS) this.#wait = FIRST_WAIT_MS;
      this.heard(JSON.parse(event.data));
    });
    socket.addEventListener("close", (event) => this.#closed(event.code));
  }

  #closed(code) {
    if (code in REFUSALS) {
      this.changed(REFUSALS[code]);
      return;
    }
    this.changed("The lab has ended or the connection was lost. This page tries to connect again.");
    setTimeout(() => this.open(), this.#wait);
    this.#wait = Math.min(LONGEST_WAIT_MS, this.#wait * 2);
  }

  // Returns whether it could be said.
  say(message) {
    if (this.#socket?.readyState !== WebSocket.OPEN) return false;
    this.#socket.send(JSON.stringify(message));
    return true;
  }
}
