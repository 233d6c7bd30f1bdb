/** Guarantee: the texts of all calls are published every 100 ms for as long as they come, and nothing without text. */
import { expect, test } from "vitest";
import { keepSecret } from "../../../../src/shared/secrets.ts";
import { TextFeeds } from "../../../../src/worker/run/text-feed.ts";
import { handClock } from "../../../helpers/hand-clock.ts";

const KEY = "sk-test-f1e2e3d4s5f6g7h8";
keepSecret(KEY);

/** The feeds of a process, and the texts that were published with the turns of their calls. */
function scene() {
  const clock = handClock();
  const told: string[] = [];
  const feeds = new TextFeeds(clock);
  const open = (turn: number) => feeds.open(turn, (of, text) => told.push(`${of}: ${text}`));
  return { clock, open, told: () => told.splice(0), pass: () => clock.advance(100) };
}

test("text that goes on coming is published in every round, of each call under its own turn", () => {
  const { open, told, pass, clock } = scene();
  const [first, second] = [open(1), open(2)];
  first.push("a. ");
  second.push("b. ");
  first.push("c. ");
  expect(told()).toEqual([]);
  pass();
  expect(told()).toEqual(["1: a. c. ", "2: b. "]);
  pass();
  expect([told(), clock.pending]).toEqual([[], 0]);
  second.push("d. ");
  pass();
  expect(told()).toEqual(["2: d. "]);
  first.push("e. ");
  pass();
  expect(told()).toEqual(["1: e. "]);
});

test("a round in which all text is held back, since a secret may begin with it, publishes nothing", () => {
  const { open, told, pass } = scene();
  const feed = open(1);
  feed.push(KEY.slice(0, 4));
  pass();
  expect(told()).toEqual([]);
  feed.close();
  expect(told()).toEqual([`1: ${KEY.slice(0, 4)}`]);
});

test("a call that is over publishes the rest at once, and nothing in the round that was due", () => {
  const { open, told, pass } = scene();
  const feed = open(1);
  feed.push("the end");
  feed.close();
  expect(told()).toEqual(["1: the end"]);
  pass();
  expect(told()).toEqual([]);
  const silent = open(2);
  silent.close();
  expect(told()).toEqual([]);
});
