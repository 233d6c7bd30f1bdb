/**
 * The doctor's report. For programs: `doctor --json`; fields are only added, their meaning never changes. For people: one line
 * for each area, below it the findings and what to do. Pure.
 */
import { z } from "zod";
import { formatCount, formatPlural } from "../terminal/numbers.ts";
import type { Style, TextStyle } from "../terminal/output.ts";
import { cutTo, hanging, lineCells, plainLine } from "../terminal/text.ts";

/** `ok`: nothing to do; `warn`: check it; `error`: work is stuck, lost, or about to be. */
const Severity = z.enum(["ok", "warn", "error"]);
type Severity = z.infer<typeof Severity>;

/** The examined areas, in the order of the output. */
export const Area = z.enum(["redis", "workers", "agents", "replies", "workspaces", "model"]);
/** See {@link Area}. */
export type Area = z.infer<typeof Area>;

/** One kind of trouble, and all that have it. */
export const Finding = z.object({
  /** Stable name of the check. */
  check: z.string(),
  area: Area,
  severity: z.enum(["warn", "error"]),
  /** A sentence without names. */
  what: z.string(),
  /** Number of occurrences; at least 1. */
  count: z.int().min(1),
  /** Names of the first 100 occurrences. Ids only: never prompts, replies or secrets. */
  names: z.array(z.string()).max(100),
  /** Remedy, as a sentence. */
  todo: z.string(),
  /** True if `doctor --fix` repairs it. */
  fixable: z.boolean(),
});
/** See {@link Finding}. */
export type Finding = z.infer<typeof Finding>;

/** A repair by `--fix`: the check, its text, the number of repairs, the first 100 names. */
export const Repaired = Finding.pick({ check: true, count: true, names: true }).extend({ did: z.string() });
/** See {@link Repaired}. */
export type Repaired = z.infer<typeof Repaired>;

const AreaLine = z.object({ area: Area, severity: Severity, summary: z.string() });
/** Calls per second that the model backend answered at one concurrency. */
const Throughput = z.object({ concurrency: z.int(), calls: z.int(), calls_per_second: z.number() });
/** The whole report. Only `--fix` adds `repaired`, only `--measure` adds `measured`. */
export const DoctorReport = z.object({
  v: z.literal(1),
  status: z.enum(["healthy", "warnings", "errors"]),
  /** Redis' own time, ISO 8601. */
  checked_at: z.string(),
  /** URL of Redis without its password. */
  redis: z.string(),
  prefix: z.string(),
  errors: z.int(),
  warnings: z.int(),
  areas: z.array(AreaLine),
  findings: z.array(Finding),
  repaired: z.array(Repaired).optional(),
  measured: z.array(Throughput).optional(),
});
/** See {@link DoctorReport}. */
export type DoctorReport = z.infer<typeof DoctorReport>;

const GLYPHS: Record<Severity, { glyph: string; textStyle: TextStyle }> = {
  ok: { glyph: "✔", textStyle: "green" },
  warn: { glyph: "⚠", textStyle: "yellow" },
  error: { glyph: "✖", textStyle: "red" },
};
const TITLE_CELLS = 12;
const SHOWN_NAMES = 5;
/** Maximum width of a name, so that five of them stay readable. */
const NAME_CELLS = 104;
const WIDEST = 120;

/** Returns the report in lines; `columns` undefined: unwrapped, for a file or a pipe. */
export function renderReport(report: DoctorReport, columns: number | undefined, style: Style): string[] {
  const room = lineCells(columns, WIDEST);
  const { redis, prefix, areas, findings, repaired, status, errors, warnings } = report;
  const glyphOf = (severity: Severity) => style(GLYPHS[severity].textStyle, GLYPHS[severity].glyph);
  const dim = (line: string) => style("dim", line);
  const areaLines = ({ area, severity, summary }: DoctorReport["areas"][number]) => {
    const title = (area.slice(0, 1).toUpperCase() + area.slice(1)).padEnd(TITLE_CELLS);
    return hanging(`${glyphOf(severity)} ${style("bold", title)}`, plainLine(summary), room);
  };
  const findingLines = ({ severity, what, names, count, todo }: Finding) => {
    const listed = listOf(names, count);
    return [
      ...hanging(`  ${glyphOf(severity)} `, plainLine(what), room),
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
    ...(repaired
      ? [...(repairs.length > 0 ? [style("bold", "Repaired"), ...repairs] : ["Nothing was repaired."]), ""]
      : []),
    status === "healthy"
      ? `${glyphOf("ok")} all is well`
      : `${glyphOf(status === "errors" ? "error" : "warn")} ${last}`,
  ];
}

/** Lists the first names, and how many more of `count` there are. */
function listOf(names: readonly string[], count: number): string {
  const shown = names.slice(0, SHOWN_NAMES).map((name) => cutTo(plainLine(name), NAME_CELLS));
  const more = count - shown.length;
  return [...shown, ...(shown.length > 0 && more > 0 ? [`and ${formatCount(more)} more`] : [])].join(", ");
}
