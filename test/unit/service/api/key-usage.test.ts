/** Guarantee: the use of a key costs one note a minute, and a request waits for none. */
import { expect, test } from "vitest";
import { createKeyUses } from "../../../../src/service/api/key-usage.ts";
import { handClock } from "../../../helpers/hand-clock.ts";

function scene(note: (keyId: string) => Promise<void> = async () => {}) {
  const clock = handClock();
  const noted: string[] = [];
  const use = createKeyUses(clock, (keyId) => {
    noted.push(keyId);
    return note(keyId);
  });
  return { clock, noted, use };
}

test("a key that is used all the time is noted once a minute, and each key by itself", () => {
  const { clock, noted, use } = scene();
  for (let second = 0; second < 120; second += 1) {
    use("a");
    if (second === 30) use("b");
    clock.advance(1_000);
  }
  expect(noted).toEqual(["a", "b", "a"]);
});

test("a note that fails breaks nothing, and is not tried again at once", async () => {
  const { noted, use } = scene(() => Promise.reject(new Error("Redis is away")));
  use("a");
  use("a");
  await new Promise((resolve) => setImmediate(resolve));
  expect(noted).toEqual(["a"]);
});

test("a process remembers 10,000 keys at most", () => {
  const { noted, use } = scene();
  for (let n = 0; n < 10_000; n += 1) use(`${n}`);
  use("0");
  expect(noted).toHaveLength(10_000);
  use("one more");
  use("0");
  expect(noted.slice(10_000)).toEqual(["one more", "0"]);
});
