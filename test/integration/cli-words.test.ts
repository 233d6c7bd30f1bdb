/** Guarantee: what a verb is asked for happens, or it says why not; what it shows of an agent is what stands there. */
import { expect, test } from "vitest";
import { runHere } from "../helpers/program.ts";
import { openStage, type Stage } from "../stage/stage.ts";

const VARIABLE = /^(REDIS_URL|ANTHROPIC_|SUBAGENT_|NODE_ENV|NO_COLOR|FORCE_COLOR)/;
const CLEAN = Object.fromEntries(
  Object.keys(process.env)
    .filter((name) => VARIABLE.test(name))
    .map((name) => [name, undefined]),
);

/** Where the program runs on an installation, as the parent of its first agents. */
function placeOn({ url, prefix, workspaceRoot }: Stage) {
  const env = {
    ...CLEAN,
    REDIS_URL: url,
    SUBAGENT_PREFIX: prefix,
    SUBAGENT_WORKSPACES: workspaceRoot,
    SUBAGENT_PARENT: "parent-0",
    SUBAGENT_LOG_LEVEL: "silent",
  };
  return { cwd: process.cwd(), env };
}

/** The program there. */
function programOn(stage: Stage) {
  return (...args: string[]) => runHere(args, placeOn(stage));
}

test("run refuses a tool that the definition does not have, as a spawn does", async () => {
  const stage = await openStage();
  await stage.startWorker();
  const { code, stdout, stderr } = await programOn(stage)(
    ...["run", "--agent", "explorer", "--tools", "write_file", "hi"],
  );
  expect({ code, stdout }).toEqual({ code: 2, stdout: [] });
  expect(stderr.join("\n")).toMatch(
    /task refused, nothing was done: tools write_file is more than is allowed/,
  );
});
