/** Guarantee: the text of a call reaches those who watch while it comes, whole at its end, and without a secret at any moment. */
import { expect, test } from "vitest";
import { keepSecret } from "../../../../src/shared/secrets.ts";
import { TextFeeds } from "../../../../src/worker/run/text-feed.ts";
import { handClock } from "../../../helpers/hand-clock.ts";

const KEY = "sk-test-a1b2c3d4e5f6g7h8";
keepSecret(KEY);

const DELTA_INTERVAL_MS = 100;

/** A call that is watched, and the texts that were published of it. */
function watchedCall() {
  const clock = handClock();
  const told: string[] = [];
  const feed = new TextFeeds(clock).open(1, (_turn, text) => told.push(text));
  return { feed, told, pass: () => clock.advance(DELTA_INTERVAL_MS) };
}

test("what is published while a call goes on has no secret, also if one comes in two parts", () => {
  const { feed, told, pass } = watchedCall();
  feed.push(`I know ${KEY}, and ${KEY.slice(0, 9)}`);
  pass();
  expect(told).toEqual(["I know [redacted], and "]);
  feed.push(`${KEY.slice(9)} as well.`);
  pass();
  feed.close();
  expect(told.join("")).toBe("I know [redacted], and [redacted] as well.");
});

test("the last words of a call are published, though a secret might have begun with them", () => {
  const { feed, told, pass } = watchedCall();
  feed.push(`A key begins with ${KEY.slice(0, 3)}`);
  pass();
  feed.close();
  expect(told.join("")).toBe("A key begins with sk-");
});
