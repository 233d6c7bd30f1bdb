/** The pause of an installation on the command line: read, change and print it. */
import type { Clock } from "../../shared/clock.ts";
import type { Pause, PauseState } from "../../shared/redis/pause.ts";
import { withoutPassword } from "../../shared/redis-url.ts";
import type { CommandContext } from "../command.ts";
import { askInstallation, requireRedisUrl } from "./redis.ts";
import { renderPause } from "./wait.ts";

/** Reads the pause of the installation under `prefix`. Throws `redis_unavailable` with the reason. */
export function pauseOf(redisUrl: string, prefix: string, clock: Clock): Promise<PauseState | undefined> {
  return askInstallation(redisUrl, prefix, clock, ({ pause }) => pause.state());
}

/** Prints on standard error that all runs wait, if the installation is paused. */
export function notePause({ output }: Pick<CommandContext, "output">, state: PauseState | undefined): void {
  if (state) output.note(renderPause(state));
}

/** Calls `work` with the pause of the installation on REDIS_URL. Throws `invalid_config` without REDIS_URL. */
export async function onInstallation<T>(
  { config, clock }: CommandContext,
  verb: string,
  work: (pausing: Pause) => Promise<T>,
): Promise<{ state: T; address: string }> {
  const redisUrl = requireRedisUrl(config, `${verb} acts on the workers of a Redis`);
  const state = await askInstallation(redisUrl, config.prefix, clock, ({ pause }) => work(pause));
  return { state, address: withoutPassword(redisUrl) };
}
