/** Guarantee: who hands over work by the command line hears that no worker is there for it, and what its agent does instead. */
import { expect, test } from "vitest";
import { programOn } from "../helpers/program-on-stage.ts";
import { until } from "../helpers/until.ts";
import { openStage } from "../stage/stage.ts";

const MISSING = expect.stringMatching(/^No worker is live on \S+: the run waits until one joins/);
const QUESTION = { type: "tool_use" as const, name: "ask_parent", input: { question: "Which colour?" } };

test("of a message, an answer and a new beginning it is told where no worker is live, and only there", async () => {
  const stage = await openStage({ scenario: { turns: [{ content: [QUESTION] }] } });
  const worker = await stage.startWorker();
  const program = programOn(stage);
  const parent = stage.parent("parent-0");
  for (const name of ["v", "w"]) {
    await parent.spawn({ name });
    await parent.send(name, "paint");
  }
  const isAsked = async (name: string) => (await parent.get(name)).status === "waiting";
  await until(async () => (await isAsked("v")) && (await isAsked("w")));
  expect((await program("answer", "v", "red")).stderr).toEqual([]);
  await worker.stop();
  expect(await program("send", "w", "Be quick.")).toMatchObject({
    stdout: ["Delivered to run 1."],
    stderr: [expect.stringContaining("w waits for an answer and reads this after it"), MISSING],
  });
  expect(await program("answer", "w", "blue")).toMatchObject({
    stdout: ["Answered w: it goes on."],
    stderr: [MISSING],
  });
  expect((await program("send", "w", "Go on.")).stderr).toEqual([MISSING]);
  expect((await program("destroy", "w")).stdout).toEqual(["Destroyed w."]);
  expect((await program("destroy", "w")).stdout).toEqual(["w had already ended (destroyed)."]);
  const begun = await program("continue", "w", "Once more.", "--request-key", "again");
  expect(begun.stderr).toEqual([MISSING]);
  expect((await program("continue", "w", "Once more.", "--request-key", "again")).stdout).toEqual(
    begun.stdout,
  );
});
