/** Finds the machine's Redis server binary for the tests, and lists the test files that need one. */
import { accessSync, constants } from "node:fs";
import { delimiter, isAbsolute, join } from "node:path";

/** Returns the path of the binary: `REDIS_SERVER_BIN`, else `redis-server` on the PATH; undefined if there is none. */
export function findServerBinary(env: NodeJS.ProcessEnv = process.env): string | undefined {
  const name = env.REDIS_SERVER_BIN ?? "redis-server";
  const places = isAbsolute(name) ? [name] : (env.PATH ?? "").split(delimiter).map((dir) => join(dir, name));
  return places.find((path) => {
    try {
      accessSync(path, constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
}

/**
 * Files (globs) that start, stop or starve a server of their own, or take too long on the embedded one. Without a binary
 * they are left out and counted as skipped; all other files then run on the embedded server.
 */
export const NEED_A_SERVER: readonly string[] = [
  "test/integration/**/*.test.ts",
  "test/chaos/**/*.test.ts",
  "test/soak/soak.test.ts",
  "test/e2e/**/*.test.ts",
  "test/deploy/**/*.test.ts",
  "test/helpers/{crash-line,monitor,proxy,reaper,redis}.test.ts",
  "test/unit/cli/local/{private-redis,redis}.test.ts",
  "test/unit/shared/redis/connection/{connection,heartbeat,server-check}.test.ts",
];
