// What can be done to the job once: kill a subtask or a task manager, cut a link, stop the job for a time, take
// a checkpoint.

import { byId, setOptions } from "./dom.js";
import { subtaskName } from "./format.js";

export class Faults {
  constructor(model, say) {
    this.model = model;
    const act = (message) => say({ side: model.acting, ...message });
    byId("kill-subtask").addEventListener("click", () => {
      const [vertex, subtask] = JSON.parse(byId("subtask").value);
      act({ type: "kill", vertex, subtask });
    });
    byId("kill-task-manager").addEventListener("click", () => {
      act({ type: "kill", task_manager: byId("task-manager").value });
    });
    byId("cut-form").addEventListener("submit", (event) => {
      event.preventDefault();
      act({ type: "cut", link: JSON.parse(byId("link").value), seconds: byId("cut-seconds").valueAsNumber });
    });
    byId("outage-form").addEventListener("submit", (event) => {
      event.preventDefault();
      act({ type: "stop_for", seconds: byId("outage-seconds").valueAsNumber });
    });
    byId("take-checkpoint").addEventListener("click", () => act({ type: "take_checkpoint" }));
  }

  update() {
    const { vertices, task_managers, links } = this.model.hello;
    setOptions(byId("subtask"), vertices.flatMap((vertex) => Array.from({ length: vertex.parallelism },
      (_, place) => [JSON.stringify([vertex.name, place]), subtaskName(vertex, place)])));
    setOptions(byId("task-manager"), task_managers.map((name) => [name, name]));
    setOptions(byId("link"), links.map((link) => [JSON.stringify(link), link.join(" → ")]));
    byId("cut-form").hidden = links.length === 0;
  }

  choose(vertex, subtask) {
    byId("subtask").value = JSON.stringify([vertex, subtask]);
  }
}
