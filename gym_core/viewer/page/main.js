// The page: a bar on top, one view below it, chosen by the address.

import { Gone, openSource } from "./source.js";
import { h, replace } from "./dom.js";
import { closeOverlay, listenToKeys, showHelp, useKeys } from "./keys.js";
import { readAddress } from "./routes.js";
import { showRollout } from "./rollout_view.js";
import { showRun } from "./run_view.js";
import { showRuns } from "./runs_view.js";
import { applyTheme, toggleTheme } from "./theme.js";
import { visibleText } from "./text.js";

function start() {
  applyTheme();
  const source = openSource();
  const place = h("nav", { class: "place", "aria-label": "Place", testid: "place" });
  const live = h("span", { class: "live", testid: "live", hidden: true }, h("i", { class: "dot tone-live" }), "live");
  const trouble = h("div", { class: "trouble", role: "status", testid: "trouble", hidden: true });
  const main = h("main", { testid: "main" });
  const bar = h(
    "header",
    { class: "top" },
    h("a", { class: "brand", href: "#/", title: "all runs", testid: "home" }, "gym"),
    place,
    h("span", { class: "spring" }),
    live,
    source.isLive ? null : h("span", { class: "faint small" }, "exported file"),
    h("button", { type: "button", class: "icon", title: "light or dark (t)", "aria-label": "light or dark", testid: "theme", on: { click: toggleTheme } }, "\u25d0"),
    h("button", { type: "button", class: "icon", title: "keyboard (?)", "aria-label": "keyboard", testid: "help-open", on: { click: showHelp } }, "?"),
  );
  replace(document.getElementById("app"), bar, trouble, main);

  const app = {
    main,
    setPlace(parts) {
      const links = [{ name: "Runs", href: "#/" }, ...parts];
      replace(place, links.map((part, n) => [n ? h("span", { class: "slash" }, "/") : null, part.href && n < links.length - 1 ? h("a", { href: part.href }, part.name) : h("span", {}, part.name)]));
      document.title = visibleText([...links.map((part) => part.name)].reverse().slice(0, 2).join(" \u00b7 ")) + " \u00b7 gym";
    },
    setLive(isLive) {
      live.hidden = !isLive;
    },
    fail(error) {
      trouble.hidden = error === null;
      if (error === null) return;
      if (!(error instanceof Gone)) console.error(error);
      replace(trouble, error instanceof Gone ? error.message : `This page met something that it cannot show: ${error.message}`);
    },
  };

  let leave = () => {};
  function show() {
    leave();
    closeOverlay();
    useKeys({});
    app.setLive(false);
    app.fail(null);
    scrollTo(0, 0);
    const address = readAddress(location.hash);
    if (address.view === "rollout") leave = showRollout(app, source, address.run, address.rollout);
    else if (address.view === "run") leave = showRun(app, source, address.run);
    else leave = showRuns(app, source);
  }

  listenToKeys({ "?": showHelp, t: toggleTheme });
  addEventListener("hashchange", show);
  show();
}

start();
