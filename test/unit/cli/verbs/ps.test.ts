import { expect, test } from "vitest";
import type { ParentSnapshot } from "../../../../src/cli/local/parents.ts";
import { createStyle } from "../../../../src/cli/terminal/output.ts";
import { cells } from "../../../../src/cli/terminal/text.ts";
import { renderParents } from "../../../../src/cli/verbs/ps.ts";
import { sumUsage } from "../../../../src/shared/protocol/usage.ts";

function snapshot(parentId: string): ParentSnapshot {
  return {
    parent: { tenant: "default", parentId },
    activeAtMs: 0,
    agents: [],
    today: sumUsage({}, 0),
    unacked: 2,
  };
}

const render = (columns: number | undefined, ...parentIds: string[]) =>
  renderParents(parentIds.map(snapshot), 65_000, columns, createStyle(false));

test("no line is wider than the terminal, however long the parents' ids are", () => {
  const [short, long] = ["planner-7", "p".repeat(64)];
  for (const columns of [50, 60, 80, 100, 140])
    for (const line of render(columns, short, long)) expect(cells(line)).toBeLessThan(columns);
  expect(render(80, long)[1]).toBe(
    "ppppppppppppppppppppppppppppp…        ·       ·        ·          $0  1m05s ago",
  );
  expect(render(undefined, long)[1]).toContain(long);
});

test("an id that fits is not cut: columns leave", () => {
  const id = "p".repeat(30);
  expect(render(80, id)[1]).toContain(id);
});
