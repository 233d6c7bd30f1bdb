/** What `run` says when it is interrupted before it has begun anything: only what is true. */
import { expect, test } from "vitest";
import { type CommandContext, EXIT } from "../../src/cli/command.ts";
import { runPrompts } from "../../src/cli/local/fan-out.ts";
import type { LocalService } from "../../src/cli/local/service.ts";
import { createOutput } from "../../src/cli/terminal/output.ts";
import { systemClock } from "../../src/shared/clock.ts";
import { loadConfig } from "../../src/shared/config.ts";
import { createLogger } from "../../src/shared/logger.ts";
import { openStage } from "../stage/stage.ts";

test("an interruption before the first sub-agent speaks of none that hands back", async () => {
  const stage = await openStage();
  const written: string[] = [];
  const stream = { on: () => {}, write: (text: string) => written.push(text) };
  const context: Partial<CommandContext> = {
    clock: systemClock,
    config: loadConfig({}),
    logger: createLogger({ level: "silent" }),
    output: createOutput(stream, stream, {}),
    signal: AbortSignal.abort(),
  };
  const service: Partial<LocalService> = {
    client: stage.client(),
    signal: new AbortController().signal,
    workers: [],
  };
  const prompts = [{ name: "one", prompt: "go" }];
  const code = await runPrompts(context as CommandContext, service as LocalService, prompts, { json: false });
  expect(code).toBe(EXIT.interrupted);
  expect(written.join("")).not.toContain("Finishing");
  expect(written.join("")).toContain("Interrupted: none destroyed.");
});
