/** A log line as a person reads it on a terminal; files and pipes get the JSON. Pure. */
import type { Look, Style } from "./style.ts";
import { plainLine } from "./text.ts";

const LEVELS: readonly [number, string, Look | undefined][] = [
  [50, "error", "red"],
  [40, "warn", "bold"],
  [30, "info", undefined],
  [0, "debug", "dim"],
];
const NOT_SHOWN = new Set(["level", "time", "msg", "v", "stack"]);

/** `warn  Redis connection failed  role=worker problem="…"`; a line that is not JSON comes back as it is. */
export function formatLogLine(line: string, style: Style): string {
  const entry = parse(line);
  if (!entry) return plainLine(line);
  const [, name, look] = LEVELS.find(([least]) => Number(entry.level) >= least) ?? [0, "info", undefined];
  const fields = Object.entries(entry)
    .filter(([key]) => !NOT_SHOWN.has(key))
    .map(
      ([key, value]) =>
        `${key}=${typeof value === "string" && !/\s/.test(value) ? value : JSON.stringify(value)}`,
    );
  const rest = fields.length > 0 ? `  ${style("dim", plainLine(fields.join(" ")))}` : "";
  return `${style(look, name.padEnd(5))}  ${plainLine(String(entry.msg ?? ""))}${rest}`;
}

function parse(line: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(line);
    return typeof value === "object" && value !== null ? { ...value } : undefined;
  } catch {
    return undefined;
  }
}
