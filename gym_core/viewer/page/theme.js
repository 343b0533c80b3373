// Light or dark: as the system says, until one chooses.

import { recall, remember } from "./source.js";

const THEME = "gym-view-theme";

export function applyTheme() {
  const chosen = recall(THEME);
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
}

export function toggleTheme() {
  const shown = document.documentElement.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  const next = shown === "dark" ? "light" : "dark";
  document.documentElement.dataset.theme = next;
  remember(THEME, next);
}
