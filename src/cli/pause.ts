/** `pause` and `resume`: an operator stops all spending of an installation, and lets it go on. */
import type { Clock } from "../shared/clock.ts";
import { SubagentError } from "../shared/errors.ts";
import { keysUnder } from "../shared/protocol/keys.ts";
import { createPause, type Pause, PauseReason, type PauseState } from "../shared/redis/pause.ts";
import type { CommandContext } from "./command.ts";
import { EXIT } from "./exit-code.ts";
import { toJsonLine } from "./json.ts";
import { askRedis, withoutPassword } from "./redis-source.ts";
import { plainLine } from "./text.ts";

/** What the command line says to both. */
export interface ResumeFlags {
  /** The result as JSON. */
  json: boolean;
}

/** What it says to `pause`. */
export interface PauseFlags extends ResumeFlags {
  /** For whoever wonders. */
  reason?: string;
}

/** Runs `pause`; also an installation that is paused already is an answer. Throws `invalid_input` for a wrong reason. */
export async function pause(context: CommandContext, { reason, json }: PauseFlags): Promise<number> {
  const checked = PauseReason.optional().safeParse(reason);
  if (!checked.success) {
    throw new SubagentError("invalid_input", "--reason cannot be used: write 1 to 500 characters.");
  }
  const { state, place } = await onInstallation(context, "pause", (pausing) => pausing.pause(checked.data));
  context.output.result(
    json
      ? toJsonLine({ paused: true, ...state })
      : `The installation on ${place} is ${pausedSince(state)}: no model call begins and no run is taken; calls in flight may still end.`,
  );
  if (checked.data !== undefined && state.reason !== checked.data) {
    context.output.note("It was paused already: the reason given first stands, this one is not kept.");
  }
  if (!json) context.output.note("Messages are still accepted. Go on with: subagent-queue resume");
  return EXIT.done;
}

/** Runs `resume`; also an installation that was not paused is an answer. */
export async function resume(context: CommandContext, { json }: ResumeFlags): Promise<number> {
  const { state, place } = await onInstallation(context, "resume", (pausing) => pausing.resume());
  const sentence = state
    ? `The installation on ${place} goes on. It was ${pausedSince(state)}.`
    : `The installation on ${place} was not paused.`;
  context.output.result(json ? toJsonLine({ paused: false, was: state ?? null }) : sentence);
  return EXIT.done;
}

/** What stands about the installation under `prefix`. Throws `redis_unavailable` with the reason. */
export function pauseOf(redisUrl: string, prefix: string, clock: Clock): Promise<PauseState | undefined> {
  return askRedis(redisUrl, clock, (redis) => createPause(redis, keysUnder(prefix)).state());
}

/** Says on standard error that nothing will happen for now, where that is so. */
export function notePause({ output }: Pick<CommandContext, "output">, state: PauseState | undefined): void {
  if (state) output.note(`Nothing is worked on until subagent-queue resume: ${pausedSince(state)}.`);
}

/** The state in words, e.g. `paused since 2026-11-01T12:00:00.000Z (the budget is used up)`. */
export function pausedSince({ at, reason }: PauseState): string {
  return `paused since ${at}${reason === undefined ? "" : ` (${plainLine(reason)})`}`;
}

async function onInstallation<T>(
  { config, clock }: CommandContext,
  verb: string,
  work: (pausing: Pause) => Promise<T>,
): Promise<{ state: T; place: string }> {
  const { redisUrl, prefix } = config;
  if (redisUrl === undefined) {
    const sentence = `REDIS_URL is not set: ${verb} acts on the workers of a Redis, e.g. redis://host:6379.`;
    throw new SubagentError("invalid_config", sentence);
  }
  const state = await askRedis(redisUrl, clock, (redis) => work(createPause(redis, keysUnder(prefix))));
  return { state, place: withoutPassword(redisUrl) };
}
