import { expect, test } from "vitest";
import { createLogger } from "../../../../src/shared/logger.ts";
import type { BudgetBook } from "../../../../src/shared/redis/budget.ts";
import { createWriteRetry, withBudgetRetry } from "../../../../src/worker/run/write-retry.ts";
import { handClock } from "../../../helpers/hand-clock.ts";

const ASK_MS = 100;
const settled = () => new Promise((resolve) => setImmediate(resolve));

test("what a call reserves and what it took wait while Redis refuses writes, and are sent again unchanged", async () => {
  const clock = handClock();
  const redis = { refuses: true };
  const sent: unknown[][] = [];
  const write = async (...input: unknown[]) => {
    sent.push(input);
    if (redis.refuses) throw new Error("NOREPLICAS Not enough good replicas to write.");
  };
  const book: BudgetBook = {
    reserve: (...input) => write("reserve", ...input).then(() => ({ status: "granted", used: 0 })),
    settle: (...input) => write("settle", ...input),
  };
  const logger = createLogger({ destination: { write: () => {} } });
  const retry = createWriteRetry({ clock, logger, abandoned: new AbortController().signal });
  const { reserve, settle } = withBudgetRetry(book, retry);
  const amount = { tokens: 1, costUsd: 0 };
  for (const send of [() => reserve([], "sa-1.1.1", amount, true), () => settle([], "sa-1.1.1", amount)]) {
    redis.refuses = true;
    const answered = send();
    await settled();
    redis.refuses = false;
    clock.advance(ASK_MS);
    await answered;
    const [first, ...again] = sent.splice(0);
    expect(again).toEqual([first]);
  }
});
