/** How often the live block is drawn, and what a plain line tells of an alert. */
import { expect, test } from "vitest";
import { createOutput } from "../../../../src/cli/terminal/output.ts";
import { createProgress, lineAbout } from "../../../../src/cli/terminal/progress.ts";
import { createManualClock } from "../manual-clock.ts";

const head = { v: 1, agent_id: "a", name: "A", run: 1, turn: 1 } as const;

test("events soon after a redraw wait until it is 100 ms old", () => {
  const written: string[] = [];
  const stream = {
    isTTY: true,
    columns: 80,
    rows: 24,
    on: () => {},
    write: (text: string) => written.push(text),
  };
  const clock = createManualClock();
  const progress = createProgress(createOutput(stream, stream, { NO_COLOR: "1" }), clock);
  progress.start();
  progress.add("A");
  clock.advance(0);
  const drawn = written.length;
  progress.apply({ ...head, type: "turn_finished", tokens: 10, cost_usd: 0 });
  clock.advance(99);
  expect(written).toHaveLength(drawn);
  clock.advance(1);
  expect(written).toHaveLength(drawn + 1);
});

test("the line of an alert has the value that was reached, and not the threshold", () => {
  const alert = { kind: "tokens" as const, threshold: 1_000, value: 1_234 };
  expect(lineAbout({ ...head, type: "alert", alert })).toBe("alert: tokens reached 1,234");
});
