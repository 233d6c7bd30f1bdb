import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { OfflineModelError } from "../../../src/offline/exchange.ts";
import { parseScenario } from "../../../src/offline/scenario.ts";

it("takes one script or a list of them", () => {
  expect(parseScenario({ turns: [{}] })).toEqual([{ turns: [{ content: [] }] }]);
  expect(parseScenario([{ turns: [{}] }, { turns: [{}], repeat: true }])).toHaveLength(2);
});

it.each([
  ["no turns", { turns: [] }, /turns/],
  ["an unknown field", { turns: [{ says: "x" }] }, /turns\.0: .*says/],
  ["a stop reason that is no text", { turns: [{ stop_reason: 5 }] }, /turns\.0\.stop_reason/],
  ["a bad regular expression", { match: { user: { regex: "(" } }, turns: [{}] }, /match\.user/],
  ["an error status that is none", { turns: [{ error: { status: 200 } }] }, /turns\.0\.error\.status/],
  ["an empty list", [], /scenario/],
  ["nothing at all", 5, /scenario/],
])("refuses %s and says where it is wrong", (_, scenario, place) => {
  const attempt = () => parseScenario(scenario);
  expect(attempt).toThrow(OfflineModelError);
  expect(attempt).toThrow(place);
});

it("plays the one that stands in docs/operations.md", () => {
  const [, json = ""] =
    /```json\n([^`]*)```/.exec(readFileSync("docs/operations.md", "utf8").split("--scenario")[1] ?? "") ?? [];
  expect(parseScenario(JSON.parse(json))).toHaveLength(2);
});

it("says what a failure may be", () => {
  const failing = (failure: unknown) => () => parseScenario({ turns: [{ failures: [failure] }] });
  for (const failure of [{ status: 529 }, { reset: true }, { stream: { truncateAfterChunks: 1 } }])
    expect(failing(failure)).not.toThrow();
  expect(failing({ error: { status: 529 } })).toThrow(
    'turns.0.failures.0: must be {"status": 529}, {"reset": true} or {"stream": …}.',
  );
});
