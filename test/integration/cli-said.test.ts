/** Guarantee: what a verb says without --json is what it did. */
import { expect, test } from "vitest";
import { programOn } from "../helpers/program-on-stage.ts";
import { openStage } from "../stage/stage.ts";

test("finish of an agent that has ended says how it ended", async () => {
  const stage = await openStage();
  const program = programOn(stage);
  await stage.parent("parent-0").spawn({ name: "w" });
  await program("destroy", "w");
  expect((await program("finish", "w")).stdout).toEqual(["It had already ended (destroyed)."]);
});

test("a schedule says that it is paused, and a pause takes no time", async () => {
  const stage = await openStage();
  const program = programOn(stage);
  const watch = { schedule_id: "watch", every_ms: 1_800_000, prompt: "Look." };
  await stage.parent("parent-0").schedule(watch);
  const both = await program("schedule", "watch", "--pause", "--every", "5m");
  expect(both).toMatchObject({ code: 2, stderr: [expect.stringContaining("Choose one: --pause")] });
  expect((await program("schedule", "watch")).stdout.join()).toContain("  next ");
  const paused = await program("schedule", "watch", "--pause");
  expect(paused.stdout).toEqual(["watch  every 1800 s  paused  Look."]);
});

test("only a second pause says that the first reason is kept", async () => {
  const program = programOn(await openStage());
  const note = "It was paused already: the first reason is kept.";
  expect((await program("pause", "--reason", "lunch")).stderr).not.toContain(note);
  expect((await program("pause", "--reason", "lunch")).stderr).not.toContain(note);
  expect((await program("pause", "--reason", "tea")).stderr).toContain(note);
});
