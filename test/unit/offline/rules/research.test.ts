import { expect, it } from "vitest";
import { research, tellingWords } from "../../../../src/offline/rules/research.ts";

it("prefers identifiers and long words, in the order of the text", () => {
  expect(tellingWords("Find where maxStalledCount and the lease deadline are used")).toEqual([
    "maxStalledCount",
    "lease",
    "deadline",
  ]);
  expect(tellingWords("Please summarise your findings about it")).toEqual([]);
});

it("looks for file names when it may not search in files", () => {
  const draft = research.next({
    text: "Find quasars",
    steps: [],
    offered: new Set(["glob"]),
    places: ["/a", "/b"],
  });
  expect(draft).toMatchObject({
    calls: [
      { name: "glob", input: { path: "/a" } },
      { name: "glob", input: { path: "/b" } },
    ],
  });
});

it("reports what failed", () => {
  const task = { text: "Find quasars", offered: new Set(["grep"]), places: ["."] };
  const first = research.next({ ...task, steps: [] });
  const steps =
    first.kind === "calls" ? first.calls.map((call) => ({ ...call, output: "timed out", failed: true })) : [];
  expect(research.next({ ...task, steps })).toMatchObject({
    text: "I searched for quasars, but grep failed: timed out.",
  });
});
