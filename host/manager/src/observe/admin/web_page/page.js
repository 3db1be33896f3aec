// The script of the web page. It reads what the admin address has and shows it; it commands nothing.
//
// Names, errors and lines are what plugins and users of the cluster wrote. They become text nodes and nothing else: every
// element is made by `element`, and the policy of the page takes no text for markup.
"use strict";

const PERIOD = 2000;
// Beyond it a host that is stopped, or a network that is gone, is said to be so.
const LONGEST_WAIT = 10000;
const MOST_LINES = 500;
const LEVELS = ["TRACE", "DEBUG", "INFO", "WARN", "ERROR"];

const $ = (id) => document.getElementById(id);

/** An element with a class and children, of which those that are no elements become text. */
function element(name, className, ...children) {
  const made = document.createElement(name);
  if (className) made.className = className;
  made.append(...children.map((child) => (child instanceof Node ? child : String(child))));
  return made;
}

// Asking.

let token = "";

class Refused extends Error {
  constructor(status, text) {
    super(text || `the host answered ${status}`);
    this.status = status;
  }
}

function get(path) {
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  return fetch(path, { headers, cache: "no-store", signal: AbortSignal.timeout(LONGEST_WAIT) });
}

async function ask(path) {
  const answer = await get(path);
  if (!answer.ok) throw new Refused(answer.status, (await answer.text()).trim());
  return answer.json();
}

/** The answer has a reason for those who may read plugins. */
async function readiness() {
  const answer = await get("readyz");
  return (await answer.text()).trim();
}

// Figures.

function bytes(number) {
  for (const unit of ["B", "KiB", "MiB"]) {
    if (number < 1024) return `${unit === "B" ? number : number.toFixed(1)} ${unit}`;
    number /= 1024;
  }
  return `${number.toFixed(1)} GiB`;
}

function duration(seconds) {
  if (seconds < 0.001) return `${(seconds * 1e6).toFixed(0)} µs`;
  if (seconds < 1) return `${(seconds * 1e3).toFixed(1)} ms`;
  return `${seconds.toFixed(2)} s`;
}

function span(seconds) {
  const minutes = Math.floor(seconds / 60);
  const hours = Math.floor(minutes / 60);
  const days = Math.floor(hours / 24);
  if (days) return `${days}d${hours % 24}h`;
  if (hours) return `${hours}h${minutes % 60}m`;
  return minutes ? `${minutes}m${Math.floor(seconds % 60)}s` : `${Math.floor(seconds)}s`;
}

const calls = (time) => time.buckets.reduce((sum, [, count]) => sum + count, 0);

/** What a plugin did since the answer before; null in the first interval. */
function rates(before, plugin, seconds) {
  // A plugin that was removed and added again begins anew.
  const grows = (of) => before[of] <= plugin[of];
  if (!before || seconds <= 0 || !["reconciles", "events", "failures", "cpuSeconds"].every(grows)) return null;
  const done = calls(plugin.reconcileTime) - calls(before.reconcileTime);
  return {
    reconciles: (plugin.reconciles - before.reconciles) / seconds,
    events: (plugin.events - before.events) / seconds,
    failures: (plugin.failures - before.failures) / seconds,
    cpu: (plugin.cpuSeconds - before.cpuSeconds) / seconds,
    mean: done > 0 ? (plugin.reconcileTime.sum - before.reconcileTime.sum) / done : null,
  };
}

// The table of plugins.

const rate = (of) => (row) => (row.rates ? of(row.rates) : null);
const fixed = (value) => (value === null ? "–" : value.toFixed(1));
const COLUMNS = [
  { title: "Plugin", value: (row) => row.name },
  { title: "State", value: (row) => row.state },
  { title: "Gen", number: true, value: (row) => row.generation },
  { title: "Reconciles/s", number: true, value: rate((r) => r.reconciles), show: fixed },
  { title: "Events/s", number: true, value: rate((r) => r.events), show: fixed },
  { title: "Failures/s", number: true, value: rate((r) => r.failures), show: fixed },
  { title: "Mean", number: true, value: rate((r) => r.mean), show: (v) => (v === null ? "–" : duration(v)) },
  { title: "CPU %", number: true, value: rate((r) => 100 * r.cpu), show: fixed },
  { title: "Memory", number: true, value: (row) => row.memoryBytes, show: bytes },
  { title: "Ready", number: true, value: (row) => row.queueDepth },
  { title: "Delayed", number: true, value: (row) => row.queueDelayed },
  { title: "Last error", value: (row) => row.lastError || row.waitingFor || row.hostCondition || "" },
];
let sorted = { column: 0, descends: false };
let rows = [];

function headings() {
  const heads = COLUMNS.map((column, index) => {
    const button = element("button", "", column.title);
    button.type = "button";
    button.addEventListener("click", () => {
      const again = sorted.column === index;
      sorted = { column: index, descends: again ? !sorted.descends : Boolean(column.number) };
      headings();
      showRows();
    });
    const head = element("th", column.number ? "number" : "", button);
    if (sorted.column === index) head.setAttribute("aria-sort", sorted.descends ? "descending" : "ascending");
    return head;
  });
  $("columns").replaceChildren(...heads);
}

