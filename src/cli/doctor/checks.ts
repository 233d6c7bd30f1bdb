/** Every trouble the doctor knows, and how a finding is made of it. Pure. */
import { AGENT_CHECKS } from "./agent-checks.ts";
import type { Check } from "./check.ts";
import { INSTALLATION_CHECKS } from "./installation-checks.ts";
import type { Finding } from "./report.ts";

const CHECKS = { ...INSTALLATION_CHECKS, ...AGENT_CHECKS };

/** The name of a check. */
export type CheckName = keyof typeof CHECKS;

const MOST_NAMES = 100;

/** The finding of `check` at `names`; nothing was found at none. `more` says it otherwise than the table. */
export function findingOf(
  check: CheckName,
  names: readonly string[],
  more: Partial<Pick<Finding, "what" | "todo" | "severity" | "count">> = {},
): Finding[] {
  const { count = names.length } = more;
  if (count === 0) return [];
  const known: Check = CHECKS[check];
  const { area, severity, todo } = known;
  const what = known.what(count);
  return [
    {
      check,
      area,
      severity,
      what,
      todo,
      ...more,
      count,
      names: names.slice(0, MOST_NAMES),
      fixable: known.did !== undefined,
    },
  ];
}

/** What `--fix` did about `count` of `check`; undefined for what it leaves alone. */
export function didAbout(check: string, count: number): string | undefined {
  const known: Check | undefined = Object.hasOwn(CHECKS, check) ? CHECKS[check as CheckName] : undefined;
  return known?.did?.(count);
}
