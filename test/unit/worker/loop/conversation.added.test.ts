/** Guarantee: what the next prompt adds to the last one is estimated without what was left out since, and with nothing older. */
import { expect, test } from "vitest";
import { entryKey } from "../../../../src/shared/protocol/log.ts";
import { asked, call, type Story, text, used } from "./story.ts";

const LONG = "a long word ".repeat(50);

function long(turns: number): Story {
  const story = asked();
  for (let k = 1; k <= turns; k++)
    story.asks(text(`${k} ${LONG}`), call(`c${k}`, "page")).result(`c${k}`, LONG);
  return story;
}

const added = (story: Story) => story.log().conversation.addedTokens();
/** Four characters a token. */
const TOKENS = LONG.length / 4;

test("results that were left out make the next prompt shorter once: an answer later they count no more", () => {
  const story = long(4);
  expect(added(story)).toBeGreaterThan(0.9 * TOKENS);
  story.cleared(5);
  expect(added(story)).toBeLessThan(-TOKENS);
  story.asks(call("c5", "page")).result("c5", LONG);
  expect(added(story)).toBeGreaterThan(0.9 * TOKENS);
});

test("so do messages for which a summary stands", () => {
  const story = long(4);
  story.add(entryKey.compacted(story.n, 5), {
    before: 5,
    summary: "short",
    model: "m",
    usage: used(7),
    cost_usd: 0,
    duration_ms: 1,
  });
  expect(added(story)).toBeLessThan(-2 * TOKENS);
  story.asks(call("c5", "page")).result("c5", LONG);
  expect(added(story)).toBeGreaterThan(0.9 * TOKENS);
});

test("a message that the parent sends meanwhile makes it longer", () => {
  const story = asked().asks(call("c1")).result("c1", "done");
  const before = added(story);
  expect(added(story.user(LONG)) - before).toBeGreaterThan(0.9 * TOKENS);
});
