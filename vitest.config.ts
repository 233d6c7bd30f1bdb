import { defineConfig } from "vitest/config";
import { EMBEDDED_SUBSET } from "./test/setup/embedded-subset.ts";

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
          exclude: ["**/node_modules/**", "test/**/fixtures/**"],
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
