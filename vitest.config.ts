import { defineConfig } from "vitest/config";
import { EMBEDDED_SUBSET } from "./test/setup/embedded-subset.ts";
import { findServerBinary, NEED_A_SERVER } from "./test/setup/server-binary.ts";

const leftOut = findServerBinary() === undefined ? NEED_A_SERVER : [];

export default defineConfig({
  test: {
    pool: "forks",
    setupFiles: ["test/setup/leak-check.ts"],
    reporters: ["default", "./test/setup/closing-line.ts"],
    testTimeout: 20_000,
    hookTimeout: 30_000,
    projects: [
      {
        extends: true,
        test: {
          name: "redis",
          include: ["test/**/*.test.ts"],
          exclude: ["**/node_modules/**", "test/**/fixtures/**", ...leftOut],
          globalSetup: ["test/setup/redis-server.ts"],
        },
      },
      {
        extends: true,
        test: {
          name: "embedded",
          include: [...EMBEDDED_SUBSET],
          globalSetup: ["test/setup/redis-server.ts"],
        },
      },
    ],
  },
});
