import fc from "fast-check";
import { expect, test } from "vitest";
import { next } from "../../../../src/worker/loop/next.ts";
import { replyBody } from "../../../../src/worker/loop/reply-body.ts";
import type { RunState } from "../../../../src/worker/loop/state.ts";
import { cases, expectSame } from "../../../helpers/cases.ts";
import { problemOf } from "./accepted.ts";
import { call, conversation, rules, text } from "./story.ts";
import { again, type Life, lifeFrom, liveOn, logOf, narrowScripts, type Script, scripts } from "./world.ts";

const newborn = () => lifeFrom([], []);

/** The first `length` entries of a finished life, before the worker at that point did anything more. */
function cutAt(finished: Life, length: number): Life {
  const over = finished.settled.filter(({ at }) => at < length);
  return lifeFrom(finished.entries.slice(0, length), over);
}

/** All entries in the order of their keys, those left out whose content depends on where a worker died. */
function content(life: Life, elsewhere: Life): string {
  const cutOff = [...life.entries, ...elsewhere.entries].filter(([, json]) =>
    json.includes('"interrupted":true'),
  );
  const depends = new Set(cutOff.map(([key]) => key));
  const known = life.entries.map(([key, json]) => (depends.has(key) ? key : `${key} ${json}`));
  return known.sort().join("\n");
}

/** The Messages API takes this conversation. */
function expectTaken(messages: Parameters<typeof problemOf>[0]): void {
  const problem = problemOf(messages);
  if (problem !== undefined) expect(problem, JSON.stringify(messages)).toBeUndefined();
}

/** A model that asks one question after the other. */
const asking = again(
  ["Which?", "Where?", "When?", "Who?"].map((question) => ({
    content: [call(question.slice(0, 3), "ask_parent", { question })],
  })),
  { rules: rules({ max_turns: 9 }, { canAsk: true }) },
);

/** Each situation that is counted below, whatever the random scripts are. */
const SITUATIONS = [
  asking,
  again([{ content: [call("a")] }, { content: [call("b")] }]),
  again([{ stop: "end_turn", content: [text("done")] }]),
  again([{ stop: "max_tokens", content: [text("cut")] }]),
  again([{ stop: "unheard_of" }]),
];

test("a finished log, cut at every entry, comes to the same end and repeats no committed step", () => {
  const seen = { cuts: 0, interrupted: 0, answers: 0, unanswered: 0, reasons: new Set<string>() };
  fc.assert(
    fc.property(scripts, (script) => {
      const finished = liveOn(script, newborn());
      for (let length = 0; length <= finished.entries.length; length++) {
        const resumed = liveOn(script, cutAt(finished, length));
        expectSame(JSON.stringify(resumed.settled), JSON.stringify(finished.settled));
        expectSame(content(resumed, finished), content(finished, resumed));
        seen.cuts += 1;
        seen.unanswered += resumed.entries.filter(([, json]) => json.includes("unanswered")).length;
        seen.interrupted += resumed.entries.filter(([, json]) => json.includes("interrupted")).length;
      }
      seen.answers += finished.entries.filter(([, json]) => json.includes("answer to")).length;
      for (const { reason } of finished.settled) seen.reasons.add(reason);
    }),
    { numRuns: cases(60), examples: SITUATIONS.map((script) => [script]) },
  );
  expect(seen.cuts).toBeGreaterThan(500);
  expect(seen.interrupted).toBeGreaterThan(50);
  expect(seen.answers).toBeGreaterThan(5);
  expect(seen.unanswered).toBeGreaterThan(5);
  expect([...seen.reasons]).toEqual(
    expect.arrayContaining(["end_turn", "max_turns", "max_tokens", "model_error"]),
  );
});

