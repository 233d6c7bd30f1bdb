import { type EmbeddedRedis, startEmbeddedRedis } from "../../src/cli/local/embedded-redis.ts";
import { systemClock } from "../../src/shared/clock.ts";
import { closeAtEnd } from "./cleanup.ts";

/** Starts the test's own embedded server; the test's end stops it. `preload`: a module that its process loads first. */
export async function startTestEmbedded(preload?: string): Promise<EmbeddedRedis> {
  const loaders = preload === undefined ? ["tsx"] : ["tsx", preload];
  const nodeArguments = loaders.flatMap((loader) => ["--import", loader]);
  const server = await startEmbeddedRedis({ clock: systemClock, nodeArguments });
  closeAtEnd(() => server.stop());
  return server;
}
