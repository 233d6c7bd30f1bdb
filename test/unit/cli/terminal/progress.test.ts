import { expect, test } from "vitest";
import { createOutput } from "../../../../src/cli/terminal/output.ts";
import { createProgress } from "../../../../src/cli/terminal/progress.ts";
import type { ProgressEvent } from "../../../../src/shared/protocol/reply.ts";
import { createManualClock } from "../manual-clock.ts";
import { sampleReply } from "../sample-reply.ts";

function setUp(isTTY: boolean) {
  const written: string[] = [];
  const stream = { isTTY, columns: 80, rows: 24, on: () => {}, write: (text: string) => written.push(text) };
  const clock = createManualClock();
  const progress = createProgress(createOutput(stream, stream, { NO_COLOR: "1" }), clock);
  return { written, clock, progress };
}

const turn = (name: string, n: number): ProgressEvent => ({
  v: 1,
  type: "turn_finished",
  agent_id: "a",
  name,
  run: 1,
  turn: n,
  tokens: 10,
  cost_usd: 0,
});

test("a burst of events is one redraw, and ages move once a second", () => {
  const { written, clock, progress } = setUp(true);
  progress.start();
  progress.add("A");
  clock.advance(0);
  expect(written).toHaveLength(1);
  for (let n = 1; n <= 50; n += 1) progress.apply(turn("A", n));
  clock.advance(100);
  expect(written).toHaveLength(2);
  expect(written[1]).toMatch(/50 +500 /);
  clock.advance(3_000);
  expect(written).toHaveLength(5);
  expect(written.at(-1)).toContain("3s");
});

test("stop takes the block away and leaves no timer, and may be called twice", () => {
  const { written, clock, progress } = setUp(true);
  progress.start();
  progress.add("A");
  clock.advance(0);
  progress.stop();
  progress.stop();
  expect(written.at(-1)).toBe("\u001b[2A\r\u001b[J");
  expect(clock.pending).toBe(0);
  progress.add("B");
  expect(clock.pending).toBe(0);
});

test("a finished agent shows its reply, a dropped one goes", () => {
  const { written, clock, progress } = setUp(true);
  progress.start();
  progress.add("A");
  progress.add("B");
  progress.finish("A", sampleReply());
  progress.drop("B");
  clock.advance(100);
  expect(written.at(-1)).toMatch(/✔ A.*succeeded.*4,812/);
  expect(written.at(-1)).not.toContain("B");
});

test.each([true, false])("an event that comes after the reply tells nothing (terminal: %s)", (isTTY) => {
  const { written, clock, progress } = setUp(isTTY);
  progress.start();
  progress.add("A");
  progress.finish("A", sampleReply());
  clock.advance(100);
  const before = written.length;
  progress.apply({ ...turn("A", 9), type: "tool_started", tool_use_id: "t", tool: "grep" });
  clock.advance(100);
  expect(written).toHaveLength(before);
});

test("without a terminal there are plain lines about what matters, and no timer", () => {
  const { written, clock, progress } = setUp(false);
  progress.start();
  progress.add("A");
  const base = { v: 1, agent_id: "a", name: "A", run: 1, turn: 1 } as const;
  const tool = { tool_use_id: "t", tool: "grep" };
  progress.apply({ ...base, type: "run_started", turn: 0, max_turns: 30, worker: "w" });
  progress.apply({ ...base, type: "turn_started" });
  progress.apply({ ...base, type: "text_delta", text: "secret" });
  progress.apply({ ...base, type: "turn_finished", tokens: 1_234, cost_usd: 0.5 });
  progress.apply({ ...base, type: "tool_started", ...tool });
  progress.apply({ ...base, type: "tool_started", ...tool, tool_use_id: "t2" });
  progress.apply({ ...base, type: "tool_finished", ...tool, is_error: false, duration_ms: 3 });
  progress.apply({ ...base, type: "model_retry", kind: "overloaded", delay_ms: 2_000 });
  progress.apply({ ...base, type: "alert", alert: { kind: "turns", threshold: 1, value: 1 } });
  progress.apply({ ...base, type: "waiting", question: "Which\ncolour?" });
  progress.apply({ ...base, type: "released", reason: "drain" });
  progress.apply(turn("somebody else's", 1));
  expect(written.join("")).toBe(
    [
      "A: started, at most 30 turns",
      "A: turn 1, 1,234 tokens, $0.5000",
      "A: turn 1, grep",
      "A: turn 1, the model is asked again in 2s (overloaded)",
      "A: alert: turns reached 1",
      "A: asks: Which colour?",
      "A: handed back to the queue: its worker is stopping",
      "",
    ].join("\n"),
  );
  expect(clock.pending).toBe(0);
});

test("a run that is handed back again and again says so once, and again after it has got on", () => {
  const { written, progress } = setUp(false);
  progress.start();
  progress.add("A");
  const base = { v: 1, agent_id: "a", name: "A", run: 1, turn: 0 } as const;
  const started = { ...base, type: "run_started", max_turns: 30, worker: "w" } as const;
  const refused = { ...base, type: "released", reason: "authentication" } as const;
  const again = { ...base, type: "run_continued", worker: "w" } as const;
  const lost = { ...base, type: "worker_lost", worker: "w" } as const;
  for (const event of [started, refused, again, refused, again, turn("A", 1), lost, lost, again])
    progress.apply(event);
  expect(written.join("").split("\n")).toEqual([
    "A: started, at most 30 turns",
    "A: handed back to the queue: the provider refuses the workers' API key; the run waits until a worker has a valid one",
    "A: goes on, with worker w",
    "A: turn 1, 10 tokens, $0",
    "A: its worker is gone, or was silent for too long: w",
    "A: goes on, with worker w",
    "",
  ]);
});

test("the time without Redis counts from the first look that failed, and begins anew after an answer", () => {
  const { written, clock, progress } = setUp(true);
  progress.start();
  progress.add("A");
  progress.away(true);
  clock.advance(2_000);
  progress.away(true);
  clock.advance(3_000);
  expect(written.at(-1)).toContain("Redis has not answered for 5s");
  progress.away(false);
  clock.advance(1_000);
  expect(written.at(-1)).not.toContain("Redis has not answered");
  progress.away(true);
  clock.advance(1_000);
  expect(written.at(-1)).toContain("Redis has not answered for 1s");
});

test("a row that was dropped leaves no memory: the lines of its namesake are said", () => {
  const { written, progress } = setUp(false);
  progress.start();
  for (let n = 0; n < 2; n += 1) {
    progress.add("A");
    progress.apply({ ...turn("A", 1), type: "run_started", max_turns: 3, worker: "w" } as ProgressEvent);
    progress.drop("A");
  }
  expect(written).toEqual(["A: started, at most 3 turns\n", "A: started, at most 3 turns\n"]);
});