test("any subset of a log's entries has a next step, and the run ends within max_turns calls", () => {
  const subsets = fc.record({ script: scripts, upTo: fc.nat(100), keep: fc.array(fc.boolean()) });
  fc.assert(
    fc.property(subsets, ({ script, upTo, keep }) => {
      const cut = cutAt(liveOn(script, newborn()), upTo);
      const life = lifeFrom(
        cut.entries.filter((_, i) => keep[i % keep.length] ?? true),
        cut.settled,
      );
      liveOn(script, life);
      for (const run of new Set(life.calls)) {
        const calls = life.calls.filter((other) => other === run);
        expect(calls.length).toBeLessThanOrEqual(script.rules.limits.max_turns);
      }
    }),
    { numRuns: cases(100) },
  );
});

test("the Messages API takes the conversation of every prefix, and each call's goes on from the last answered one's", () => {
  const seen = { calls: 0, finalCalls: 0, summaries: 0 };
  const everyPrefix = (script: Script, life: Life) => {
    for (let length = 1; length <= life.entries.length; length++) {
      const messages = conversation(logOf(script, cutAt(life, length)));
      if (messages.length > 0) expectTaken(messages);
    }
  };
  fc.assert(
    fc.property(fc.oneof(scripts, narrowScripts), (script) => {
      let answered: string[] = [];
      let sent = { run: 0, message: 0, blocks: answered };
      const life = liveOn(script, newborn(), (log, step) => {
        // What is left out or summed up begins the conversation anew.
        if (step.do === "clear" || (step.do === "call_model" && step.compactBefore !== undefined)) {
          answered = [];
          sent = { ...sent, blocks: [] };
        }
        if (step.do !== "call_model") return;
        if (step.compactBefore !== undefined) {
          const asked = JSON.parse(`[${log.conversation.summaryRequest(step.compactBefore).messages}]`);
          expectTaken(asked);
          expect(asked.at(-1).content.at(-1).text).toMatch(/^Stop here: /);
          seen.summaries += 1;
          return;
        }
        const messages = conversation(log, step.finalCall);
        expectTaken(messages);
        if (log.last?.stopReason !== "pause_turn") expectSame(messages.at(-1)?.role, "user");
        const blocks = messages.flatMap(({ role, content }) =>
          content.map((block) => JSON.stringify([role, block])),
        );
        if (sent.message !== step.message) answered = sent.run === log.run ? sent.blocks : [];
        expectSame(blocks.slice(0, answered.length).join("\n"), answered.join("\n"));
        sent = { run: log.run, message: step.message, blocks };
        seen.calls += 1;
        if (step.finalCall) seen.finalCalls += 1;
      });
      everyPrefix(script, life);
    }),
    { numRuns: cases(100) },
  );
  expect(seen.calls).toBeGreaterThan(300);
  expect(seen.finalCalls).toBeGreaterThan(50);
  expect(seen.summaries).toBeGreaterThan(10);
});

test("deciding changes nothing and depends on nothing but the log, in whatever order Redis returns it", () => {
  const orders = fc.record({
    script: scripts,
    upTo: fc.nat(100),
    seed: fc.array(fc.nat(), { minLength: 1 }),
  });
  const judge = (script: Script, state: RunState) => [
    next(state, script.rules),
    replyBody(state, script.rules),
    conversation(state),
  ];
  fc.assert(
    fc.property(orders, ({ script, upTo, seed }) => {
      const cut = cutAt(liveOn(script, newborn()), upTo);
      const judged = JSON.stringify(judge(script, logOf(script, cut)));
      expect(JSON.stringify(judge(script, logOf(script, cut)))).toBe(judged);
      const shuffled = cut.entries
        .map((entry, i) => ({ entry, rank: (seed[i % seed.length] ?? 0) * (i + 1) }))
        .sort((a, b) => a.rank - b.rank)
        .map(({ entry }) => entry);
      expect(JSON.stringify(judge(script, logOf(script, lifeFrom(shuffled, cut.settled))))).toBe(judged);
    }),
    { numRuns: cases(100) },
  );
});
