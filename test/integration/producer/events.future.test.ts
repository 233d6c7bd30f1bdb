/** Guarantee: who reads events on after a number that lies in the future is refused, and does not wait until then. */
import { expect, test } from "vitest";
import { refusal } from "../../helpers/parents.ts";
import { openStage } from "../../stage/stage.ts";

test("a number in the future is refused at the first read; one that is a little ahead of Redis is not", async () => {
  const parent = (await openStage()).parent();
  const numberIn = (ms: number) => `${Date.now() + ms}-0`;
  const future = parent.events({ after: numberIn(25 * 3_600_000) });
  await expect(future.next()).rejects.toMatchObject(refusal("invalid_input", /lies in the future/));
  const stop = new AbortController();
  const near = parent.events({ after: numberIn(3_600_000), signal: stop.signal }).next();
  await parent.list();
  stop.abort();
  expect(await near).toEqual({ done: true, value: undefined });
});
