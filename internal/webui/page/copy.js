// A command line with a copy button.
import { el, setText } from "./dom.js";

// copyable returns {node, setText(command)}.
export function copyable() {
  const command = el("code");
  const note = el("span", { class: "small", role: "status" });
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(command.textContent);
      setText(note, "Copied");
    } catch { // browsers permit clipboard access only over TLS and from localhost
      getSelection().selectAllChildren(command);
      setText(note, "Selected. Copy it with the keyboard.");
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