function showRows() {
  const { value } = COLUMNS[sorted.column];
  const compare = (a, b) => {
    const [x, y] = [value(a), value(b)];
    if (x === y) return a.name < b.name ? -1 : 1;
    if (x === null || y === null) return x === null ? 1 : -1;
    return (x < y ? -1 : 1) * (sorted.descends ? -1 : 1);
  };
  const shown = [...rows].sort(compare).map((row) => {
    const cells = COLUMNS.map((column, index) => {
      const text = (column.show || String)(column.value(row));
      if (index === 0) {
        const link = element("a", "", text);
        link.href = `#plugin=${encodeURIComponent(row.name)}`;
        return element("td", "", link);
      }
      if (index === 1) return element("td", row.state, text);
      if (index === COLUMNS.length - 1) return element("td", "error", element("span", "cut", text));
      return element("td", column.number ? "number" : "", text);
    });
    return element("tr", "", ...cells);
  });
  $("rows").replaceChildren(...shown);
}

let last = null;

async function updatePlugins() {
  const now = await ask("plugins?usage=true");
  const same = last && last.started === now.started;
  if (!same) next = 0;
  const before = new Map(same ? last.plugins.map((plugin) => [plugin.name, plugin]) : []);
  const seconds = same ? now.seconds - last.seconds : 0;
  rows = now.plugins.map((plugin) => ({ ...plugin, rates: rates(before.get(plugin.name), plugin, seconds) }));
  last = now;
  // Thousands of rows are not made anew while nobody sees them.
  if (view().name === "plugins") showRows();
  const running = rows.filter((row) => row.state === "running").length;
  const sum = (of) => rows.reduce((total, row) => total + (row.rates ? of(row.rates) : 0), 0);
  const parts = [
    await readiness(),
    `up ${span(now.seconds)}`,
    `${running} of ${rows.length} plugins running`,
    `${sum((r) => r.reconciles).toFixed(1)} reconciles/s`,
    `${sum((r) => r.failures).toFixed(1)} failures/s`,
    `CPU ${(100 * sum((r) => r.cpu)).toFixed(1)} %`,
  ];
  return parts.join(" · ");
}

// One plugin.

function facts(pairs) {
  const list = element("dl", "");
  for (const [name, value] of pairs) {
    if (value === undefined || value === null || value === "") continue;
    list.append(element("dt", "", name), element("dd", "", value));
  }
  return list;
}

function lister(title, texts) {
  if (!texts.length) return [];
  return [element("h2", "", title), element("ul", "", ...texts.map((text) => element("li", "", text)))];
}

const all = (text, none) => (text && text.length ? text : none);

function grantText(rule) {
  const groups = (rule.groups || []).map((group) => group || "core").join(",");
  const places = all((rule.namespaces || []).join(","), "the cluster");
  const names = all((rule.names || []).join(","), "all names");
  return `${rule.verbs.join(",")} ${rule.resources.join(",")} (${groups}) in ${places}, ${names}`;
}

function watchText(watch) {
  const informers = watch.informers.map((informer) => {
    const error = informer.error ? `, ${informer.error}` : "";
    return `${informer.namespace || "*"}/${informer.name || "*"} (${informer.objects} objects${error})`;
  });
  return `${watch.kind} to ${watch.map}, from ${informers.join(" ")}`;
}

async function updatePlugin(name) {
  let plugin;
  try {
    // A name may have a namespace and a cluster, and the host compares the path as it is.
    plugin = await ask(`plugins/${encodeURI(name)}`);
  } catch (error) {
    // What is shown is not of this plugin, or of one that is gone.
    if (error instanceof Refused) $("plugin").replaceChildren();
    throw error;
  }
  const current = plugin.current || { grants: [], watches: [], limits: [] };
  const rolledBack = plugin.rolledBack;
  $("plugin").replaceChildren(
    element("h2", "", plugin.name, " ", element("span", plugin.state, plugin.state)),
    facts([
      ["Waiting for", plugin.waitingFor],
      ["Last error", plugin.lastError],
      ["Host condition", plugin.hostCondition],
      ["Next try", plugin.nextTry],
      ["Quarantined until", plugin.quarantinedUntil],
      ["Generation", plugin.generation],
      ["Component", plugin.digest],
      ["Last good", plugin.lastGood && `generation ${plugin.lastGood.generation}, ${plugin.lastGood.digest}`],
      ["Rolled back", rolledBack && `from generation ${rolledBack.from}: ${rolledBack.reason}`],
      ["Calls", `${plugin.calls}; ${plugin.inFlight} of ${plugin.instances} instances in use`],
      ["Reconciles", `${plugin.reconciles}; ${plugin.events} events; ${plugin.failures} failures`],
      ["Queue", `${plugin.queueDepth} ready, ${plugin.queueDelayed} delayed`],
      ["CPU", duration(plugin.cpuSeconds)],
      ["Memory", bytes(plugin.memoryBytes)],
      ["Manifest", current.manifestDigest],
      ["Configuration", current.configDigest],
      ["Service account", current.serviceAccount],
    ]),
    ...lister("Warnings", plugin.warnings || []),
    ...lister("Errors", plugin.errors.map((e) => `${e.last} (${e.count} times) ${e.message}`)),
    ...lister("Watches", current.watches.map(watchText)),
    ...lister("Permissions", current.grants.map(grantText)),
    ...lister(
      "Permissions in remote clusters",
      (current.remoteClusters || []).flatMap(({ clusters, grants }) =>
        grants.map((rule) => `${clusters.map((c) => c.name).join(", ")}: ${grantText(rule)}`)),
    ),
    ...lister(
      "Remote clusters that cannot be called",
      (current.remoteClusters || []).flatMap(({ clusters }) =>
        clusters.filter((c) => c.error).map((c) => `${c.name}: ${c.error}`)),
    ),
    ...lister(
      "Limits",
      current.limits.map((l) => `${l.name}: ${l.limit || "none"}${l.used ? `, ${l.used} used` : ""}`),
    ),
  );
}

