import { expect, test } from "vitest";
import {
  type NewEntry,
  newAnswer,
  newCleared,
  newDelivery,
  newResult,
  newStarted,
  readLog,
} from "../../../../src/worker/loop/log.ts";
import { RunState } from "../../../../src/worker/loop/state.ts";
import { used } from "./story.ts";

const TURNS = 1_200;
/** Kept by all omissions: the text of the conversation is long throughout. */
const SAID = "w".repeat(300);

/** The log of a long run; `clears`: before each call the result of the turn before is left out. */
function logOf(clears: boolean) {
  const entries: NewEntry[] = [];
  const message = { v: 1, message_id: "00000000", text: "go" } as const;
  entries.push(newDelivery(0, 1, [message]));
  for (let turn = 0; turn < TURNS; turn++) {
    const [at, id] = [2 * turn + 1, `toolu_${turn}`];
    const content = [
      { type: "text" as const, text: SAID },
      { type: "tool_use" as const, id, name: "grep", input: { pattern: id } },
    ];
    const answer = { content, contentJson: JSON.stringify(content), stopReason: "tool_use", model: "m" };
    entries.push(newAnswer(at, { ...answer, usage: used(10), costUsd: 0 }, 1));
    entries.push(newStarted(at, id, "grep"), newResult(at, id, "r".repeat(500)));
    if (clears && turn > 0) entries.push(newCleared(at + 1, { v: 1, through: at - 2 }));
  }
  return entries;
}

function foldMs(entries: readonly NewEntry[]): number {
  const log = readLog(entries.map(({ key, json }) => [key, json] as const));
  const times = Array.from({ length: 2 }, () => {
    const since = process.cpuUsage();
    new RunState(1, log).conversation.request();
    const { user, system } = process.cpuUsage(since);
    return (user + system) / 1_000;
  });
  return Math.min(...times);
}

test("a claim of a conversation that was shortened a thousand times costs what its length costs", () => {
  const [once, often] = [foldMs(logOf(false)), foldMs(logOf(true))];
  // Written anew for each omission, the text took two hundred times as long.
  expect(often).toBeLessThan(8 * once + 50);
});

test("what the next call sends is the same after each omission as once it was read from the log", () => {
  const entries = logOf(true).slice(0, 160);
  const live = new RunState(1);
  for (const [i, { entry }] of entries.entries()) {
    live.fold(entry);
    const read = new RunState(
      1,
      readLog(entries.slice(0, i + 1).map(({ key, json }) => [key, json] as const)),
    );
    expect(live.conversation.request()).toEqual(read.conversation.request());
  }
});
