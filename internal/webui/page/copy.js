// A command to copy.
import { el, say } from "./dom.js";

// copyable returns {node, say(command)}.
export function copyable() {
  const command = el("code");
  const note = el("span", { class: "small", role: "status" });
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(command.textContent);
      say(note, "Copied");
    } catch { // browsers lend the clipboard to pages by TLS or from this machine alone
      getSelection().selectAllChildren(command);
      say(note, "Selected: copy it with the keyboard");
    }
  };
  return {
    node: el("p", { class: "command" }, command, " ", el("button", { type: "button", onclick: copy }, "Copy"), " ", note),
    say: (text) => {
      say(command, text);
      say(note, "");
    },
  };
}