// Caches.

async function updateCaches() {
  const { caches } = await ask("caches");
  const shown = caches.map((cache) => {
    const group = cache.group ? `${cache.resource}.${cache.group}` : cache.resource;
    const state = cache.error || (cache.synced ? "synced" : "first list");
    return element(
      "tr",
      "",
      element("td", "", `${group} ${cache.version}`),
      element("td", "", cache.namespace || "*"),
      element("td", "", cache.name || "*"),
      ...[cache.objects, cache.listeners, cache.queued].map((number) => element("td", "number", number)),
      element("td", cache.error ? "error" : "", state),
    );
  });
  $("cache-rows").replaceChildren(...shown);
}

// The log.

let next = 0;
let lines = [];

function isShown(line) {
  const plugin = $("log-plugin").value.trim();
  const level = LEVELS.indexOf($("log-level").value);
  return (!plugin || line.plugin === plugin) && LEVELS.indexOf(line.level) >= level;
}

function lineElement(line) {
  const who = line.plugin || "host";
  const time = element("span", "dim", line.time.slice(0, 23));
  const fields = line.fields ? [" ", element("span", "dim text", line.fields)] : [];
  const text = element("span", "text", line.message);
  return element("li", "", time, " ", element("span", line.level, line.level), ` ${who}  `, text, ...fields);
}

function showLines() {
  $("lines").replaceChildren(...lines.filter(isShown).map(lineElement));
  if ($("log-follow").checked) window.scrollTo(0, document.body.scrollHeight);
}

async function updateLog() {
  const before = next;
  const page = await ask(`log?after=${next}`);
  if (!before) lines = [];
  if (before && page.missed) {
    const message = `${page.missed} lines came too fast and are not shown`;
    lines.push({ time: "", level: "WARN", target: "", message });
  }
  lines = lines.concat(page.lines).slice(-MOST_LINES);
  next = page.next;
  if (page.lines.length || !before) showLines();
}

// Views.

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function view() {
  const [name, plugin] = location.hash.slice(1).split("=");
  if (name === "plugin" && plugin) return { name, plugin: decoded(plugin) };
  return { name: ["caches", "log"].includes(name) ? name : "plugins" };
}

function showView() {
  const { name } = view();
  for (const id of ["plugins", "plugin", "caches", "log"]) $(id).hidden = id !== name;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.hash === (name === "plugin" ? "#plugins" : `#${name}`)) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

let updates = 0;

async function update() {
  const summary = $("summary");
  try {
    const text = await updatePlugins();
    const { name, plugin } = view();
    if (name === "plugin") await updatePlugin(plugin);
    if (name === "caches") await updateCaches();
    if (name === "log") await updateLog();
    summary.textContent = text;
    summary.className = "";
    $("sign-in").hidden = true;
    updates += 1;
    document.documentElement.dataset.updates = updates;
  } catch (error) {
    summary.textContent = error instanceof Refused ? error.message : "the host does not answer";
    summary.className = "bad";
    if (error.status === 401 || error.status === 403) $("sign-in").hidden = false;
  }
}

let timer;
let turn = Promise.resolve();

/** Updates after what is being updated, and then again and again. */
function run() {
  turn = turn.then(async () => {
    clearTimeout(timer);
    // Otherwise nobody looks.
    if (!document.hidden) await update();
    timer = setTimeout(run, PERIOD);
  });
}

$("sign-in").addEventListener("submit", (event) => {
  event.preventDefault();
  token = $("token").value.trim();
  $("token").value = "";
  run();
});
$("log-filter").addEventListener("submit", (event) => event.preventDefault());
for (const id of ["log-plugin", "log-level", "log-follow"]) $(id).addEventListener("input", showLines);
addEventListener("hashchange", () => {
  showView();
  run();
});
document.addEventListener("visibilitychange", run);
headings();
showView();
run();
