// A command to copy.
import { el, setText } from "./dom.js";

// copyable returns {node, say(command)}.
export function copyable() {
  const command = el("code");
  const note = el("span", { class: "small", role: "status" });
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(command.textContent);
      setText(note, "Copied");
    } catch { // browsers lend the clipboard to pages by TLS or from this machine alone
      getSelection().selectAllChildren(command);
      setText(note, "Selected: copy it with the keyboard");
    }
  };
  return {
    node: el("p", { class: "command" }, command, " ", el("button", { type: "button", onclick: copy }, "Copy"), " ", note),
    setText: (text) => {
      setText(command, text);
      setText(note, "");
    },
  };
}
