/** The doctor's report as people read it: one line an area, below it what was found and what to do. Pure. */
import { formatCount, formatPlural } from "../figures.ts";
import type { Look, Style } from "../style.ts";
import { cutTo, plainLine, wrap } from "../text.ts";
import type { Area, DoctorReport, Finding, Severity } from "./report.ts";

const GLYPHS: Record<Severity, { glyph: string; look: Look }> = {
  ok: { glyph: "✔", look: "green" },
  warn: { glyph: "⚠", look: "yellow" },
  error: { glyph: "✖", look: "red" },
};
const TITLES: Record<Area, string> = {
  redis: "Redis",
  workers: "Workers",
  agents: "Agents",
  replies: "Replies",
  workspaces: "Workspaces",
  model: "Model",
};
const TITLE_CELLS = 12;
const SHOWN_NAMES = 5;
/** Names are cut to this, so that five of them stay readable. */
const NAME_CELLS = 104;
const WIDEST = 120;

/** The report in lines; `columns` undefined: it goes to a file or a pipe, unwrapped. */
export function renderReport(report: DoctorReport, columns: number | undefined, style: Style): string[] {
  const room = columns === undefined ? Number.POSITIVE_INFINITY : Math.min(columns - 1, WIDEST);
  const { redis, prefix, areas, findings, cured } = report;
  return [
    ...hanging("", `${redis} · prefix ${prefix}`, room).map((line) => style("dim", line)),
    "",
    ...areas.flatMap(({ area, severity, summary }) => [
      ...areaLines(area, severity, summary, room, style),
      ...findings
        .filter((finding) => finding.area === area)
        .flatMap((finding) => findingLines(finding, room, style)),
    ]),
    "",
    ...(cured ? curedLines(cured, room, style) : []),
    lastLine(report, style),
  ];
}

function areaLines(area: Area, severity: Severity, summary: string, room: number, style: Style): string[] {
  const { glyph, look } = GLYPHS[severity];
  const title = TITLES[area].padEnd(TITLE_CELLS);
  const [first = "", ...rest] = hanging(`  ${title}`, plainLine(summary), room);
  return [`${style(look, glyph)} ${style("bold", title)}${first.slice(2 + TITLE_CELLS)}`, ...rest];
}

function findingLines({ severity, what, names, count, todo }: Finding, room: number, style: Style): string[] {
  const { glyph, look } = GLYPHS[severity];
  const [first = "", ...rest] = hanging("    ", plainLine(what), room);
  const shown = names.slice(0, SHOWN_NAMES).map((name) => cutTo(plainLine(name), NAME_CELLS));
  const more = count - shown.length;
  const listed = [...shown, ...(shown.length > 0 && more > 0 ? [`and ${formatCount(more)} more`] : [])];
  return [
    `  ${style(look, glyph)} ${first.slice(4)}`,
    ...rest,
    ...(listed.length > 0
      ? hanging("      ", listed.join(", "), room).map((line) => style("dim", line))
      : []),
    ...(todo === "" ? [] : hanging("    → ", todo, room)),
  ];
}

function curedLines(cured: NonNullable<DoctorReport["cured"]>, room: number, style: Style): string[] {
  if (cured.length === 0) return ["Nothing was repaired.", ""];
  const lines = cured.flatMap(({ did, names }) => {
    const shown = names.slice(0, SHOWN_NAMES).map((name) => cutTo(plainLine(name), NAME_CELLS));
    const more = names.length > SHOWN_NAMES ? ", …" : "";
    return hanging("  ", shown.length > 0 ? `${did}: ${shown.join(", ")}${more}` : did, room);
  });
  return [style("bold", "Repaired"), ...lines, ""];
}

function lastLine({ status, errors, warnings }: DoctorReport, style: Style): string {
  if (status === "healthy") return `${style("green", "✔")} all is well`;
  const { glyph, look } = GLYPHS[status === "errors" ? "error" : "warn"];
  return `${style(look, glyph)} ${formatPlural(errors, "error")}, ${formatPlural(warnings, "warning")}`;
}

/** `text` behind `head`, wrapped so that its further lines stand below its beginning. */
function hanging(head: string, text: string, room: number): string[] {
  if (room === Number.POSITIVE_INFINITY) return [head + text];
  const [first = "", ...rest] = wrap(text, room - head.length);
  return [head + first, ...rest.map((line) => " ".repeat(head.length) + line)];
}
