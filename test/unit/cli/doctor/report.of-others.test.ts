import { expect, test } from "vitest";
import { type DoctorReport, renderReport } from "../../../../src/cli/doctor/report.ts";
import { createStyle } from "../../../../src/cli/terminal/output.ts";

const style = createStyle(false);
const finding = {
  check: "x",
  area: "redis",
  severity: "warn",
  what: "w",
  names: [],
  todo: "",
  fixable: false,
};
const report = (more: Partial<DoctorReport>, count = 1, part: object = {}): DoctorReport => ({
  ...{ v: 1, status: "warnings", checked_at: "2026-11-21T00:00:00.000Z", redis: "redis://h", prefix: "saq" },
  ...{ errors: 0, warnings: 1, areas: [{ area: "redis", severity: "warn", summary: "s" }] },
  findings: [{ ...finding, count, ...part } as DoctorReport["findings"][number]],
  ...more,
});

test("the names that are left out are counted, those too of which the report has no name", () => {
  const names = Array.from({ length: 100 }, (_, n) => `p/${n}`);
  expect(renderReport(report({}, 120, { names }), undefined, style)).toContain(
    "      p/0, p/1, p/2, p/3, p/4, and 115 more",
  );
});

test("what a server said of itself cannot move the cursor or turn the text around", () => {
  const hostile = "a\u001b[2J\u009b\u202eb";
  const lines = renderReport(
    report({ areas: [{ area: "redis", severity: "warn", summary: hostile }] }, 1, { what: hostile }),
    undefined,
    style,
  );
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these must be gone
  for (const line of lines) expect(line).not.toMatch(/[\u0000-\u001f\u007f-\u009f\u202e]/);
});
