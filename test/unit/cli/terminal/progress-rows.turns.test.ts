/** Guarantee: terminal and live page count the same turns as `list`, `show`, replies and the API: those that have an answer. */
import { expect, test } from "vitest";
import { newRow, rowAfter, rowWithView } from "../../../../src/cli/terminal/progress-rows.ts";
import { NOTHING_DONE, type ProgressEvent } from "../../../../src/shared/protocol/reply.ts";
import { agentsAfter, createSightings } from "../../../../web/sightings.js";
import { sampleAgent } from "../sample-agent.ts";

const head = { v: 1, agent_id: "a", name: "A", run: 1 } as const;
const STEPS: readonly [event: ProgressEvent, answered: number][] = [
  [{ ...head, type: "run_started", turn: 0, max_turns: 20, worker: "w" }, 0],
  [{ ...head, type: "turn_started", turn: 1 }, 0],
  [{ ...head, type: "text_delta", turn: 1, text: "x" }, 0],
  [{ ...head, type: "model_retry", turn: 1, kind: "overloaded", delay_ms: 1 }, 0],
  [{ ...head, type: "turn_finished", turn: 1, tokens: 1, cost_usd: 0 }, 1],
  [{ ...head, type: "tool_started", turn: 1, tool_use_id: "t", tool: "grep" }, 1],
  [{ ...head, type: "turn_started", turn: 2 }, 1],
  [{ ...head, type: "tool_started", turn: 2, tool_use_id: "u", tool: "grep" }, 2],
];

test("a turn counts once it has an answer, for a viewer of all events and for one that came late", () => {
  const live = [sampleAgent({ agent_id: "a", run: 1, status: "running" })];
  const none = live.map(({ progress: _, ...view }) => view);
  let row = newRow("A", 0);
  const sightings = createSightings();
  for (const [event, answered] of STEPS) {
    row = rowAfter(row, event);
    sightings.hear({ rawEvent: event });
    const late = createSightings();
    late.hear({ rawEvent: event });
    const shown = [
      row,
      rowAfter(newRow("A", 0), event),
      ...[sightings, late].flatMap((of) => agentsAfter(of, none)),
    ];
    expect(
      shown.map(({ turns }) => turns),
      `${event.type} ${event.turn}`,
    ).toEqual([answered, answered, answered, answered]);
  }
});

test("the count of the record stands where no event has told more", () => {
  const turns = 3;
  const progress = { ...NOTHING_DONE, turns };
  const view = sampleAgent({ status: "running", run: 1, progress });
  expect(rowWithView(undefined, view, { nowMs: 0, ageMs: 0 }).turns).toBe(turns);
  expect(agentsAfter(createSightings(), [view])).toMatchObject([{ turns }]);
});
