// Marks are drawn over the cells of the heatmap: the times in which overrides hold a key, and events. Events that lie
// near to each other share a mark.

// stacked groups events, oldest first, by their places: an event nearer than least pixels to the first of a group joins
// the group.
export function stacked(events, placeOf, least) {
  const stacks = [];
  for (const e of events) {
    const x = placeOf(e), last = stacks.at(-1);
    if (last && x - last.x < least) last.events.push(e);
    else stacks.push({ x, events: [e] });
  }
  return stacks;
}

// isByPerson reports whether an event is the act of a person.
export const isByPerson = ({ kind }) => kind.startsWith("override_");

// holdsOf returns the times between begin and end in which overrides were in force, as {from, until, override, of}.
// of(key) reports whether the override is of a key of the heatmap. Events has the changes of that time, and present
// holds the overrides that are in force now, of which some were set before.
export function holdsOf(events, present, begin, end) {
  const open = new Map(), seen = new Set(), ended = [];
  const add = (o, from) => open.set(o.id, {
    from: Math.max(from, begin), until: o.until ? Date.parse(o.until) : Infinity, override: o, of: matcher(o),
  });
  const close = (o, at) => {
    if (!seen.has(o.id)) add(o, begin); // it was set before
    const hold = open.get(o.id);
    if (hold) ended.push({ ...hold, until: Math.min(at, hold.until) });
    open.delete(o.id);
  };
  for (const { kind, at, detail } of events) {
    const o = detail?.override, set = kind === "override_put" || (kind === "override_undone" && !detail?.gone);
    if (!o) continue;
    if (kind === "override_put" && !seen.has(o.id)) seen.add(o.id);
    close(o, Date.parse(at));
    seen.add(o.id);
    if (kind === "override_began" || (set && !o.schedule)) add(o, Date.parse(at));
  }
  for (const o of present) {
    if (o.source === "live" && o.active && !open.has(o.id)) add(o, o.schedule ? begin : Date.parse(o.created));
  }
  return [...ended, ...open.values()].map((h) => ({ ...h, until: Math.min(h.until, end) }))
    .filter((h) => h.of && h.from < h.until);
}

// matcher returns a function that reports whether an override is of a key, or null for overrides of clients.
function matcher(o) {
  if (o.resource) return ({ key }) => key.split("?")[0] === o.resource;
  if (!o.key) return null;
  if (!o.key.includes("*")) return ({ key }) => key === o.key;
  const glob = new RegExp(`^${o.key.split("*").map(escaped).join(".*")}$`, "s");
  return ({ key }) => glob.test(key);
}

const escaped = (text) => text.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&");

// isTried reports whether an override denies nothing and is only counted.
export const isTried = ({ override: o }) => o.mode === "shadow" || o.action === "shadow";
