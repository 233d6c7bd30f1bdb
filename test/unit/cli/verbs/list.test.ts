import { expect, test } from "vitest";
import { createStyle } from "../../../../src/cli/terminal/output.ts";
import { cells } from "../../../../src/cli/terminal/text.ts";
import { renderAgents, renderWaits } from "../../../../src/cli/verbs/list.ts";
import { sampleAgent } from "../sample-agent.ts";

const own = "cli";
const style = createStyle(false);
const agents = [
  { parent_id: own, ...sampleAgent() },
  { parent_id: own, ...sampleAgent({ agent_id: "b", name: "B \u001b[31m漢", status: "running", run: 12 }) },
];

test("the table has one aligned line an agent, and nothing that a terminal obeys", () => {
  expect(renderAgents(agents, { own, nowMs: 65_000, columns: undefined, style })).toEqual([
    "agent id        status   run  turns  tokens  cost    age  name",
    "data_collector  idle       0   0/20       0    $0  1m05s  Data Collector",
    "b               running   12   0/20       0    $0  1m05s  B 漢",
  ]);
});

test("below it stands what is asked, one line a question", () => {
  const answer_by = "2026-11-21T00:00:00.000Z";
  const questions = [
    { question_id: "1/a", text: "Which\n\u001b[31mcolour?", answer_by },
    { question_id: "1/b", text: "How much?", answer_by },
  ];
  const asking = [...agents, { parent_id: own, ...sampleAgent({ status: "waiting", questions }) }];
  const at = (columns?: number) => renderWaits(asking, { own, columns, style });
  expect(at()).toEqual(["data_collector asks: Which colour?", "data_collector asks: How much?"]);
  expect(at(28)[0]).toBe("data_collector asks: Which…");
});

test("a queued agent that waits for its provider says for which one, since when and until when", () => {
  const provider_wait = {
    provider: "api.example",
    reason: "rate_limit",
    since: "2026-11-21T12:00:01.000Z",
    next_try_at: "2026-11-21T12:00:11.000Z",
  } as const;
  const queued = { parent_id: own, ...sampleAgent({ status: "queued", provider_wait }) };
  expect(renderWaits([queued], { own, columns: undefined, style })).toEqual([
    "data_collector waits: api.example fails or limits calls (rate_limit): the run has waited since 12:00:01Z, the next attempt is at 12:00:11Z.",
  ]);
});

test("on a narrow terminal the name is cut, then columns leave; no line is wider and no number or id is cut", () => {
  const at = (columns: number) => renderAgents(agents, { own, nowMs: 0, columns, style });
  for (const columns of [30, 40, 50, 60]) {
    for (const line of at(columns)) expect(cells(line)).toBeLessThan(columns);
  }
  expect(at(68)[1]).toBe("data_collector  idle       0   0/20       0    $0   0s  Data Colle…");
  expect(at(40)[1]).toBe("data_collector  idle      0/20   0s");
  expect(at(10)[1]).toBe("data_collector  idle");
});

test("an agent of another parent is named with it, in the table and where it asks", () => {
  const questions = [{ question_id: "1/a", text: "Which?", answer_by: "2026-11-21T00:00:00.000Z" }];
  const other = { parent_id: "cli-7", ...sampleAgent({ status: "waiting", questions }) };
  const view = { own, nowMs: 0, columns: undefined, style };
  expect(renderAgents([...agents, other], view).map((line) => line.slice(0, 22))).toEqual([
    "parent  agent id      ",
    "cli     data_collector",
    "cli     b             ",
    "cli-7   data_collector",
  ]);
  expect(renderWaits([other], view)).toEqual(["cli-7/data_collector asks: Which?"]);
});
