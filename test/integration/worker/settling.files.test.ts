/** Guarantee: the list of a run's files is in its reply, and in no turn after an end that a message has put off. */
import { expect, test } from "vitest";
import { systemClock } from "../../../src/shared/clock.ts";
import { run } from "../../../src/worker/run/run.ts";
import { createBaseTools } from "../../../src/worker/tools/builtin/index.ts";
import { kindsWith, patientClock, runContextOf } from "../../helpers/run-context.ts";
import { LONG_TIMING, openStage } from "../../stage/stage.ts";

const done = { content: [{ type: "text" as const, text: "done" }] };
const note = (file_path: string) => ({
  content: [{ type: "tool_use" as const, name: "write_file", input: { file_path, content: "x" } }],
});

test("a turn that follows a put-off end commits no list of files", async () => {
  const installation = await openStage({
    timing: LONG_TIMING,
    scenario: { turns: [note("a"), done, note("b"), done] },
  });
  const { store } = installation;
  const agent = await installation.task("work");
  const listed: (string[] | undefined)[] = [];
  const settle: typeof store.settle = async (address, input) => {
    const { progress } = await installation.record(agent);
    listed.push(progress?.files?.map(({ path }) => path));
    if (listed.length === 1) await installation.send(agent, "one more thing");
    return store.settle(address, input);
  };
  const context = runContextOf(installation, {
    clock: patientClock(),
    specs: kindsWith(createBaseTools({ clock: systemClock })),
    store: { ...store, settle },
  });
  await run(context, { address: agent, wake: 1, timesTaken: 1 });
  expect(listed).toEqual([undefined, undefined]);
  expect((await installation.reply(agent)).files?.map(({ path }) => path)).toEqual(["a", "b"]);
});
