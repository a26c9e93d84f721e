// The token: asked for when the daemon wants one, kept for this tab alone.
import { token } from "./connection.js";
import { byId, el, setAttribute, setText, setVisible } from "./dom.js";

const advice = "Open the link that loaderd page prints, or give a token of the daemon's (loaderd token flight, loaderd token create, " +
  "or the file that flight.token_file names). It stays in this tab.";

// askForToken shows why one is asked for, and returns when another one was given.
export function askForToken(problem) {
  return new Promise((given) => {
    byId("token")?.remove();
    const input = el("input", { id: "token-input", type: "password", autocomplete: "current-password", required: true, size: 40 });
    const wrong = token.get() !== null;
    const form = el("form", { class: "ask", onsubmit: (e) => {
      e.preventDefault();
      token.set(input.value.trim());
      form.parentElement.remove();
      setVisible(byId("forget"), true);
      setVisible(byId("main"), true);
      setAttribute(document.documentElement, "data-denied", null);
      given();
    } }, el("label", { for: "token-input" }, "Token"), input, el("button", { type: "submit" }, "Look"));
    const node = el("section", { id: "token", "aria-labelledby": "token-title" }, el("h2", { id: "token-title" }, "This daemon asks who you are"),
      el("p", { class: wrong ? "problem" : "small" }, wrong ? `${problem.message}. ${problem.advice}` : advice), form);
    byId("top").after(node);
    setVisible(byId("main"), false);
    setAttribute(document.documentElement, "data-denied", "");
    setText(byId("sentence"), "A token is needed to see the run");
    input.focus();
  });
}

export function startToken() {
  setVisible(byId("forget"), token.get() !== null);
  byId("forget").addEventListener("click", () => {
    token.forget();
    location.reload();
  });
}
