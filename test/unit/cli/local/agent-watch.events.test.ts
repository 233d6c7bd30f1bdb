/** Guarantee: a watch whose events fail for good ends with their error, although its polls succeed. */
import { expect, test } from "vitest";
import { watchAgents } from "../../../../src/cli/local/agent-watch.ts";
import { systemClock } from "../../../../src/shared/clock.ts";
import { SubagentError } from "../../../../src/shared/errors.ts";
import type { ProgressEvent } from "../../../../src/shared/protocol/reply.ts";
import { latch } from "../../../helpers/latch.ts";

const failure = new SubagentError("protocol_violation", "unreadable");
const listener = { agent: () => {}, event: () => {}, ended: () => {}, away: () => {} };

/** A parent without agents; its events fail when `broken` opens. */
function parentWith(broken: Promise<void>, list: () => Promise<[]>) {
  return {
    list,
    get: () => Promise.reject(new SubagentError("unknown_agent", "none")),
    events: (): AsyncIterableIterator<ProgressEvent> => ({
      async next() {
        await broken;
        throw failure;
      },
      [Symbol.asyncIterator]() {
        return this;
      },
    }),
  };
}

test("while the polls go on", async () => {
  const polled = latch();
  const parent = parentWith(polled.opened, async () => {
    polled.open();
    return [];
  });
  const watching = watchAgents(
    parent,
    { clock: systemClock, signal: new AbortController().signal },
    listener,
  );
  await expect(watching).rejects.toBe(failure);
});

test("after a poll has ended it: the error of the poll counts", async () => {
  const over = latch();
  const refused = new SubagentError("invalid_config", "refused");
  const parent = parentWith(over.opened, () => Promise.reject(refused));
  const watching = watchAgents(
    parent,
    { clock: systemClock, signal: new AbortController().signal },
    listener,
  );
  await expect(watching).rejects.toBe(refused);
  over.open();
  // An error that nobody takes would end the process now.
  await new Promise(setImmediate);
});
