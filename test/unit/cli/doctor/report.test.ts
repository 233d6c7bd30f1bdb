import { expect, test } from "vitest";
import type { DoctorReport } from "../../../../src/cli/doctor/report.ts";
import { renderReport } from "../../../../src/cli/doctor/report.ts";
import { createStyle } from "../../../../src/cli/terminal/output.ts";
import { cells } from "../../../../src/cli/terminal/text.ts";

const style = createStyle(false);
const report: DoctorReport = {
  v: 1,
  status: "errors",
  checked_at: "2026-11-21T00:00:00.000Z",
  redis: "redis://127.0.0.1:6379",
  prefix: "saq",
  errors: 1,
  warnings: 0,
  areas: [
    { area: "redis", severity: "ok", summary: "redis 7.0.15 · AOF everysec · noeviction · 2 MB in use" },
    { area: "agents", severity: "error", summary: "12 live · 12 queued · 0 ended" },
  ],
  findings: [
    {
      check: "stale_queued",
      area: "agents",
      severity: "error",
      what: "7 agents are queued, overdue, and no wake will start them",
      count: 7,
      names: ["p/a", "p/b", "p/c", "p/d", "p/e", "p/f", "\u001b[31mp/g\u202e"],
      todo: "doctor --fix does what is due; a live worker does it by itself",
      fixable: true,
    },
  ],
};

test("a report without a terminal: one line a thing, unwrapped and without colour", () => {
  expect(renderReport(report, undefined, style)).toEqual([
    "redis://127.0.0.1:6379 · prefix saq",
    "",
    "✔ Redis       redis 7.0.15 · AOF everysec · noeviction · 2 MB in use",
    "✖ Agents      12 live · 12 queued · 0 ended",
    "  ✖ 7 agents are queued, overdue, and no wake will start them",
    "      p/a, p/b, p/c, p/d, p/e, and 2 more",
    "    → doctor --fix does what is due; a live worker does it by itself",
    "",
    "✖ 1 error, 0 warnings",
  ]);
});

test.each([40, 80, 200])("no line is wider than a terminal of %i columns", (columns) => {
  for (const line of renderReport(report, columns, style)) expect(cells(line)).toBeLessThan(columns);
});

test("names from Redis cannot move the cursor or turn the text around", () => {
  const hostile = report.findings.map((finding) => ({ ...finding, names: finding.names.slice(6) }));
  const text = renderReport({ ...report, findings: hostile }, 80, style).join("\n");
  expect(text).toContain("p/g");
  // biome-ignore lint/suspicious/noControlCharactersInRegex: looking for control characters is the purpose
  expect(text).not.toMatch(/[\u001b\u202e]/);
});

test("what was repaired is said, and that nothing was", () => {
  const repaired = [{ check: "stale_queued", did: "2 agents woken", count: 2, names: ["p/a", "p/b"] }];
  expect(renderReport({ ...report, repaired }, undefined, style)).toContain("  2 agents woken: p/a, p/b");
  expect(renderReport({ ...report, repaired: [] }, undefined, style)).toContain("Nothing was repaired.");
});

test("health is one word", () => {
  const healthy: DoctorReport = { ...report, status: "healthy", errors: 0, findings: [] };
  expect(renderReport(healthy, 80, style).at(-1)).toBe("✔ all is well");
});
