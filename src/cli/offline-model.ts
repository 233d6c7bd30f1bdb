/** `offline-model`: the offline model as a server of its own, for other processes and machines. */
import { readFile } from "node:fs/promises";
import { createOfflineModel, OfflineModelError, Scenario } from "../offline/server.ts";
import { messageOf, SubagentError } from "../shared/errors.ts";
import { OFFLINE_WARNING } from "./banner.ts";
import type { CommandContext } from "./command.ts";
import { EXIT } from "./exit-code.ts";
import { whenAborted } from "./service.ts";

/** What the command line says. */
export interface OfflineModelFlags {
  host: string;
  port: number;
  latencyMs: number;
  /** Calls answered at a time; default any number. */
  parallel?: number;
  /** File with a scenario to play. */
  scenario?: string;
  /** File to which the ledger is appended. */
  ledger?: string;
}

/** Runs the command until it is told to stop. Throws `invalid_input` for the scenario, `setup_failed` for the rest. */
export async function offlineModel(context: CommandContext, flags: OfflineModelFlags): Promise<number> {
  const { host, port, latencyMs, parallel } = flags;
  const scenario = flags.scenario === undefined ? undefined : await readScenario(flags.scenario);
  const server = createOfflineModel({ host, port, latencyMs, parallel, scenario, ledgerPath: flags.ledger });
  try {
    await server.start();
    context.output.result(OFFLINE_WARNING, `ready: ANTHROPIC_BASE_URL=${server.url}`);
    await whenAborted(context.signal);
    return EXIT.done;
  } catch (error) {
    if (error instanceof OfflineModelError) throw new SubagentError("setup_failed", error.message, {}, error);
    throw error;
  } finally {
    await server.stop();
  }
}

async function readScenario(path: string): Promise<Scenario> {
  const refused = (why: string) =>
    new SubagentError("invalid_input", `The scenario ${JSON.stringify(path)} cannot be played: ${why}.`);
  let json: unknown;
  try {
    json = JSON.parse(await readFile(path, "utf8"));
  } catch (error) {
    throw refused(messageOf(error));
  }
  const parsed = Scenario.safeParse(json);
  if (parsed.success) return parsed.data;
  const issue = parsed.error.issues[0];
  throw refused(`${issue?.path.join(".") || "it"}: ${issue?.message}`);
}
