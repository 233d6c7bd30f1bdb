/** Guarantee: `run` prints a long answer whole, although the reply has only a part of it. */
import { expect, test } from "vitest";
import { programOn } from "../helpers/program-on-stage.ts";
import { openStage } from "../stage/stage.ts";

test("run prints the whole of a text that its reply has shortened, with --json as full_text", async () => {
  const text = Array.from({ length: 1_000 }, (_, n) => `line ${n}`).join("\n");
  const stage = await openStage({ scenario: { turns: [{ content: [{ type: "text", text }] }] } });
  await stage.startWorker();
  const program = programOn(stage);
  const { code, stdout } = await program("run", "Count");
  expect(code).toBe(0);
  const printed = stdout.join("\n").split("\n");
  expect(printed).toEqual(expect.arrayContaining(text.split("\n").map((line) => `  ${line}`)));
  expect(printed.join("\n")).not.toContain("shortened");
  const { replies } = JSON.parse((await program("run", "Count", "--json")).stdout.join(""));
  expect(replies).toMatchObject([{ truncated: true, full_text: text }]);
  expect(replies[0].summary.length).toBeLessThanOrEqual(5_000);
});
