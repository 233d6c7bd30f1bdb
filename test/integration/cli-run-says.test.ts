/** What `run` says when it begins nothing: only what is true, and in the words of the command line. */
import { expect, test } from "vitest";
import { type CommandContext, EXIT } from "../../src/cli/command.ts";
import { runPrompts } from "../../src/cli/local/fan-out.ts";
import type { LocalService } from "../../src/cli/local/service.ts";
import { createOutput } from "../../src/cli/terminal/output.ts";
import { systemClock } from "../../src/shared/clock.ts";
import { loadConfig } from "../../src/shared/config.ts";
import { createLogger } from "../../src/shared/logger.ts";
import type { LimitsInput } from "../../src/shared/protocol/limits.ts";
import { openStage, type Stage } from "../stage/stage.ts";

/**
 * Runs a prompt as `planner-7`; returns the exit code and all that was written. `timeout`: ms until it finishes early; what is left
 * then is destroyed.
 */
async function run(
  stage: Stage,
  signal: AbortSignal,
  { limits = {}, ...more }: { limits?: LimitsInput; timeout?: number; paused?: LocalService["paused"] } = {},
) {
  const written: string[] = [];
  const stop = new AbortController();
  const write = (text: string) => {
    written.push(text);
    if (text.startsWith("Finishing")) stop.abort();
  };
  const stream = { on: () => {}, write };
  const context: Partial<CommandContext> = {
    clock: systemClock,
    config: loadConfig({}),
    logger: createLogger({ level: "silent" }),
    output: createOutput(stream, stream, {}),
    signal,
  };
  const service: Partial<LocalService> = {
    client: stage.client(),
    signal: stop.signal,
    workers: [],
    paused: more.paused,
  };
  const { timeout } = more;
  const options = {
    ...{ json: false, parentId: "planner-7", profile: { limits } },
    ...(timeout !== undefined && { timeout }),
  };
  const prompts = [{ name: "one", prompt: "go" }];
  const code = await runPrompts(context as CommandContext, service as LocalService, prompts, options);
  return { code, said: written.join("") };
}

test("an interruption before the first sub-agent speaks of none that hands back", async () => {
  const { code, said } = await run(await openStage(), AbortSignal.abort());
  expect(code).toBe(EXIT.interrupted);
  expect(said).not.toContain("Finishing");
  expect(said).toContain("Interrupted: none destroyed.");
});

test("flags wider than the registered profile are refused as those of the verb", async () => {
  const stage = await openStage();
  await stage.parent("planner-7").register({ limits: { max_turns: 7 } });
  const { code, said } = await run(stage, new AbortController().signal, { limits: { max_turns: 9 } });
  expect(code).toBe(EXIT.usage);
  expect(said).toMatch(
    /^one: run \(under version 1 of the registered profile\) refused, nothing was done: limits\.max_turns 9 is more/,
  );
});

test("a run whose time is over while all runs are paused says that its results wait for the resume", async () => {
  const stage = await openStage();
  const ask = (paused?: LocalService["paused"]) =>
    run(stage, new AbortController().signal, { timeout: 1, ...(paused && { paused }) });
  expect((await ask()).said).toMatch(
    /^Finishing: 1 sub-agent hands back what was found; Ctrl-C destroys what is left\.$/m,
  );
  expect((await ask({ at: "2026-11-01T12:00:00.000Z" })).said).toMatch(
    /^Finishing: 1 sub-agent hands back what was found, after subagent-queue resume; Ctrl-C destroys what is left\.$/m,
  );
});
