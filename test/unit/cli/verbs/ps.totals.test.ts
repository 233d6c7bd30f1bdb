import { expect, test } from "vitest";
import type { ParentSnapshot } from "../../../../src/cli/local/parents.ts";
import { createStyle } from "../../../../src/cli/terminal/output.ts";
import { renderParents } from "../../../../src/cli/verbs/ps.ts";
import { sumUsage } from "../../../../src/shared/protocol/usage.ts";

function snapshot(parentId: string, statuses: string[], cost_usd: number, tenant = "default") {
  const agents = statuses.map((status, n) => ({ agent_id: `a${n}`, status, run: 1 }));
  const today = { ...sumUsage({}, 0), tokens: 1_234, cost_usd };
  return { parent: { tenant, parentId }, activeAtMs: 5_000, agents, today, unacked: 3 } as ParentSnapshot;
}

const render = (...snapshots: ParentSnapshot[]) =>
  renderParents(snapshots, 65_000, undefined, createStyle(false)).map((line) => line.trim().split(/ {2,}/));

test("each state of the agents has its column, and a tenant its name before the parent", () => {
  const statuses = ["running", "queued", "queued", "waiting", "waiting", "waiting", "idle"];
  const [titles, row] = render(snapshot("planner", statuses, 1.5, "acme"));
  const cells = Object.fromEntries((titles ?? []).map((title, n) => [title, row?.[n]]));
  expect(cells).toEqual({
    ...{ parent: "acme/planner", running: "1", queued: "2", waiting: "3", idle: "1", unacked: "3" },
    ...{ "tokens today": "1,234", "cost today": "$1.50", active: "1m00s ago" },
  });
});

test("several parents have totals, one has none", () => {
  const [first, second] = [snapshot("a", ["running"], 1.5), snapshot("b", ["idle", "queued"], 0.5)];
  expect(render(first, second).at(-1)).toEqual(["2 parents · 3 live agents · $2.00 today (UTC)"]);
  expect(render(first)).toHaveLength(2);
});
