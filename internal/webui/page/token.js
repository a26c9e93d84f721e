// The prompt for a token. The token is stored in this tab's session storage.
import { token } from "./connection.js";
import { byId, el, setAttribute, setText, setVisible } from "./dom.js";

const advice = "Open the link that loaderd page prints, or enter a token of the daemon (from loaderd token flight, loaderd token " +
  "create, or the file flight.token_file). The token is stored only in this tab.";

// askForToken prompts for a token and shows the problem. The promise resolves when a token was entered.
export function askForToken(problem) {
  return new Promise((resolve) => {
    byId("token")?.remove();
    const input = el("input", { id: "token-input", type: "password", autocomplete: "current-password", required: true, size: 40 });
    const rejected = token.get() !== null;
    const form = el("form", { class: "ask", onsubmit: (e) => {
      e.preventDefault();
      token.set(input.value.trim());
      form.parentElement.remove();
      setVisible(byId("forget"), true);
      setVisible(byId("main"), true);
      setAttribute(document.documentElement, "data-denied", null);
      resolve();
    } }, el("label", { for: "token-input" }, "Token"), input, el("button", { type: "submit" }, "Log in"));
    const node = el("section", { id: "token", "aria-labelledby": "token-title" }, el("h2", { id: "token-title" }, "Authentication required"),
      el("p", { class: rejected ? "problem" : "small" }, rejected ? `${problem.message}. ${problem.advice}` : advice), form);
    byId("top").after(node);
    setVisible(byId("main"), false);
    setAttribute(document.documentElement, "data-denied", "");
    setText(byId("sentence"), "Enter a token to see the run");
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
