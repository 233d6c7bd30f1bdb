/** Guarantee: `schedule` shows what a parent has, in words that reach a terminal as they are, and says what it does not have. */
import { expect, test } from "vitest";
import { programOn } from "../helpers/program-on-stage.ts";
import { openStage } from "../stage/stage.ts";

test("a schedule is one line without control characters; one that is not there is refused", async () => {
  const stage = await openStage();
  const program = programOn(stage);
  const prompt = "look\u001b[2J at\nthe tests";
  await stage.parent("parent-0").schedule({ schedule_id: "nightly", cron: "0 3 * * *", prompt });
  const { stdout } = await program("schedule");
  expect(stdout).toEqual([
    expect.stringMatching(/^nightly {2}0 3 \* \* \* UTC {2}next \S+ {2}look at the tests$/),
  ]);
  expect((await program("schedule", "nightly")).stdout).toEqual(stdout);
  expect(await program("schedule", "hourly")).toMatchObject({
    code: 2,
    stderr: [expect.stringContaining('no schedule "hourly"')],
  });
});
