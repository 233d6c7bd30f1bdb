import { expect, test } from "vitest";
import { renderAgents } from "../../../src/cli/list.ts";
import { createStyle } from "../../../src/cli/style.ts";
import { cells } from "../../../src/cli/text.ts";
import { sampleAgent } from "./sample-agent.ts";

const agents = [
  sampleAgent(),
  sampleAgent({ agent_id: "b", name: "B \u001b[31m漢", status: "running", run: 12 }),
];

test("the table has one aligned line an agent, and nothing that a terminal obeys", () => {
  expect(renderAgents(agents, 65_000, undefined, createStyle(false))).toEqual([
    "agent id        status   run  turn  tokens  cost    age  name",
    "data_collector  idle       0  0/20       0    $0  1m05s  Data Collector",
    "b               running   12  0/20       0    $0  1m05s  B 漢",
  ]);
});

test("on a narrow terminal the name is cut, then columns leave; no line is wider and no number or id is cut", () => {
  const at = (columns: number) => renderAgents(agents, 0, columns, createStyle(false));
  for (const columns of [30, 40, 50, 60]) {
    for (const line of at(columns)) expect(cells(line)).toBeLessThan(columns);
  }
  expect(at(68)[1]).toBe("data_collector  idle       0  0/20       0    $0   0s  Data Collec…");
  expect(at(40)[1]).toBe("data_collector  idle       0  0/20   0s");
  expect(at(10)[1]).toBe("data_collector  idle");
});
