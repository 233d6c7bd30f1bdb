/** The doctor's report as people read it: one line an area, below it what was found and what to do. Pure. */
import { formatCount, formatPlural } from "../terminal/numbers.ts";
import type { Look, Style } from "../terminal/output.ts";
import { cutTo, hanging, plainLine } from "../terminal/text.ts";
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
  const { redis, prefix, areas, findings, repaired, status, errors, warnings } = report;
  const glyphOf = (severity: Severity) => style(GLYPHS[severity].look, GLYPHS[severity].glyph);
  const dim = (line: string) => style("dim", line);
  const areaLines = ({ area, severity, summary }: DoctorReport["areas"][number]) => {
    const title = TITLES[area].padEnd(TITLE_CELLS);
    const [first = "", ...rest] = hanging(`  ${title}`, plainLine(summary), room);
    return [`${glyphOf(severity)} ${style("bold", title)}${first.slice(2 + TITLE_CELLS)}`, ...rest];
  };
  const findingLines = ({ severity, what, names, count, todo }: Finding) => {
    const [first = "", ...rest] = hanging("    ", plainLine(what), room);
    const listed = listOf(names, count);
    return [
      `  ${glyphOf(severity)} ${first.slice(4)}`,
      ...rest,
      ...(listed === "" ? [] : hanging("      ", listed, room).map(dim)),
      ...(todo === "" ? [] : hanging("    → ", todo, room)),
    ];
  };
  const repairs = (repaired ?? []).flatMap(({ did, names, count }) =>
    hanging("  ", names.length > 0 ? `${did}: ${listOf(names, count)}` : did, room),
  );
  const last = `${formatPlural(errors, "error")}, ${formatPlural(warnings, "warning")}`;
  return [
    ...hanging("", `${redis} · prefix ${prefix}`, room).map(dim),
    "",
    ...areas.flatMap((line) => [
      ...areaLines(line),
      ...findings.filter(({ area }) => area === line.area).flatMap(findingLines),
    ]),
    "",
    ...(repaired ? [...(repairs.length > 0 ? [style("bold", "Repaired"), ...repairs] : [NOTHING]), ""] : []),
    status === "healthy"
      ? `${glyphOf("ok")} all is well`
      : `${glyphOf(status === "errors" ? "error" : "warn")} ${last}`,
  ];
}

const NOTHING = "Nothing was repaired.";

/** The first names of `count`, and how many more there are. */
function listOf(names: readonly string[], count: number): string {
  const shown = names.slice(0, SHOWN_NAMES).map((name) => cutTo(plainLine(name), NAME_CELLS));
  const more = count - shown.length;
  return [...shown, ...(shown.length > 0 && more > 0 ? [`and ${formatCount(more)} more`] : [])].join(", ");
}
